//! The clients that add, and the owner of the counter.

use std::{
    ops::Add,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use covalent::{Completion, Device, Mode, Outcome, Refusal, Rights, Target, Timeout, Verb};

/// How long a client waits for its daemon, and for a completion.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often the counter's owner checks its daemon.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

const COUNTER: &str = "restart-counter";

/// The outcomes of additions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Done.
    pub done: u64,
    /// Executed at most once: the outcome is unknown.
    pub unknown: u64,
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            unknown: self.unknown + other.unknown,
        }
    }
}

/// A client that always has one addition in flight.
pub struct Adder {
    end: Arc<AtomicBool>,
    longest_ns: Arc<AtomicU64>,
    thread: JoinHandle<Result<Tally>>,
}

impl Adder {
    /// Adds at the node of `socket` to the counter of node `target`, from now on.
    pub fn start(socket: PathBuf, target: &'static str) -> Result<Self> {
        let (end, longest_ns) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ends, longest) = (end.clone(), longest_ns.clone());
        let (adds, is_adding) = mpsc::channel();
        let thread = thread::spawn(move || {
            let device = Device::attach(socket, "bench")?;
            device.set_reconnect(Some(PATIENCE));
            let mut verbs = device.verbs_with_depth(1)?;
            let counter = verbs.open_region(Target::Name(target), COUNTER, Timeout::FOREVER)?;
            let one = Verb::FetchAdd {
                offset_bytes: 0,
                delta: 1,
            };
            let mut tally = Tally::default();
            let mut completions = [Completion::default()];
            let mut last = Instant::now();
            let _ = adds.send(());
            while !ends.load(Ordering::Acquire) {
                verbs.post(&counter, one, Mode::TwoPhase, 0)?;
                while verbs.outstanding() > 0 {
                    verbs.poll(&mut completions, PATIENCE)?;
                    match &completions[0].outcome {
                        Outcome::Old(_) => {
                            let now = Instant::now();
                            let gap = (now - last).as_nanos() as u64;
                            longest.fetch_max(gap, Ordering::AcqRel);
                            last = now;
                            tally.done += 1;
                        }
                        Outcome::Forgotten | Outcome::PeerRestarted => tally.unknown += 1,
                        Outcome::InDoubt(_)
                        | Outcome::Refused(
                            Refusal::UnknownRegion | Refusal::NoResources | Refusal::Busy,
                        ) => {}
                        other => bail!("an addition ended as {other:?}"),
                    }
                }
            }
            Ok(tally)
        });
        is_adding
            .recv_timeout(PATIENCE)
            .context("a client does not begin to add")?;
        Ok(Self {
            end,
            longest_ns,
            thread,
        })
    }

    /// Returns and resets the longest time between two completed additions, in nanoseconds.
    pub fn take_longest(&self) -> u64 {
        self.longest_ns.swap(0, Ordering::AcqRel)
    }

    /// Ends it.
    pub fn end(self) -> Result<Tally> {
        self.end.store(true, Ordering::Release);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("a client that adds panicked"))?
    }
}

/// The owner of the counter.
pub struct Host {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Host {
    /// Registers the counter at the node of `socket`.
    pub fn start(socket: PathBuf) -> Result<Self> {
        let end = Arc::<AtomicBool>::default();
        let ends = end.clone();
        let (hosts, is_hosting) = mpsc::channel();
        let thread = thread::spawn(move || {
            let device = Device::attach(socket, "bench")?;
            device.set_reconnect(Some(PATIENCE));
            let counter = device.register_region(COUNTER, 4096, Rights::ALL)?;
            let _ = hosts.send(());
            while !ends.load(Ordering::Acquire) {
                device.check_connection()?;
                thread::sleep(POLL_INTERVAL);
            }
            Ok(counter.load(0)?)
        });
        is_hosting
            .recv_timeout(PATIENCE)
            .context("the counter is not there")?;
        Ok(Self { end, thread })
    }

    /// Stops it and returns the value of the counter.
    pub fn end(self) -> Result<u64> {
        self.end.store(true, Ordering::Release);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the thread of the counter panicked"))?
    }
}
