//! `covalentd`: the dataplane daemon.

use std::{io::IsTerminal, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use covalent_api::config::Config;
use covalent_dataplane::{
    Daemon, FaultInjection, daemon,
    privilege::{self, Privileges},
};
use nix::sys::signal::{SigSet, Signal};
use sd_notify::NotifyState;
use tracing::{error, info};
use tracing_subscriber::EnvFilter;

/// Moves packets between ports and the pipes of applications, and executes verbs on their regions.
///
/// One daemon is one node. It reads one TOML file (`covalent config print-default` prints it with every key explained), opens
/// the ports, and serves applications on `covalentd.sock` in the node's runtime directory. It runs in the foreground and
/// ends cleanly on SIGTERM or SIGINT, leaving no socket, program or memory behind.
///
/// AF_XDP ports need CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK; cable and pcap ports need nothing.
#[derive(Debug, Parser)]
#[command(
    name = "covalentd",
    version,
    after_help = "Examples:\n  covalentd --config /etc/covalent/covalent.toml --check   say what is wrong with the file, change nothing\n  \
                  covalentd --config node.toml                             run\n  \
                  RUST_LOG=debug covalentd --config node.toml              run and tell more"
)]
struct Arguments {
    /// The node's configuration.
    #[arg(
        long,
        value_name = "FILE",
        env = "COVALENT_CONFIG",
        default_value = "/etc/covalent/covalent.toml"
    )]
    config: PathBuf,
    /// Only say whether the configuration could be used on this host. Needs no privilege and changes nothing.
    #[arg(long)]
    check: bool,
    /// Take a configuration whose ports damage their own frames (`[port.faults]`). For tests: without it such a file is refused.
    #[arg(long)]
    allow_faults: bool,
    /// How log lines on stderr look. RUST_LOG chooses which (default: info).
    #[arg(long, value_enum, default_value = "text", env = "COVALENT_LOG_FORMAT")]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    /// One line for people.
    Text,
    /// One JSON object per line.
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log_to_stderr(arguments.log_format);
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            error!("{problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::load(&arguments.config)?;
    let faults = if arguments.allow_faults {
        FaultInjection::Allowed
    } else {
        FaultInjection::Refused
    };
    if arguments.check {
        daemon::check(&config, faults)?;
        info!(file = %arguments.config.display(), "the configuration can be used on this host");
        return Ok(());
    }
    // Blocked before any thread exists, so that every thread leaves them to the wait below.
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals
        .thread_block()
        .context("cannot block SIGINT and SIGTERM")?;
    // A journal that meets a limit on file sizes is told an error, and the node lives on.
    SigSet::from(Signal::SIGXFSZ)
        .thread_block()
        .context("cannot block SIGXFSZ")?;
    privilege::warn_of_memlock();
    privilege::raise_descriptor_limit();
    let node = config.node.name.clone();
    let socket = config.socket_path();
    let daemon = Daemon::start_with(config, Privileges::Drop, faults)?;
    info!(node, guid = %daemon.guid(), socket = %socket.display(), "ready");
    notify(NotifyState::Ready);
    let signal = signals.wait().context("cannot wait for signals")?;
    info!(%signal, "stopping");
    notify(NotifyState::Stopping);
    daemon.stop();
    Ok(())
}

/// Tells the service manager, where there is one. Where there is none this does nothing.
fn notify(state: NotifyState<'_>) {
    if let Err(problem) = sd_notify::notify(&[state]) {
        error!(%problem, "the service manager could not be told");
    }
}

fn log_to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().init(),
    }
}
