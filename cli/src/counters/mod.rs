//! `covalent counters`: the counters of a node's daemon, read from shared memory. No process is
//! queried, so the command works when the daemon is unresponsive or after it crashed.

mod show;

#[cfg(test)]
pub use self::show::tests::widest;
use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use covalent_counters::{CountersFile, ReadError, Snapshot};

use self::show::{Reading, table};
use crate::{
    args::{Format, NodeArgs},
    interrupt::Interrupt,
    output::{self, Theme},
    status,
};

/// File name of the counters beside the daemon's socket.
const COUNTERS: &str = "counters";

/// `covalent counters`
#[derive(Debug, Args)]
#[command(
    after_help = "Reads the file `counters` in `node.runtime_dir`, which root, the daemon's user \
    and the members of `node.group` may read. The file remains after the daemon has ended or died. \
    The next daemon keeps it as `counters.before` (--file). The first line shows the daemon's \
    state. docs/counters.md describes the file and the ring beside it byte for byte.\n\n\
    Examples:\n  \
    covalent counters\n  \
    covalent counters --watch\n  \
    covalent counters --file /run/covalent/counters.before --format json | jq '.series[] | \
    select(.name | test(\"dropped\"))'"
)]
pub struct CountersArgs {
    /// Which node.
    #[command(flatten)]
    node: NodeArgs,
    /// The file, instead of the one beside the daemon's socket.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Also show counters that are 0.
    #[arg(long)]
    all: bool,
    /// Show changed counters once a second, until Ctrl-C. With --format json, each sample is one
    /// line.
    #[arg(long, short)]
    watch: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// How often `--watch` looks.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs `covalent counters`.
///
/// # Errors
/// When there is no such file, or it cannot be read.
pub fn run(args: &CountersArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let path = match &args.file {
        Some(file) => file.clone(),
        None => status::socket(&args.node)?.with_file_name(COUNTERS),
    };
    let take_snapshot = || -> Result<Snapshot> {
        // Anew each time: another daemon may have put another file in its place.
        let read = CountersFile::open(&path).and_then(|file| file.read());
        read.with_context(|| {
            let path = path.display();
            format!(
                "{path}: no counters (a daemon writes them unless `dataplane.counters_ms` is \
                0; reading them takes root, the daemon's user or `node.group`)"
            )
        })
    };
    let mut before = print(args, &take_snapshot()?, None)?;
    if !args.watch {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        interrupt.sleep(POLL_INTERVAL)?;
        before = match take_snapshot() {
            Ok(snapshot) => print(args, &snapshot, Some(&before))?,
            // Between two daemons, or a writer that was held up.
            Err(error) if passes(&error) => before,
            Err(error) => return Err(error),
        };
    }
}

fn passes(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<ReadError>() {
        Some(ReadError::Busy { .. }) => true,
        Some(ReadError::System(error)) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn print(args: &CountersArgs, snapshot: &Snapshot, before: Option<&Reading>) -> Result<Reading> {
    let reading = Reading::of(snapshot);
    match args.format {
        Format::Table => output::line(&table(Theme::of_stdout(), &reading, before, args.all))?,
        Format::Json if args.watch => output::line(&serde_json::to_string(&reading)?)?,
        Format::Json => output::json(&reading)?,
    }
    Ok(reading)
}
