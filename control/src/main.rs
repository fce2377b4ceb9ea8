//! `covalent-control --config FILE`: the control process of one node.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Parser;
use covalent_api::config::Config;
use covalent_control::{
    agreement::Agreement,
    control::Control,
    logging::{self, LogFormat},
};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// Brings links up, keeps the neighbour table, serves /metrics and answers the CLI.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example: covalent-control --config /etc/covalent/covalent.toml\n\n\
    `covalent up` starts it together with covalentd; by itself it waits for the daemon of that configuration.\n\
    `covalent reload`, or SIGHUP, has the file read again and puts it in force, whole or not at all."
)]
struct Arguments {
    /// The node's configuration
    #[arg(
        long,
        env = "COVALENT_CONFIG",
        value_name = "FILE",
        default_value = "/etc/covalent/covalent.toml"
    )]
    config: PathBuf,

    /// How log lines on standard error look
    #[arg(long, env = "COVALENT_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,

    /// Least important lines to write: error, warn, info, debug or trace
    #[arg(
        long,
        env = "COVALENT_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    log_level: String,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Logging may not have started, and a person may be waiting.
            eprintln!("covalent-control: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::load(&arguments.config)?;
    logging::start(arguments.log_format, &arguments.log_level)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no event loop")?;
    runtime.block_on(serve(&config, &arguments.config))
}

async fn serve(config: &Config, file: &Path) -> anyhow::Result<()> {
    // Before anything serves, so that a signal from here on ends it in order.
    let mut terminate = signal(SignalKind::terminate()).context("no SIGTERM handler")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("no SIGINT handler")?;
    let hangup = signal(SignalKind::hangup()).context("no SIGHUP handler")?;
    let control = Control::start_from(config, Some(file)).await?;
    if let Some(agreement) = control.agreement() {
        tokio::spawn(reload_at(hangup, agreement));
    }
    notify(&[NotifyState::Ready]);
    control
        .run(async {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            notify(&[NotifyState::Stopping]);
            info!(signal = name, "control ends");
        })
        .await
        .context("/metrics")
}

/// Has the file read again at each SIGHUP. What comes of it is in the log.
async fn reload_at(mut hangup: Signal, agreement: Agreement) {
    while hangup.recv().await.is_some() {
        agreement.reload().await;
    }
}

/// Tells the service manager, if there is one.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(problem) = sd_notify::notify(states) {
        warn!("cannot tell the service manager: {problem}");
    }
}
