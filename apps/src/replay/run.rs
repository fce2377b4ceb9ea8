//! Replaying on one port: frames go into a TX pipe, come back through an RX pipe, and are compared.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use covalent_verbs::{Device, Error, Match, RxPipe, TxPipe};

use crate::{
    latency::Latency,
    replay::compare::{Arrival, Comparison, Tally, ring_bytes},
    stop::{ASK_EVERY, Stop},
};

/// Frames pushed before the lane is told and what came back is looked at.
const BURST: usize = 32;

/// How often the numbers that others watch are brought up to date.
const TELL_EVERY: Duration = Duration::from_millis(50);

/// Problems that are kept word for word.
const PROBLEMS_KEPT: usize = 8;

/// When to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// After so many rounds through all frames.
    Rounds(u64),
    /// With the first frame after so long.
    Time(Duration),
}

/// How to replay.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The port.
    pub port: String,
    /// What of the returning traffic to receive.
    pub matches: Match,
    /// When to end.
    pub length: Length,
    /// Most frames under way.
    pub window_packets: usize,
    /// Most bytes under way, each frame rounded up to 64.
    pub window_bytes: usize,
    /// Size of each of the two pipes.
    pub pipe_bytes: u64,
    /// How long to wait for a frame that does not come back.
    pub patience: Duration,
}

/// What happened.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Rounds that were sent whole.
    pub rounds: u64,
    /// Frames put into the TX pipe.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames refused at the TX pipe, by cause.
    pub refusals: BTreeMap<&'static str, u64>,
    /// How the comparison went.
    pub tally: Tally,
    /// Round-trip times.
    pub rtt: Latency,
    /// From the first frame sent to the last one received.
    pub elapsed_ns: u64,
    /// The first few problems in words.
    pub problems: Vec<String>,
}

/// Numbers of a replay under way, for others to watch.
#[derive(Debug, Default)]
pub struct Live {
    /// As in [`Outcome`].
    pub sent_packets: AtomicU64,
    /// As in [`Outcome`].
    pub sent_bytes: AtomicU64,
    /// As in [`Tally`].
    pub received_packets: AtomicU64,
    /// As in [`Tally`].
    pub received_bytes: AtomicU64,
    /// Frames under way.
    pub in_flight_packets: AtomicU64,
    /// All refusals.
    pub refused_packets: AtomicU64,
    /// As in [`Tally`].
    pub mismatched_packets: AtomicU64,
    /// As in [`Tally`].
    pub lost_packets: AtomicU64,
    /// Median round-trip time.
    pub rtt_p50_ns: AtomicU64,
    /// 99 of 100 took no longer.
    pub rtt_p99_ns: AtomicU64,
}

/// A port's two pipes.
#[derive(Debug)]
pub struct Pipes<'d> {
    rx: RxPipe<'d>,
    tx: TxPipe<'d>,
}

/// Opens the pipes and binds what comes back. `device` must be on the port's lane.
///
/// # Errors
/// The daemon refuses or is gone.
pub fn open<'d>(device: &'d Device, settings: &Settings) -> Result<Pipes<'d>> {
    let mut rx = device.rx_pipe_on(settings.pipe_bytes, &settings.port)?;
    rx.bind(&settings.matches)?;
    let tx = device.tx_pipe(settings.pipe_bytes, &settings.port)?;
    Ok(Pipes { rx, tx })
}

/// Replays `frames` in their order, round after round.
///
/// # Errors
/// The daemon is gone. Frames that do not come back, or not unaltered, are in the outcome.
pub fn run(
    pipes: Pipes<'_>,
    frames: &[Box<[u8]>],
    settings: &Settings,
    live: &Live,
    stop: &Stop,
) -> Result<Outcome> {
    let Pipes { mut rx, tx } = pipes;
    let started = Instant::now();
    let mut replay = Replay {
        frames,
        settings,
        tx,
        comparison: Comparison::new(),
        outcome: Outcome::default(),
        next: 0,
        started,
        last_arrival: started,
    };
    let mut next_tell = started;
    loop {
        let now = Instant::now();
        let sending = !stop.is_asked() && !replay.is_sent(now);
        let blocked = sending && replay.send(now)?;
        let wait = !sending || blocked;
        let arrived = replay.receive(&mut rx, wait)?;
        let now = Instant::now();
        if now >= next_tell {
            next_tell = now + TELL_EVERY;
            replay.tell(live);
        }
        if arrived {
            replay.last_arrival = now;
            continue;
        }
        let is_over = !sending && replay.comparison.under_way_packets() == 0;
        if is_over || (now - replay.last_arrival >= settings.patience && !replay.give_up()) {
            break;
        }
    }
    replay.tell(live);
    Ok(replay.finish())
}

struct Replay<'a> {
    frames: &'a [Box<[u8]>],
    settings: &'a Settings,
    tx: TxPipe<'a>,
    comparison: Comparison,
    outcome: Outcome,
    next: usize,
    started: Instant,
    /// When something last came back, or was given up.
    last_arrival: Instant,
}

