//! `covalent configure`: prepares the machine for a node, and restores its former state.
//!
//! A stage is a function of the configuration and of facts. It reports whether an object is as
//! wanted, and which steps would make it so. `check` prints the reports. `init` executes the steps;
//! a line in a record on disk precedes each step. `fini` uses the record alone.

mod args;
mod auto;
mod cores;
#[cfg(test)]
mod crashes;
mod facts;
mod fini;
mod init;
mod plan;
mod record;
mod setting;
mod show;
mod stage;
mod stages;
mod world;

use std::{env, fs, process::ExitCode};

use anyhow::{Context, Result, bail};
use covalent_config::Config;
use serde_json::json;

/// The widest tables, for a test.
#[cfg(test)]
pub fn widest(theme: output::Theme) -> String {
    auto::tests::widest(theme) + &show::tests::widest(theme)
}

pub use self::{args::ConfigureCommand, auto::explain as explain_auto};
use self::{
    args::{CheckArgs, WorkArgs},
    facts::Facts,
    plan::{Report, State, exit_status},
    record::{FileLedger, held},
    show::Notice,
    stage::Stage,
    world::Machine,
};
use crate::{args::Format, node::NodeLock, output};

/// Exit status where something cannot be done.
const CANNOT: u8 = 2;

/// Runs `covalent configure …`.
///
/// # Errors
/// When the configuration is wrong or the machine cannot be looked at.
pub fn run(command: &ConfigureCommand) -> Result<ExitCode> {
    let machine = Machine::below("/");
    let code = match command {
        ConfigureCommand::Check(args) => check(args, &machine),
        ConfigureCommand::Init(args) => init(args, machine),
        ConfigureCommand::Fini(args) => fini(args, machine),
    };
    // The exit status reports something that cannot be done, even if other things are only not as
    // wanted.
    match code {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) if is_hang_up(&error) => Err(error),
        Err(error) => {
            output::complain(&error);
            Ok(ExitCode::from(CANNOT))
        }
    }
}

fn is_hang_up(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn check(args: &CheckArgs, machine: &Machine) -> Result<u8> {
    let config = Config::load(args.config.file())?;
    let facts = Facts::gather(machine, &config)?;
    let reports: Vec<Report> = args
        .stages()
        .into_iter()
        .flat_map(|stage| stages::inspect(stage, &config, &facts))
        .collect();
    match args.format {
        Format::Table => show::print(&reports)?,
        Format::Json => output::json(&reports.iter().map(show::json).collect::<Vec<_>>())?,
    }
    Ok(exit_status(&reports))
}

fn init(args: &WorkArgs, machine: Machine) -> Result<u8> {
    let config = Config::load(args.check.config.file())?;
    let stages = args.check.stages();
    let mut world = machine.clone();
    let mut inspect = |stage: Stage| {
        let facts = Facts::gather(&machine, &config)?;
        Ok(stages::inspect(stage, &config, &facts))
    };
    let found = init::inspect_all(&stages, &mut inspect)?;
    let impossible = found.iter().any(|report| report.state == State::Cannot);
    if impossible {
        match args.check.format {
            Format::Table => show::print(&found)?,
            Format::Json => print_json(&[], &found)?,
        }
        bail!("nothing was changed\n  cure: see above, or leave stages out with --only");
    }
    let mut printer = NoticePrinter::new(args.check.format);
    if args.dry_run {
        for report in &found {
            for step in &report.steps {
                printer.add(Notice::step(report.stage, step))?;
            }
        }
        printer.end(&found)?;
        return Ok(exit_status(&found));
    }
    if found.iter().all(|report| report.steps.is_empty()) {
        printer.end(&found)?;
        return Ok(exit_status(&found));
    }
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "only root may change these settings\n  cure: sudo covalent configure init (--dry-run \
             prints the commands)"
        );
    }
    let missing = init::missing_programs(&found, &env::var_os("PATH").unwrap_or_default());
    if let Some(program) = missing.first() {
        bail!(
            "`{program}` is not on PATH, and nothing was changed\n  cure: apt-get install ethtool \
             iproute2, or leave stages out with --only"
        );
    }
    let directory = &config.node.runtime_dir;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the runtime directory {}", directory.display()))?;
    let _lock = NodeLock::take(&config)?;
    let mut ledger = FileLedger::open(directory, &boot(&world)?)?;
    if let Some(void) = ledger.void() {
        printer.remark(void)?;
    }
    let outcome = init::init(
        &stages,
        &mut inspect,
        &mut world,
        &mut ledger,
        &mut |reported| printer.add(reported),
    );
    let after = init::inspect_all(&stages, &mut inspect)?;
    printer.end(&after)?;
    printer.remark(&format!(
        "The previous values are in {} until the next boot; `covalent configure fini` restores \
         them.",
        ledger.path().display()
    ))?;
    if let Err(error) = outcome {
        bail!(
            "{error:#}\n  \
             cure: fix that and run it again; `covalent configure fini` undoes what was done"
        );
    }
    Ok(exit_status(&after))
}

