//! Replaying on one port: frames go into a TX pipe, come back through an RX pipe, and are compared.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use covalent::{Device, Error, Match, RxPipe, TxPipe};

use crate::{
    latency::Latency,
    replay::compare::{Arrival, Comparison, Tally, ring_bytes},
    stop::{POLL_INTERVAL, Stop},
};

/// Frames pushed before the replay publishes them to the lane and receives returning frames.
const BURST: usize = 32;

/// How often the numbers that others watch are brought up to date.
const LIVE_INTERVAL: Duration = Duration::from_millis(50);

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
    /// The returning traffic to receive.
    pub matches: Match,
    /// When to end.
    pub length: Length,
    /// Maximum frames in flight.
    pub window_packets: usize,
    /// Maximum bytes in flight, each frame rounded up to a multiple of 64.
    pub window_bytes: usize,
    /// Size of each of the two pipes.
    pub pipe_bytes: u64,
    /// How long to wait for a frame that does not come back.
    pub patience: Duration,
}

/// The result of a replay.
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

/// Counters of a running replay, for other threads to read.
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
    /// Frames in flight.
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

/// Opens the pipes and binds the returning traffic. `device` must be on the port's lane.
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
    let mut next_update = started;
    loop {
        let now = Instant::now();
        let sending = !stop.is_requested() && !replay.is_sent(now);
        let blocked = sending && replay.send(now)?;
        let wait = !sending || blocked;
        let arrived = replay.receive(&mut rx, wait)?;
        let now = Instant::now();
        if now >= next_update {
            next_update = now + LIVE_INTERVAL;
            replay.update_live(live);
        }
        if arrived {
            replay.last_arrival = now;
            continue;
        }
        let is_over = !sending && replay.comparison.packets_in_flight() == 0;
        if is_over || (now - replay.last_arrival >= settings.patience && !replay.give_up()) {
            break;
        }
    }
    replay.update_live(live);
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
    /// When a frame last came back or was given up.
    last_arrival: Instant,
}

impl Replay<'_> {
    fn is_sent(&self, now: Instant) -> bool {
        match self.settings.length {
            Length::Rounds(rounds) => self.outcome.rounds >= rounds,
            Length::Time(time) => now - self.started >= time,
        }
    }

    /// Sends a burst. Returns whether there is no space until a frame comes back.
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
                    if self.comparison.packets_in_flight() == 0 {
                        // The silence timer starts with the first frame in flight.
                        self.last_arrival = now;
                    }
                    self.comparison.sent(self.next as u32, self.frames, at_ns);
                    self.outcome.sent_packets += 1;
                    self.outcome.sent_bytes += frame.len() as u64;
                }
                Err(Error::PipeFull { .. }) => {
                    blocked = true;
                    break;
                }
                Err(error) => {
                    let Some(cause) = refusal_cause(&error) else {
                        return Err(error.into());
                    };
                    *self.outcome.refusals.entry(cause).or_default() += 1;
                    self.last_arrival = now;
                }
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
        // One frame may always be in flight: otherwise a small window would never pass a long
        // frame.
        self.comparison.packets_in_flight() == 0
            || (self.comparison.packets_in_flight() < self.settings.window_packets
                && self.comparison.bytes_in_flight() + ring_bytes(frame)
                    <= self.settings.window_bytes)
    }

    /// Compares the returned frames. Waits briefly for them if `wait`. Returns whether a sent frame
    /// came back.
    fn receive(&mut self, rx: &mut RxPipe<'_>, wait: bool) -> Result<bool> {
        let batch = if wait {
            match rx.recv(POLL_INTERVAL) {
                Err(Error::Deadline { .. }) => return Ok(false),
                batch => batch?,
            }
        } else {
            match rx.try_recv()? {
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
                        "port {}: received a frame of {} bytes that matches an expected frame only \
                         up to byte {at_byte}",
                        self.settings.port,
                        bytes.len()
                    );
                    self.problem(problem);
                }
                Arrival::Duplicate => {
                    let problem = format!(
                        "port {}: received a frame of {} bytes twice",
                        self.settings.port,
                        bytes.len()
                    );
                    self.problem(problem);
                }
                Arrival::Unknown => {}
            }
        }
        batch.free_all();
        let has_returned = self.comparison.tally().received_packets > before;
        if has_returned {
            self.outcome.elapsed_ns = now_ns;
        }
        Ok(has_returned)
    }

    /// No frame came back for too long. Returns whether it makes sense to continue.
    fn give_up(&mut self) -> bool {
        let (port, patience) = (&self.settings.port, self.settings.patience);
        let missing = self.comparison.packets_in_flight();
        if missing == 0 {
            self.problem(format!(
                "port {port}: its pipe stayed full for {patience:?}"
            ));
            return false;
        }
        self.problem(format!(
            "port {port}: {missing} frames were not returned within {patience:?}"
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

    fn update_live(&self, live: &Live) {
        let tally = self.comparison.tally();
        let outcome = &self.outcome;
        for (place, value) in [
            (&live.sent_packets, outcome.sent_packets),
            (&live.sent_bytes, outcome.sent_bytes),
            (&live.received_packets, tally.received_packets),
            (&live.received_bytes, tally.received_bytes),
            (
                &live.in_flight_packets,
                self.comparison.packets_in_flight() as u64,
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
            // Every frame came back after all: the frame that looked altered was foreign.
            self.outcome.problems.clear();
        }
        self.outcome
    }
}

/// The cause for which a frame can never be sent, as the daemon counts it. `None` for
/// other errors.
const fn refusal_cause(error: &Error) -> Option<&'static str> {
    match error {
        Error::FrameTooLong { .. } => Some("too_long"),
        Error::FrameTooShort { .. } => Some("runt"),
        Error::LinkEtherType { .. } => Some("link_type"),
        _ => None,
    }
}
