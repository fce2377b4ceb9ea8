//! Coalesces the frames of a stream in their ring.
//!
//! Each read of a kernel ring takes the cache line with the kernel's progress away from the
//! kernel's core. The kernel then waits for it when it adds the next frame. On a virtual cable a
//! read for every frame costs a twentieth of the rate.
//!
//! A lane that waits for frames delays all other work, so it waits only if there is no other work:
//! see [`Round::may_coalesce`]. New work, such as a doorbell or a command, ends the wait.

use std::{
    hint,
    time::{Duration, Instant},
};

use super::Lane;

/// How long frames coalesce: a few frames at the rates where it matters. A longer wait gains
/// little.
const COALESCE_TIME: Duration = Duration::from_micros(5);

/// Largest gap between frames of a stream. It is well above [`COALESCE_TIME`], so that a stream
/// stays one. Request-response traffic is not delayed: its next frame arrives later than
/// [`COALESCE_TIME`], and a send of an application ends the wait.
const STREAM_GAP: Duration = Duration::from_micros(10);

/// The arrival time of frames.
#[derive(Debug, Default)]
pub(super) struct Coalesce {
    last: Option<Instant>,
}

impl Coalesce {
    /// Call it when frames arrive at `now`. Returns until when later frames may coalesce; `None` if
    /// there is no stream.
    fn until(&mut self, now: Instant) -> Option<Instant> {
        let before = self.last.replace(now)?;
        (now.saturating_duration_since(before) < STREAM_GAP).then_some(now + COALESCE_TIME)
    }
}

/// The properties of a finished round that decide whether frames may coalesce after it.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// How long the lane spins without work before it sleeps.
    spin: Duration,
    /// Frames that it takes at a time.
    burst: usize,
    /// Its ports, except those to other lanes: frames there may be late by this much.
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
    /// Whether a wait delays nothing but frames of the stream itself:
    ///
    /// - the round handled only frames, and left none behind;
    /// - no other port may have frames meanwhile: the wait does not check ports;
    /// - no application waits for the content of link frames;
    /// - no pipe waits to be served, for space in a port or for its rate limit;
    /// - the lane spins that long without work anyway. A lane that must leave its core at once
    ///   (`interrupt`) does not.
    fn may_coalesce(self) -> bool {
        let only_drained =
            self.received > 0 && self.work == self.received && self.received < self.burst;
        only_drained
            && self.ports == 1
            && !self.has_link
            && self.sources == 0
            && self.paced == 0
            && self.spin >= COALESCE_TIME
    }
}

impl Lane {
    /// Waits for frames to coalesce after a round of `work`, of which `received` were frames, if
    /// allowed. Any other work ends the wait.
    pub(super) fn coalesce(&mut self, work: usize, received: usize) {
        let ports = || {
            self.ports
                .slots
                .iter()
                .filter(|slot| slot.is_configured && !slot.joins_lanes)
        };
        let round = Round {
            spin: self.housekeeping.idler.spin(),
            burst: self.settings.burst,
            ports: ports().count(),
            has_link: ports().any(|slot| slot.link),
            work,
            received,
            sources: self.pipes.sources.sessions(),
            paced: self.pipes.paced(),
        };
        if !round.may_coalesce() {
            return;
        }
        let Some(until) = self.housekeeping.coalesce.until(Instant::now()) else {
            return;
        };
        while Instant::now() < until && !self.recheck_work() {
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
    fn frames_coalesce_if_nothing_else_waits() {
        assert!(STREAM.may_coalesce());
        let adaptive = Round {
            spin: COALESCE_TIME,
            ..STREAM
        };
        assert!(adaptive.may_coalesce());
    }

    #[test]
    fn frames_do_not_coalesce_if_other_work_waits() {
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
            assert!(!round.may_coalesce(), "{what}");
        }
    }

    #[test]
    fn only_frames_close_behind_others_coalesce() {
        let mut coalesce = Coalesce::default();
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        assert_eq!(coalesce.until(at(0)), None, "the first");
        assert_eq!(coalesce.until(at(3)), Some(at(3) + COALESCE_TIME));
        // A round after the wait: the stream continues.
        assert_eq!(coalesce.until(at(9)), Some(at(9) + COALESCE_TIME));
        assert_eq!(coalesce.until(at(19)), None, "too late to be of a stream");
        assert_eq!(coalesce.until(at(20)), Some(at(20) + COALESCE_TIME));
    }
}