fn fini(args: &WorkArgs, mut world: Machine) -> Result<u8> {
    let config = Config::load(args.check.config.file())?;
    let directory = &config.node.runtime_dir;
    let mut printer = NoticePrinter::new(args.check.format);
    // Without the directory there is neither a record nor another running command.
    if !directory.is_dir() {
        printer.remark("nothing is recorded, so there is nothing to undo")?;
        printer.end(&[])?;
        return Ok(0);
    }
    let mut ledger = FileLedger::open(directory, &boot(&world)?)?;
    if let Some(void) = ledger.void() {
        printer.remark(void)?;
    } else if held(record::Ledger::lines(&ledger)).is_empty() {
        printer.remark("nothing is recorded, so there is nothing to undo")?;
    } else if !args.dry_run && !nix::unistd::geteuid().is_root() {
        bail!(
            "only root may change these settings\n  cure: sudo covalent configure fini (--dry-run \
             prints the commands)"
        );
    }
    let _lock = match args.dry_run {
        true => None,
        false => Some(NodeLock::take(&config)?),
    };
    let undone = fini::fini(
        &args.check.stages(),
        args.dry_run,
        &mut world,
        &mut ledger,
        &mut |reported| printer.add(reported),
    )?;
    printer.end(&[])?;
    Ok(match undone {
        fini::Undone { failed: 1.., .. } => CANNOT,
        fini::Undone { left: 1.., .. } => 1,
        fini::Undone { .. } => 0,
    })
}

/// The kernel's name for this boot.
fn boot(machine: &Machine) -> Result<String> {
    machine
        .text("/proc/sys/kernel/random/boot_id")
        .context("cannot read /proc/sys/kernel/random/boot_id")
}

/// Prints for people at once, and for programs at the end.
struct NoticePrinter {
    format: Format,
    reported: Vec<Notice>,
}

impl NoticePrinter {
    const fn new(format: Format) -> Self {
        Self {
            format,
            reported: Vec::new(),
        }
    }

    fn add(&mut self, reported: Notice) -> Result<()> {
        if self.format == Format::Table {
            reported.print()?;
        }
        self.reported.push(reported);
        Ok(())
    }

    fn remark(&self, text: &str) -> Result<()> {
        match self.format {
            Format::Table => output::line(text),
            Format::Json => Ok(()),
        }
    }

    /// Prints how everything stands now.
    fn end(&self, reports: &[Report]) -> Result<()> {
        match self.format {
            Format::Json => print_json(&self.reported, reports),
            Format::Table if reports.is_empty() => Ok(()),
            Format::Table => show::print(reports),
        }
    }
}

fn print_json(reported: &[Notice], reports: &[Report]) -> Result<()> {
    let reports: Vec<_> = reports.iter().map(show::json).collect();
    output::json(&json!({ "done": reported, "reports": reports }))
}
