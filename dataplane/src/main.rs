//! `covalentd`: the dataplane daemon.

mod socket_activation;
mod watchdog;

use std::{env, fs, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use covalent_api::causes::in_one_line;
use covalent_config::{
    Config,
    arguments::{DataplaneArguments, LogFormat},
};
use covalent_dataplane::{
    Daemon, FaultInjection, daemon,
    journal::OnLoss,
    privilege::{self, Privileges},
    sandbox,
};
use covalent_log::{Lanes, LogError, Waiting};
use nix::sys::signal::{SigSet, Signal};
use sd_notify::NotifyState;
use tracing::{error, info, warn};
use watchdog::{End, notify};

fn main() -> ExitCode {
    let arguments = DataplaneArguments::parse();
    let lines_of_lanes = match start_logging(arguments.log_format) {
        Ok(waiting) => waiting,
        Err(problem) => {
            eprintln!("covalentd: {problem}");
            return ExitCode::FAILURE;
        }
    };
    match run(&arguments, lines_of_lanes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            error!("{}", in_one_line(problem.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &DataplaneArguments, lines_of_lanes: Waiting) -> anyhow::Result<()> {
    let config = Config::load(&arguments.config)?;
    let faults = if arguments.allow_faults {
        FaultInjection::Allowed
    } else {
        FaultInjection::Refused
    };
    let on_loss = if arguments.accept_journal_loss {
        OnLoss::SetAside
    } else {
        OnLoss::Refuse
    };
    if arguments.check {
        let left_out = daemon::check_start(&config, faults, on_loss)?;
        let file = arguments.config.display();
        if left_out > 0 {
            info!(%file, left_out, "the configuration can be used on this host; journals that a \
                daemon has open were not read");
        } else {
            info!(%file, "the configuration can be used on this host, and a start would take its \
                journals");
        }
        return Ok(());
    }
    // Before any thread exists, for it changes the environment.
    let socket_activation = socket_activation::socket(&config.socket_path())
        .context("cannot listen on the socket passed with LISTEN_FDS")?;
    // Blocked before any thread exists, so that only the wait below receives them.
    let mut signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    // A daemon whose terminal closes shuts down gracefully, unless nohup started it.
    if !ignores_hangup() {
        signals.add(Signal::SIGHUP);
    }
    signals
        .thread_block()
        .context("cannot block the signals that end this process")?;
    // With this signal blocked, a journal write beyond a file size limit returns an error, and the
    // node continues.
    SigSet::from(Signal::SIGXFSZ)
        .thread_block()
        .context("cannot block SIGXFSZ")?;
    privilege::warn_of_memlock();
    privilege::raise_descriptor_limit();
    let node = config.node.name.clone();
    let socket = config.socket_path();
    let closes_sandbox = config.node.sandbox;
    let daemon = Daemon::start_with(config, Privileges::Drop, faults, on_loss, socket_activation)?;
    let _writing = lines_of_lanes
        .write()
        .context("no thread for the lines of lanes")?;
    if closes_sandbox {
        sandbox::install()?;
    } else {
        warn!("no sandbox: `node.sandbox` is false");
    }
    info!(node, guid = %daemon.guid(), socket = %socket.display(), "ready");
    notify(NotifyState::Ready);
    let end = watchdog::until_end(&signals, &daemon).context("cannot wait for signals")?;
    match &end {
        End::Signal(signal) => info!(%signal, "stopping"),
        End::Thread(thread) => error!(
            thread,
            "a thread of the daemon has ended, and the daemon cannot serve without it: stopping, \
             so that the service manager starts another daemon"
        ),
    }
    notify(NotifyState::Stopping);
    daemon.stop();
    match end {
        End::Signal(_) => Ok(()),
        End::Thread(thread) => Err(anyhow::anyhow!("{thread} ended unexpectedly")),
    }
}

/// Whether this process was started with SIGHUP, signal 1, ignored.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 != 0)
}

fn start_logging(format: LogFormat) -> Result<Waiting, LogError> {
    let level = env::var("RUST_LOG").ok().filter(|level| !level.is_empty());
    let (lanes, waiting) = Lanes::new();
    covalent_log::start(format, level.as_deref().unwrap_or("info"), Some(lanes))?;
    Ok(waiting)
}
