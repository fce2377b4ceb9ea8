//! The near side's trials, for any kind of rings.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use hdrhistogram::Histogram;

use super::{
    pacer::Pacer,
    part::{Script, SessionPart},
    probe::Probe,
    search,
    trial::{RoundTrips, Trial},
};
use crate::streams::{case::Size, peers::BURST, source::Source};

/// Flat out, every so many packets are probes: about as many in a microsecond as at a given rate.
const PROBE_EVERY_FLAT_OUT: u64 = 15;

/// Upper limit of the search, relative to the flat-out rate: a source that often meets a full ring
/// slows the receiver down.
const ABOVE_FLAT_OUT: f64 = 1.25;

/// How long the application may take to empty the rings.
pub const DRAIN: Duration = Duration::from_secs(5);

/// The near side of some rings.
pub trait NearRings {
    /// Writes a 64-byte packet to ring `at`. Returns whether there was space.
    fn push(&mut self, at: usize, packet: &[u8]) -> Result<bool>;

    /// Publishes the written packets to the application.
    fn publish(&mut self) -> Result<()>;

    /// Serves the application's doorbells and returned packets.
    fn serve(&mut self, back: &mut Back) -> Result<()>;

    /// Packets that lie in the rings.
    fn waiting(&mut self) -> u64;

    /// Notifications written so far.
    fn notifications(&self) -> u64;
}

/// The returned packets.
#[derive(Debug)]
pub struct Back {
    origin: Instant,
    round_trips_ns: Histogram<u64>,
}

impl Back {
    /// Nanoseconds since the driver was made.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        // Enough for centuries.
        self.origin.elapsed().as_nanos() as u64
    }

    /// A probe that went at `sent_ns` was back at `now_ns`.
    #[inline]
    pub fn came(&mut self, sent_ns: u64, now_ns: u64) {
        self.round_trips_ns
            .saturating_record(now_ns.saturating_sub(sent_ns));
    }

    fn round_trips(&self) -> Option<RoundTrips> {
        let us = |quantile| self.round_trips_ns.value_at_quantile(quantile) as f64 / 1e3;
        (!self.round_trips_ns.is_empty()).then(|| RoundTrips {
            p50_us: us(0.5),
            p99_us: us(0.99),
        })
    }
}

/// Offers packets to the rings in turn.
pub struct Driver<'a, R> {
    rings: R,
    part: &'a SessionPart,
    stop: &'a AtomicBool,
    source: Source,
    back: Back,
    next: usize,
    offered: u64,
    dropped: u64,
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    at_ns: u64,
    offered: u64,
    dropped: u64,
    late: u64,
    waiting: u64,
    notifications: u64,
}

impl<'a, R: NearRings> Driver<'a, R> {
    /// Creates a driver of `rings` for `part`.
    pub fn new(rings: R, part: &'a SessionPart, stop: &'a AtomicBool) -> Result<Self> {
        Ok(Self {
            rings,
            part,
            stop,
            source: Source::new(Size::Bytes(64), &[])?,
            back: Back {
                origin: Instant::now(),
                round_trips_ns: Histogram::new_with_bounds(1, 1_000_000_000, 3)?,
            },
            next: 0,
            offered: 0,
            dropped: 0,
        })
    }

    /// Runs the script. Returns the trials, and the number of packets that the application has
    /// received in all.
    pub fn play(mut self) -> Result<(Vec<Trial>, u64)> {
        let trials = match self.part.script.clone() {
            Script::FlatOut => vec![self.trial(None)?],
            Script::Rates(rates) => rates
                .into_iter()
                .map(|rate| self.trial(Some(rate)))
                .collect::<Result<_>>()?,
            Script::Highest { steps } => {
                let flat_out = self.trial(None)?;
                let most = flat_out.received_mpps() * ABOVE_FLAT_OUT;
                let best = search::highest(most, steps, |rate| self.trial(Some(rate)))?;
                [flat_out].into_iter().chain(best).collect()
            }
        };
        self.drain()?;
        Ok((trials, self.offered - self.dropped))
    }

    fn trial(&mut self, mpps: Option<f64>) -> Result<Trial> {
        // Packets left by the previous trial must not count for this one.
        self.drain()?;
        let mut pacer = Pacer::new(mpps, self.back.now_ns());
        // About one per microsecond. The number is odd, so that each pipe gets its share of the
        // probes.
        let probe_every = self
            .part
            .probes
            .then(|| mpps.map_or(PROBE_EVERY_FLAT_OUT, |mpps| mpps as u64 | 1));
        self.offer(&mut pacer, probe_every, self.part.settle)?;
        self.back.round_trips_ns.reset();
        let before = self.counts(&pacer);
        self.offer(&mut pacer, probe_every, self.part.slice)?;
        let after = self.counts(&pacer);
        let offered = after.offered - before.offered;
        let dropped = after.dropped - before.dropped;
        Ok(Trial {
            seconds: (after.at_ns - before.at_ns) as f64 / 1e9,
            offered,
            dropped,
            late: after.late - before.late,
            received: (offered - dropped + before.waiting).saturating_sub(after.waiting),
            notifications: after.notifications - before.notifications,
            round_trips: self.back.round_trips(),
        })
    }

    fn counts(&mut self, pacer: &Pacer) -> Counts {
        Counts {
            at_ns: self.back.now_ns(),
            offered: self.offered,
            dropped: self.dropped,
            late: pacer.missed(),
            waiting: self.rings.waiting(),
            notifications: self.rings.notifications(),
        }
    }

    /// Offers the due packets for `time`.
    fn offer(&mut self, pacer: &mut Pacer, probe_every: Option<u64>, time: Duration) -> Result<()> {
        let end_ns = self.back.now_ns() + time.as_nanos() as u64;
        let mut until_probe = 1;
        loop {
            let now_ns = self.back.now_ns();
            if now_ns >= end_ns {
                return Ok(());
            }
            self.go_on()?;
            let due = pacer.due(now_ns, BURST as u64);
            for behind in (0..due).rev() {
                let at = self.next;
                self.next = if at + 1 == self.part.count as usize {
                    0
                } else {
                    at + 1
                };
                until_probe -= u64::from(probe_every.is_some());
                let probe;
                let packet = if until_probe == 0 {
                    until_probe = probe_every.unwrap_or(1);
                    // Count from the due time, so that a stall is part of the round trip of the
                    // probes that it delays.
                    probe = Probe::at(pacer.due_ns(behind, now_ns));
                    probe.bytes()
                } else {
                    self.source.next_packet()
                };
                let placed = self.rings.push(at, packet)?;
                self.dropped += u64::from(!placed);
            }
            self.offered += due;
            if due > 0 {
                self.rings.publish()?;
            }
            self.rings.serve(&mut self.back)?;
        }
    }

    /// Waits until the application has given everything back.
    fn drain(&mut self) -> Result<()> {
        let since = Instant::now();
        loop {
            for _ in 0..BURST {
                self.rings.serve(&mut self.back)?;
            }
            let waiting = self.rings.waiting();
            if waiting == 0 {
                return Ok(());
            }
            self.go_on()?;
            ensure!(
                since.elapsed() < DRAIN,
                "{waiting} packets lie in the rings and the application does not look: a \
                 notification was lost"
            );
        }
    }

    fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped before the last trial");
        }
        Ok(())
    }
}
