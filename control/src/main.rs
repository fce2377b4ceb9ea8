//! `covalent-control --config FILE`: the control process of one node.

use std::{
    io::{self, IsTerminal},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::Parser;
use covalent_api::causes::in_one_line;
use covalent_config::{Config, arguments::ControlArguments};
use covalent_control::{agreement::Agreement, control::Control, privilege, sandbox};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sd_notify::NotifyState;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    time::{Instant, MissedTickBehavior, sleep_until},
};
use tracing::{info, warn};

fn main() -> ExitCode {
    match run(&ControlArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Logging may not have started, and a person may be waiting.
            eprintln!("covalent-control: {}", in_one_line(problem.as_ref()));
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
    // Before any service starts, so that a signal from here on causes a graceful shutdown.
    let mut terminate = signal(SignalKind::terminate()).context("no SIGTERM handler")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("no SIGINT handler")?;
    let hangup = signal(SignalKind::hangup()).context("no SIGHUP handler")?;
    let terminal = Terminal::of_this();
    let control = Control::start_from(config, Some(file)).await?;
    let (closes, closed) = oneshot::channel();
    if let Some(agreement) = control.agreement() {
        tokio::spawn(reload_at(hangup, agreement, terminal, closes));
    }
    privilege::drop_all_but_needed(file)?;
    if config.node.sandbox {
        sandbox::install()?;
    } else {
        warn!("no sandbox: `node.sandbox` is false");
    }
    tokio::spawn(log_repeats());
    notify(&[NotifyState::Ready]);
    if let Some(every) = sd_notify::watchdog_enabled() {
        tokio::spawn(notify_watchdog(every));
    }
    control
        .run(async {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                Ok(()) = closed => "SIGHUP",
            };
            notify(&[NotifyState::Stopping]);
            info!(signal = name, "control ends");
        })
        .await
        .context("/metrics")
}

/// Rereads the file at each SIGHUP, until a SIGHUP means that the terminal was closed. The result
/// is logged.
async fn reload_at(
    mut hangup: Signal,
    agreement: Agreement,
    terminal: Terminal,
    closes: oneshot::Sender<()>,
) {
    while hangup.recv().await.is_some() {
        if terminal.is_closed() {
            // The receiver may be gone: the process is exiting.
            let _ = closes.send(());
            return;
        }
        agreement.reload().await;
    }
}

/// The terminal that this process was started from, if it was.
struct Terminal(Option<OwnedFd>);

impl Terminal {
    fn of_this() -> Self {
        let copy = |fd: BorrowedFd<'_>| fd.is_terminal().then(|| fd.try_clone_to_owned().ok());
        let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
        let all = [input.as_fd(), output.as_fd(), errors.as_fd()];
        Self(all.into_iter().find_map(copy).flatten())
    }

    fn is_closed(&self) -> bool {
        let Some(terminal) = &self.0 else {
            return false;
        };
        let mut polled = [PollFd::new(terminal, PollFlags::empty())];
        let looked = poll(&mut polled, Some(&Timespec::default()));
        looked.is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }
}

/// Logs how often lines were repeated.
async fn log_repeats() {
    loop {
        let due = covalent_log::write_due();
        let within = Instant::now() + covalent_log::WINDOW;
        sleep_until(due.map_or(within, |due| within.min(due.into()))).await;
    }
}

/// Reports liveness to the service manager, well before each `every` elapses. It is a task on the
/// only thread, so it does not run if the other tasks do not.
async fn notify_watchdog(every: Duration) {
    let mut due = tokio::time::interval(every / 4);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}

/// Notifies the service manager, if there is one.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(problem) = sd_notify::notify(states) {
        warn!("cannot notify the service manager: {problem}");
    }
}
