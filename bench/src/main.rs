//! `covalent-bench`: Covalent against other systems, in one run on one machine.
//!
//! Figures vary with other activity on the machine. Each run therefore measures all sides in turn,
//! several times, and compares medians. It never compares with figures of another run or another
//! machine.
#![cfg_attr(
    not(feature = "suites"),
    allow(dead_code, unused_imports, reason = "what only the other suites call")
)]

mod against;
mod arguments;
mod atomics;
mod bare;
mod beside;
mod cell;
mod command_line;
mod cores;
mod ends_with_this;
mod exchanges;
mod failover;
mod host;
mod idle;
mod instructions;
mod interfaces;
mod kept;
mod lane_port;
mod latency;
mod link_end;
mod loss;
mod messenger;
mod multicast;
mod node;
mod opening;
mod page;
mod perftest;
mod plot_files;
mod rate;
mod repeats;
mod report;
mod restart;
mod servers;
mod stage;
mod stop;
mod streams;
mod summary;
mod system_calls;
mod telemetry;
mod watch;

use std::{io::Write, process::ExitCode};

use anyhow::{Result, bail};
use clap::Parser;

use arguments::{Output, Wire};
use command_line::{Action, Arguments};
use stop::Stopped;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.action) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(problem) => {
            // A terminal also sends its signal to the daemons. Their exit may be detected first, so
            // check for the signal.
            let stopped = problem.downcast_ref::<Stopped>().copied();
            if let Some(stopped) = stopped.or_else(stop::requested) {
                return ExitCode::from(stopped.exit_code());
            }
            // stderr itself may be closed. There is no other place to report the error.
            let _ = writeln!(std::io::stderr(), "covalent-bench: {problem:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether every goal is met.
fn run(action: &Action) -> Result<bool> {
    match action {
        Action::Latency(options) => {
            prepare_root(&options.output)?;
            latency::measure(options)
        }
        Action::Rate(options) => {
            prepare_wire(&options.wire)?;
            rate::measure(options)
        }
        #[cfg(feature = "suites")]
        other => run_other(other),
        #[cfg(not(feature = "suites"))]
        _ => bail!(
            "this program was built without the feature `suites`, as `make run` builds it: it has \
             only `latency` and `rate`\n  cure: make build, then target/release/covalent-bench …"
        ),
    }
}

/// The suites that the demonstration does not run.
#[cfg(feature = "suites")]
fn run_other(action: &Action) -> Result<bool> {
    match action {
        Action::Latency(_) | Action::Rate(_) => run(action),
        Action::Streams(options) => {
            refuse_debug(&options.output)?;
            stop::listen()?;
            streams::measure(options)
        }
        Action::Loss(options) => {
            prepare_root(&options.output)?;
            loss::measure(options)
        }
        Action::Perftest(options) => perftest::read(options),
        Action::Exchanges(options) => {
            refuse_debug(&options.output)?;
            stop::listen()?;
            exchanges::measure(options)
        }
        Action::Failover(options) => {
            prepare_root(&options.output)?;
            failover::measure(options)
        }
        Action::SystemCalls(wire) => {
            prepare_wire(wire)?;
            system_calls::measure(wire)
        }
        Action::Idle(wire) => {
            prepare_wire(wire)?;
            idle::measure(wire)
        }
        Action::Restart(options) => {
            prepare_wire(&options.wire)?;
            restart::measure(options)
        }
        Action::Atomics(options) => {
            prepare_wire(&options.wire)?;
            atomics::measure(options)
        }
        Action::Multicast(options) => {
            prepare_root(&options.output)?;
            multicast::measure(options)
        }
        Action::Member => multicast::member().map(|()| true),
        Action::Counters(options) => {
            refuse_debug(&options.output)?;
            stop::listen()?;
            telemetry::lanes::measure(options)
        }
        Action::Scrape(options) => {
            refuse_debug(&options.output)?;
            stop::listen()?;
            telemetry::scrape::measure(options)
        }
        Action::Page(page) => page::write(page).map(|()| true),
        Action::Role { socket } => streams::play(socket).map(|()| true),
    }
}

/// Whether a virtual cable can be measured on, and listens for the end.
fn prepare_wire(wire: &Wire) -> Result<()> {
    prepare_root(&wire.output)
}

/// Whether namespaces and AF_XDP sockets can be had, and listens for the end.
fn prepare_root(output: &Output) -> Result<()> {
    refuse_debug(output)?;
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "network namespaces and AF_XDP sockets need root, and this process has user id \
             {}\n  cure: sudo covalent-bench …",
            nix::unistd::geteuid()
        );
    }
    stop::listen()
}

fn refuse_debug(output: &Output) -> Result<()> {
    if cfg!(debug_assertions) && !output.force_debug {
        bail!(
            "this is a debug build, and its figures mean nothing: build with --release, or pass \
             --force-debug"
        );
    }
    Ok(())
}
