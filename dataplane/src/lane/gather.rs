//! Letting the frames of a stream gather in their ring.
//!
//! Each look at a ring of the kernel's takes the memory that says how far the kernel is away from the kernel's core, and then the kernel
//! waits for it when it adds the next frame. On a virtual cable a look at every frame costs a twentieth of the rate.

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

impl Lane {
    /// Waits for frames to gather, if the round's `work` was nothing but `received` frames and left none behind. Whatever else there is to
    /// do ends the wait. Never on a lane with links, where applications wait for what the frames say, nor with pipes that are kept to a rate.
    pub(super) fn gather(&mut self, work: usize, received: usize) {
        let only_drained = received > 0 && work == received && received < self.settings.burst;
        if !only_drained || !self.core.paced.is_empty() || self.ports.iter().any(|slot| slot.link) {
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