impl Replay<'_> {
    fn is_sent(&self, now: Instant) -> bool {
        match self.settings.length {
            Length::Rounds(rounds) => self.outcome.rounds >= rounds,
            Length::Time(time) => now - self.started >= time,
        }
    }

    /// Sends a burst. Returns whether there is no room for more before something comes back.
    fn send(&mut self, now: Instant) -> Result<bool> {
        let at_ns = (now - self.started).as_nanos() as u64;
        let mut blocked = false;
        for _ in 0..BURST {
            let frame = &self.frames[self.next];
            if !self.has_room(frame) {
                blocked = true;
                break;
            }
            match self.tx.push(frame) {
                Ok(()) => {
                    if self.comparison.under_way_packets() == 0 {
                        // The clock of silence starts with the first frame under way.
                        self.last_arrival = now;
                    }
                    self.comparison.sent(self.next as u32, self.frames, at_ns);
                    self.outcome.sent_packets += 1;
                    self.outcome.sent_bytes += frame.len() as u64;
                }
                Err(Error::Send(covalent_verbs::SendRefusal::Full)) => {
                    blocked = true;
                    break;
                }
                Err(Error::Send(refusal)) => {
                    *self.outcome.refusals.entry(refusal.cause()).or_default() += 1;
                    self.last_arrival = now;
                }
                Err(error) => return Err(error.into()),
            }
            self.next += 1;
            if self.next == self.frames.len() {
                self.next = 0;
                self.outcome.rounds += 1;
                if self.is_sent(now) {
                    break;
                }
            }
        }
        self.tx.publish()?;
        Ok(blocked)
    }

    fn has_room(&self, frame: &[u8]) -> bool {
        // One frame may always be under way, or a small window would never let a long one pass.
        self.comparison.under_way_packets() == 0
            || (self.comparison.under_way_packets() < self.settings.window_packets
                && self.comparison.under_way_bytes() + ring_bytes(frame)
                    <= self.settings.window_bytes)
    }

    /// Compares what has come back; waits a little for it if there is nothing else to do. Returns whether anything came.
    fn receive(&mut self, rx: &mut RxPipe<'_>, wait: bool) -> Result<bool> {
        let batch = if wait {
            match rx.recv_deadline(Instant::now() + ASK_EVERY) {
                Err(Error::Deadline { .. }) => return Ok(false),
                batch => batch?,
            }
        } else {
            match rx.recv()? {
                Some(batch) => batch,
                None => return Ok(false),
            }
        };
        let now_ns = self.started.elapsed().as_nanos() as u64;
        let before = self.comparison.tally().received_packets;
        for bytes in &batch {
            match self.comparison.arrived(bytes, self.frames, now_ns) {
                Arrival::Expected { rtt_ns } | Arrival::Late { rtt_ns } => {
                    self.outcome.rtt.record(rtt_ns)
                }
                Arrival::Altered { at_byte } => {
                    let problem = format!(
                        "port {}: a frame of {} bytes came that is like an expected one up to byte {at_byte}",
                        self.settings.port,
                        bytes.len()
                    );
                    self.problem(problem);
                }
                Arrival::Duplicate => {
                    let problem = format!(
                        "port {}: a frame of {} bytes came twice",
                        self.settings.port,
                        bytes.len()
                    );
                    self.problem(problem);
                }
                Arrival::Unknown => {}
            }
        }
        batch.free_all();
        let came_back = self.comparison.tally().received_packets > before;
        if came_back {
            self.outcome.elapsed_ns = now_ns;
        }
        Ok(came_back)
    }

    /// Nothing came back for too long. Returns whether there is any use in going on.
    fn give_up(&mut self) -> bool {
        let (port, patience) = (&self.settings.port, self.settings.patience);
        let missing = self.comparison.under_way_packets();
        if missing == 0 {
            self.problem(format!(
                "port {port}: its pipe stayed full for {patience:?}"
            ));
            return false;
        }
        self.problem(format!(
            "port {port}: {missing} frames did not come back within {patience:?}"
        ));
        self.comparison.give_up();
        self.last_arrival = Instant::now();
        true
    }

    fn problem(&mut self, text: String) {
        if self.outcome.problems.len() < PROBLEMS_KEPT {
            self.outcome.problems.push(text);
        }
    }

    fn tell(&self, live: &Live) {
        let tally = self.comparison.tally();
        let outcome = &self.outcome;
        for (place, value) in [
            (&live.sent_packets, outcome.sent_packets),
            (&live.sent_bytes, outcome.sent_bytes),
            (&live.received_packets, tally.received_packets),
            (&live.received_bytes, tally.received_bytes),
            (
                &live.in_flight_packets,
                self.comparison.under_way_packets() as u64,
            ),
            (&live.refused_packets, outcome.refusals.values().sum()),
            (&live.mismatched_packets, tally.mismatched_packets),
            (&live.lost_packets, tally.lost_packets),
            (&live.rtt_p50_ns, outcome.rtt.percentile_ns(50.0)),
            (&live.rtt_p99_ns, outcome.rtt.percentile_ns(99.0)),
        ] {
            place.store(value, Ordering::Relaxed);
        }
    }

    fn finish(mut self) -> Outcome {
        self.outcome.tally = self.comparison.tally();
        if self.outcome.tally.is_exact()
            && self.outcome.sent_packets == self.outcome.tally.received_packets
        {
            // Everything came back after all: what looked like an altered frame was somebody else's.
            self.outcome.problems.clear();
        }
        self.outcome
    }
}
