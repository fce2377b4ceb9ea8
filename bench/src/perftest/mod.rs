//! perftest runs on the user's own hardware, put into the same table as ours.

mod json;
mod parse;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use self::parse::{Found, Output};
use crate::{
    arguments,
    host::Host,
    kept::{Kept as _, now_unix_ms},
    latency,
    report::{Block, Goal, Report, Suite},
};

/// Most bytes of a file that are read: thousands of outputs.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Outputs of perftest beside our last result.
#[derive(Debug, Clone, Args)]
pub struct Perftest {
    /// Output of `ib_send_lat`, `ib_write_lat`, `ib_read_lat`, `ib_atomic_lat` or one of the `_bw`
    /// programs, printed or written with --out_json.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Folder of our result of `latency`, to stand beside.
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub beside: PathBuf,
    /// Output options. With --results the result is kept, and `page` includes it.
    #[command(flatten)]
    pub output: arguments::Output,
}

/// What was read. The host of the report is the machine that read it.
pub type Results = Report<Run>;

/// The content of the files.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Outputs, in their order.
    outputs: Vec<Output>,
    /// Our last result, to stand beside.
    #[serde(skip)]
    ours: Option<latency::Results>,
    /// Lines that do not fit their header, each with its file.
    #[serde(skip)]
    unread: Vec<String>,
}

impl Suite for Run {
    const NAME: &'static str = "perftest";
    const TITLE: &'static str = "perftest on other machines";
    // Few readers have such files: without any there is no section.
    const MISSING: &'static str = "";

    /// Other machines have no goals.
    fn judge(&self) -> Vec<Goal> {
        Vec::new()
    }

    fn blocks(report: &Results) -> Vec<Block> {
        table::blocks(&report.outputs)
    }

    /// perftest's columns.
    fn terminal(report: &Results) -> String {
        table::table(&report.outputs, report.ours.as_ref(), &report.unread)
    }
}

/// Reads the files and prints them beside our last result. Returns whether every line of figures
/// was readable.
pub fn read(options: &Perftest) -> Result<bool> {
    let mut run = Run {
        outputs: Vec::new(),
        ours: latency::Results::read_from(&options.beside)?,
        unread: Vec::new(),
    };
    for file in &options.files {
        let found = read_file(file)?;
        for line in &found.unread_lines {
            run.unread.push(format!("{}:{line}", file.display()));
        }
        ensure!(
            !found.outputs.is_empty(),
            "{} has no figures of perftest\n  \
             cure: pass the output of ib_send_lat or a similar program, at least from the line \
             `#bytes #iterations …` on",
            file.display()
        );
        run.outputs.extend(found.outputs);
    }
    let results = Results::new(now_unix_ms(), Host::observed(), run);
    results.report(&options.output)?;
    Ok(results.unread.is_empty())
}

fn read_file(file: &Path) -> Result<Found> {
    let reading = || format!("reading {}", file.display());
    let bytes = fs::metadata(file).with_context(reading)?.len();
    ensure!(
        bytes <= FILE_BYTES_MAX,
        "{} has {bytes} bytes, more than perftest prints (at most {FILE_BYTES_MAX} are read)",
        file.display()
    );
    let text = fs::read(file).with_context(reading)?;
    let text = String::from_utf8_lossy(&text);
    Ok(json::parse(&text).unwrap_or_else(|| parse::parse(&text)))
}
