//! Cables with a delay: two FIFO directions each, which can be cut, noticed at either end or not.

use std::collections::VecDeque;

use fastrand::Rng;

use super::{content::Content, time::FRAME_UNITS};

/// A frame on a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub bytes: Vec<u8>,
    /// What its sender put into it.
    pub content: Content,
}

/// A cable. What belongs to one direction is named by the end that hears it.
#[derive(Debug)]
pub(super) struct Cable {
    /// Units that a frame is under way.
    delay_units: u64,
    /// Whether what is sent arrives.
    pub whole: [bool; 2],
    /// Whether the port at each end has a carrier, if both nodes are on.
    pub carrier: [bool; 2],
    /// Frames in a thousand that vanish.
    pub lost_thousandths: u32,
    /// With the time at which each arrives. `None` for what was lost on its way.
    under_way: [VecDeque<(u64, Option<Frame>)>; 2],
}

impl Cable {
    /// A whole cable, whose delay differs from [`FRAME_UNITS`] by at most `jitter_percent` in a hundred of it.
    pub fn new(jitter_percent: u32, rng: &mut Rng) -> Self {
        let most = FRAME_UNITS * u64::from(jitter_percent) / 100;
        Self {
            delay_units: (FRAME_UNITS + rng.u64(0..=2 * most))
                .saturating_sub(most)
                .max(1),
            whole: [true; 2],
            carrier: [true; 2],
            lost_thousandths: 0,
            under_way: [VecDeque::new(), VecDeque::new()],
        }
    }

    /// Units of a round trip of its link.
    pub const fn round_trip_units(&self) -> u64 {
        2 * self.delay_units
    }

    /// Takes a frame for the end `to`, now. Gives the units after which it arrives, if it does.
    pub fn send(
        &mut self,
        to: usize,
        now_units: u64,
        bytes: &[u8],
        content: Content,
        rng: &mut Rng,
    ) -> Option<u64> {
        let lost = self.lost_thousandths > 0 && rng.u32(..1000) < self.lost_thousandths;
        if !self.whole[to] || lost {
            return None;
        }
        let bytes = bytes.to_vec();
        let arrives_units = now_units + self.delay_units;
        self.under_way[to].push_back((arrives_units, Some(Frame { bytes, content })));
        Some(self.delay_units)
    }

    /// The frame that arrives at the end `to` now; `None` if it was lost on its way.
    pub fn take(&mut self, to: usize) -> Option<Frame> {
        let (_, frame) = self.under_way[to].pop_front()?;
        frame
    }

    /// Whether another frame arrives at the end `to` together with the one that was sent last.
    pub fn comes_with_another(&self, to: usize) -> bool {
        let mut latest = self.under_way[to].iter().rev().map(|(at, _)| at);
        latest
            .next()
            .is_some_and(|last| latest.next() == Some(last))
    }

    /// Whether a frame has arrived at the end `to` by now.
    pub fn has_arrived(&self, to: usize, now_units: u64) -> bool {
        let first = self.under_way[to].front();
        first.is_some_and(|(arrives_units, _)| *arrives_units <= now_units)
    }

    /// The next frame that has arrived at the end `to` by now, if there is one, as [`Cable::take`] gives it.
    pub fn take_arrived(&mut self, to: usize, now_units: u64) -> Option<Option<Frame>> {
        let arrived = self.has_arrived(to, now_units);
        arrived.then(|| self.take(to))
    }

    /// Frames under way to either end.
    pub fn under_way(&self) -> impl Iterator<Item = &Frame> {
        let both = self.under_way.iter().flatten();
        both.filter_map(|(_, frame)| frame.as_ref())
    }

    /// Loses what is sent from now on towards the ends that are named, and what is under way to them.
    pub fn cut(&mut self, towards: [bool; 2]) {
        for end in [0, 1] {
            if towards[end] {
                self.whole[end] = false;
                self.under_way[end]
                    .iter_mut()
                    .for_each(|(_, frame)| *frame = None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_loses_what_is_under_way_and_no_frame_comes_for_another() {
        let mut rng = Rng::with_seed(1);
        let mut cable = Cable::new(0, &mut rng);
        let content = Content::of(&[]);
        let mut send = |cable: &mut Cable, to, byte| cable.send(to, 0, &[byte], content, &mut rng);
        for byte in [1, 2] {
            assert_eq!(send(&mut cable, 1, byte), Some(FRAME_UNITS));
        }
        cable.cut([false, true]);
        assert_eq!(send(&mut cable, 1, 3), None);
        assert_eq!(send(&mut cable, 0, 4), Some(FRAME_UNITS));
        cable.whole = [true; 2];
        assert_eq!(send(&mut cable, 1, 5), Some(FRAME_UNITS));
        // Each of those that were sent has its moment, the lost ones too.
        let mut heard = |end| cable.take(end).map(|frame| frame.bytes);
        assert_eq!([heard(1), heard(1), heard(1)], [None, None, Some(vec![5])]);
        assert_eq!(heard(0), Some(vec![4]));
    }

    #[test]
    fn delays_differ_by_the_jitter_and_no_more() {
        let mut rng = Rng::with_seed(2);
        let mut delays: Vec<u64> = (0..200)
            .map(|_| Cable::new(25, &mut rng).delay_units)
            .collect();
        delays.sort_unstable();
        assert_eq!((delays[0], delays[199]), (12, 20));
        assert_eq!(Cable::new(0, &mut rng).delay_units, FRAME_UNITS);
    }
}
