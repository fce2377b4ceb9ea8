//! `covalent monitor`: a running node on a terminal, with rates.

mod keys;
mod rates;
mod screen;
mod view;

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use covalent_api::status::NodeStatus;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::Signal,
    unistd::read,
};

use self::{
    keys::{Key, Keyboard, Next, Shown},
    rates::Rates,
    screen::Screen,
    view::View,
};
use crate::{
    args::NodeArgs,
    client::Client,
    interrupt::{Interrupt, Interrupted},
    output::Theme,
    status,
};

/// Longest interval between the first two samples of a node, which the first picture shows.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);

/// Longest time between two looks at keys and signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// `covalent monitor`
#[derive(Debug, Args)]
#[command(
    after_help = "Rates are the changes between two samples, by the daemon's clock. The first two \
    are at most a quarter of a second apart, so that there are rates from the start. To the right \
    of each rate are the samples of the last minute. One line names the parts with nothing to \
    show. A sample costs the lanes as much as a `covalent status`.\n\n\
    Keys: 1 lanes, 2 ports, 3 links, 4 pipes, 5 drops, each alone; 0 all; arrows or j and k \
    scroll; space freezes the picture; q or Ctrl-C exits.\n\n\
    Examples:\n  \
    covalent monitor\n  \
    covalent monitor --interval 0.2 --socket /run/covalent/covalentd.sock"
)]
pub struct MonitorArgs {
    /// Which node.
    #[command(flatten)]
    node: NodeArgs,
    /// Seconds between two samples.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
}

fn interval(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.1..=60.0).contains(seconds))
        .ok_or_else(|| "expected seconds, 0.1 to 60".into())
}

/// Runs `covalent monitor`.
///
/// # Errors
/// When there is no terminal, or no daemon answers at first.
pub fn run(args: &MonitorArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!("this needs a terminal\n  cure: `covalent status --format json` is for programs");
    }
    let socket = status::socket(&args.node)?;
    let mut source = Source::open(&socket)?;
    let theme = Theme::of_stdout();
    let interval = Duration::from_secs_f64(args.interval);
    let first_interval = interval.min(FIRST_INTERVAL);
    let mut rates = Rates::default();
    rates.take(source.poll_status()?);
    interrupt.sleep(first_interval)?;
    rates.take(source.poll_status()?);

    let mut screen = Screen::take().context("cannot take over the terminal")?;
    let mut keyboard = Keyboard::default();
    let mut shown = Shown::default();
    let mut next_poll = Instant::now() + interval;
    loop {
        interrupt.sleep(Duration::ZERO)?;
        let gone = source.gone.as_deref();
        let view = View {
            rates: &rates,
            shown: &shown,
            theme,
            gone,
        };
        // The first sample of a restarted daemon has no rates: the picture before it stays.
        if rates.are_known() || gone.is_some() || shown.held {
            let mut rows = 0;
            screen.draw(|frame| rows = view.draw(frame))?;
            shown.keep_within(rows);
        }

        let wait = next_poll.saturating_duration_since(Instant::now());
        for key in keys(&mut keyboard, wait.min(POLL_INTERVAL))? {
            match shown.on(key) {
                Next::Continue => {}
                Next::Leave => return Ok(ExitCode::SUCCESS),
                Next::Interrupted => return Err(Interrupted(Signal::SIGINT).into()),
            }
        }
        if Instant::now() >= next_poll {
            next_poll = Instant::now() + interval;
            if !shown.held
                && let Some(status) = source.try_poll_status(&socket)
            {
                rates.take(status);
                if !rates.are_known() {
                    next_poll = Instant::now() + first_interval;
                }
            }
        }
    }
}

/// The keys that were pressed, waiting for the first for `patience`.
///
/// # Errors
/// [`Interrupted`] by SIGHUP if the terminal was closed.
fn keys(keyboard: &mut Keyboard, patience: Duration) -> Result<Vec<Key>> {
    let closed = || Err(Interrupted(Signal::SIGHUP).into());
    let input = io::stdin();
    let mut polled = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
    match poll(&mut polled, patience) {
        // A window that changes its size is one.
        Err(Errno::EINTR) => return Ok(Vec::new()),
        polled => polled.context("cannot wait for keys")?,
    };
    let events = polled[0].revents().unwrap_or(PollFlags::empty());
    if !events.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
        return Ok(keyboard.keys(&[]));
    }
    let mut bytes = [0; 256];
    match read(input.as_fd(), &mut bytes) {
        Ok(0) | Err(Errno::EIO) => closed(),
        Err(Errno::EINTR | Errno::EAGAIN) => Ok(Vec::new()),
        Ok(length) => Ok(keyboard.keys(&bytes[..length])),
        Err(problem) => Err(problem).context("cannot read keys"),
    }
}

/// Where the figures come from: a daemon that may go and come back.
struct Source {
    client: Option<Client>,
    /// Why nothing new comes, if so.
    gone: Option<String>,
}

impl Source {
    fn open(socket: &Path) -> Result<Self> {
        Ok(Self {
            client: Some(Client::connect(socket)?),
            gone: None,
        })
    }

    fn poll_status(&mut self) -> Result<NodeStatus> {
        match &mut self.client {
            Some(client) => client.status(),
            None => bail!("no connection"),
        }
    }

    /// The status, or `None` while the daemon is gone; then it is looked for again.
    fn try_poll_status(&mut self, socket: &Path) -> Option<NodeStatus> {
        if self.client.is_none() {
            self.client = Client::connect(socket).ok();
        }
        match self.poll_status() {
            Ok(status) => {
                self.gone = None;
                Some(status)
            }
            Err(error) => {
                if self.client.take().is_some() || self.gone.is_none() {
                    // Keep the first line only: the rest is a remedy for a command at startup.
                    let message = format!("{error:#}");
                    self.gone = message.lines().next().map(ToOwned::to_owned);
                }
                None
            }
        }
    }
}
