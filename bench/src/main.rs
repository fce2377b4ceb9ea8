//! `covalent-bench`: Covalent against bare AF_XDP, in one run on one virtual cable.
//!
//! Figures of a virtual cable swing with whatever else the machine does, so each run measures both sides in turn, several times, and
//! compares medians. Nothing is compared with figures of another run or another machine.

mod arguments;
mod bare;
mod cores;
mod host;
mod idle;
mod node;
mod report;
mod rtt;
mod rx;
mod stage;
mod summary;

use std::{io::Write, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::Parser;

use arguments::{Arguments, Format, Measurement};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(problem) => {
            // stderr itself may be closed; there is nobody else to tell.
            let _ = writeln!(std::io::stderr(), "covalent-bench: {problem:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether the goal is met.
fn run(arguments: &Arguments) -> Result<bool> {
    if cfg!(debug_assertions) && !arguments.force_debug {
        bail!(
            "this is a debug build, whose figures mean nothing: build with --release, or give --force-debug"
        );
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("making network namespaces and AF_XDP sockets needs root");
    }
    let report = match arguments.measurement {
        Measurement::Rx => rx::measure(arguments)?,
        Measurement::Rtt => rtt::measure(arguments)?,
        Measurement::Idle => idle::measure(arguments)?,
    };
    if let Some(folder) = &arguments.results {
        report.write_to(folder)?;
    }
    let mut out = std::io::stdout().lock();
    match arguments.format {
        Format::Json => writeln!(out, "{}", report.line()?),
        Format::Table => write!(out, "{}", report.table()),
    }
    .context("writing the result")?;
    Ok(report.met)
}
