//! `covalent-bench`: Covalent against bare AF_XDP, in one run on one virtual cable.
//!
//! Figures of a virtual cable swing with whatever else the machine does, so each run measures both sides in turn, several times, and
//! compares medians. Nothing is compared with figures of another run or another machine.

mod arguments;
mod bare;
mod bare_echo;
mod cores;
mod hand_over;
mod host;
mod idle;
mod node;
mod report;
mod rtt;
mod rx;
mod stage;
mod stop;
mod summary;
mod trips;

use std::{io::Write, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::Parser;

use arguments::{Arguments, Format, Measurement};
use report::Report;
use stop::Stopped;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(problem) if problem.is::<Stopped>() => {
            let code = problem.downcast::<Stopped>().map_or(2, Stopped::exit_code);
            ExitCode::from(code)
        }
        Err(problem) => {
            // stderr itself may be closed; there is nobody else to tell.
            let _ = writeln!(std::io::stderr(), "covalent-bench: {problem:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether every goal is met.
fn run(arguments: &Arguments) -> Result<bool> {
    if cfg!(debug_assertions) && !arguments.force_debug {
        bail!(
            "this is a debug build, whose figures mean nothing: build with --release, or give --force-debug"
        );
    }
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "network namespaces and AF_XDP sockets need root, and this process has user id {}\n  cure: sudo covalent-bench …",
            nix::unistd::geteuid()
        );
    }
    stop::listen()?;
    let mut reports = Vec::new();
    for measure in parts(arguments.measurement) {
        let report = measure(arguments)?;
        tell(&report, arguments)?;
        reports.push(report);
    }
    if let (Measurement::All, Format::Table) = (arguments.measurement, arguments.format) {
        writeln!(std::io::stdout(), "{}", report::verdict(&reports))
            .context("writing the result")?;
    }
    Ok(reports.iter().all(|report| report.met))
}

/// Measures one thing.
type Measure = fn(&Arguments) -> Result<Report>;

fn parts(measurement: Measurement) -> &'static [Measure] {
    const ALL: [Measure; 3] = [rx::measure, rtt::measure, idle::measure];
    match measurement {
        Measurement::Rx => &ALL[..1],
        Measurement::Rtt => &ALL[1..2],
        Measurement::Idle => &ALL[2..],
        Measurement::All => &ALL,
    }
}

fn tell(report: &Report, arguments: &Arguments) -> Result<()> {
    if let Some(folder) = &arguments.results {
        report.write_to(folder)?;
    }
    let mut out = std::io::stdout().lock();
    match arguments.format {
        Format::Json => writeln!(out, "{}", report.line()?),
        Format::Table => write!(out, "{}", report.table()),
    }
    .context("writing the result")
}
