//! `covalent-control --config FILE`: the control process of one node.

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Parser;
use covalent_api::{arguments::ControlArguments, config::Config};
use covalent_control::{agreement::Agreement, control::Control, privilege, sandbox};
use sd_notify::NotifyState;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, MissedTickBehavior, sleep_until},
};
use tracing::{info, warn};

fn main() -> ExitCode {
    match run(&ControlArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Logging may not have started, and a person may be waiting.
            eprintln!("covalent-control: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &ControlArguments) -> anyhow::Result<()> {
    let config = Config::load(&arguments.config)?;
    covalent_log::start(arguments.log_format, &arguments.log_level, None)?;
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
    privilege::drop_all_but_needed(file)?;
    if config.node.sandbox {
        sandbox::install()?;
    } else {
        warn!("no sandbox: `node.sandbox` is false");
    }
    tokio::spawn(tell_repeats());
    notify(&[NotifyState::Ready]);
    if let Some(every) = sd_notify::watchdog_enabled() {
        tokio::spawn(tell_watchdog(every));
    }
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

/// Writes how often lines came again.
async fn tell_repeats() {
    loop {
        let due = covalent_log::write_due();
        let within = Instant::now() + covalent_log::WINDOW;
        sleep_until(due.map_or(within, |due| within.min(due.into()))).await;
    }
}

/// Tells the service manager that control lives, well before each `every` is over. This is one task among those of the one thread: it is not
/// served when they are not.
async fn tell_watchdog(every: Duration) {
    let mut due = tokio::time::interval(every / 4);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

/// Tells the service manager, if there is one.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(problem) = sd_notify::notify(states) {
        warn!("cannot tell the service manager: {problem}");
    }
}
