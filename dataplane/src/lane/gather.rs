//! Letting the frames of a stream gather in their ring.
//!
//! Each look at a ring of the kernel's takes the memory that says how far the kernel is away from the kernel's core, and then the kernel
//! waits for it when it adds the next frame. On a virtual cable a look at every frame costs a twentieth of the rate.
//!
//! A lane that waits for one thing keeps everything else waiting, so it does only where there is nothing else: see [`Round::may_gather`]. What
//! comes up meanwhile, as a doorbell or a command, ends the wait.

use std::{
    hint,
    time::{Duration, Instant},
};

use super::Lane;

/// How long frames gather: a few at the rates at which it matters. Waiting longer gains little.
const GATHER: Duration = Duration::from_micros(5);

/// Frames come in a stream when others came so shortly before. Well above [`GATHER`], so that a stream stays one. Who asks and waits for the
/// answer is not kept waiting: its next frame comes later than [`GATHER`], and what an application sends ends the wait.
const STREAM_GAP: Duration = Duration::from_micros(10);

/// When frames came.
#[derive(Debug, Default)]
pub(super) struct Gather {
    last: Option<Instant>,
}

impl Gather {
    /// Frames came at `now`. Until when those behind them may gather; `None` if there is no stream.
    fn until(&mut self, now: Instant) -> Option<Instant> {
        let before = self.last.replace(now)?;
        (now.saturating_duration_since(before) < STREAM_GAP).then_some(now + GATHER)
    }
}

/// A round that ends, as far as it bears on whether frames may gather behind it.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// How long the lane spins without work before it sleeps.
    spin: Duration,
    /// Frames that it takes at a time.
    burst: usize,
    /// Its ports, but for those that join it with other lanes: what comes there may be so much later.
    ports: usize,
    /// One of them has a link.
    has_link: bool,
    /// Everything that was done in this round.
    work: usize,
    /// Frames of that, from ports.
    received: usize,
    /// Pipes with packets or verbs that are still to be taken.
    sources: usize,
    /// Pipes that are kept to a rate and wait for their time.
    paced: usize,
}

impl Round {
    /// Whether a wait holds up nothing but frames of the stream itself:
    ///
    /// - the round was nothing but frames, and left none behind;
    /// - no other port may have frames meanwhile: the wait does not look at ports;
    /// - no application waits for what a link's frames say;
    /// - no pipe waits to be taken from, neither for room in a port nor for its time;
    /// - the lane spins for so long anyway when it has no work: one that is told to leave its core at once (`interrupt`) does that.
    fn may_gather(self) -> bool {
        let only_drained =
            self.received > 0 && self.work == self.received && self.received < self.burst;
        only_drained
            && self.ports == 1
            && !self.has_link
            && self.sources == 0
            && self.paced == 0
            && self.spin >= GATHER
    }
}

impl Lane {
    /// Waits for frames to gather behind a round of so much `work`, of which `received` were frames, if they may. Whatever else there is to do
    /// ends the wait.
    pub(super) fn gather(&mut self, work: usize, received: usize) {
        let ports = || {
            self.ports
                .iter()
                .filter(|slot| slot.is_configured && !slot.joins_lanes)
        };
        let round = Round {
            spin: self.idler.spin(),
            burst: self.settings.burst,
            ports: ports().count(),
            has_link: ports().any(|slot| slot.link),
            work,
            received,
            sources: self.core.sources.len(),
            paced: self.core.paced.len(),
        };
        if !round.may_gather() {
            return;
        }
        let Some(until) = self.gather.until(Instant::now()) else {
            return;
        };
        while Instant::now() < until && !self.has_work_after_all() {
            hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a round of some frames, on a lane that does nothing else.
    const STREAM: Round = Round {
        spin: Duration::MAX,
        burst: 64,
        ports: 1,
        has_link: false,
        work: 5,
        received: 5,
        sources: 0,
        paced: 0,
    };

    #[test]
    fn frames_gather_where_nothing_else_waits() {
        assert!(STREAM.may_gather());
        let adaptive = Round {
            spin: GATHER,
            ..STREAM
        };
        assert!(adaptive.may_gather());
    }

    #[test]
    fn nothing_else_waits_while_frames_gather() {
        let cases = [
            ("another port", Round { ports: 2, ..STREAM }),
            (
                "a link",
                Round {
                    has_link: true,
                    ..STREAM
                },
            ),
            (
                "a pipe to take from",
                Round {
                    sources: 1,
                    ..STREAM
                },
            ),
            ("a paced pipe", Round { paced: 1, ..STREAM }),
            (
                "a lane that sleeps at once",
                Round {
                    spin: Duration::ZERO,
                    ..STREAM
                },
            ),
            ("other work", Round { work: 6, ..STREAM }),
            (
                "more frames behind a whole burst",
                Round {
                    work: 64,
                    received: 64,
                    ..STREAM
                },
            ),
            (
                "no frame",
                Round {
                    work: 0,
                    received: 0,
                    ..STREAM
                },
            ),
        ];
        for (what, round) in cases {
            assert!(!round.may_gather(), "{what}");
        }
    }

    #[test]
    fn only_frames_shortly_behind_others_gather() {
        let mut gather = Gather::default();
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        assert_eq!(gather.until(at(0)), None, "the first");
        assert_eq!(gather.until(at(3)), Some(at(3) + GATHER));
        // A round after the wait: the stream goes on.
        assert_eq!(gather.until(at(9)), Some(at(9) + GATHER));
        assert_eq!(gather.until(at(19)), None, "too late to be of a stream");
        assert_eq!(gather.until(at(20)), Some(at(20) + GATHER));
    }
}
