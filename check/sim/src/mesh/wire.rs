//! Cables with a delay: two FIFO directions each, which can be cut, noticed at either end or not.

use std::collections::VecDeque;

use fastrand::Rng;

use super::{content::Content, time::FRAME_UNITS};

/// A frame on a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub bytes: Vec<u8>,
    /// Contents as its sender wrote them.
    pub content: Content,
}

/// A cable. Each direction is named after its receiving end.
#[derive(Debug)]
pub(super) struct Cable {
    /// Units that a frame is in flight.
    delay_units: u64,
    /// Whether frames arrive.
    pub whole: [bool; 2],
    /// Whether the port at each end has a carrier, if both nodes are on.
    pub carrier: [bool; 2],
    /// Frames in a thousand that vanish.
    pub lost_thousandths: u32,
    /// Frames with their arrival times. `None` for a frame that was lost in flight.
    in_flight: [VecDeque<(u64, Option<Frame>)>; 2],
}

impl Cable {
    /// A whole cable, whose delay differs from [`FRAME_UNITS`] by at most `jitter_percent` percent.
    pub fn new(jitter_percent: u32, rng: &mut Rng) -> Self {
        let most = FRAME_UNITS * u64::from(jitter_percent) / 100;
        Self {
            delay_units: (FRAME_UNITS + rng.u64(0..=2 * most))
                .saturating_sub(most)
                .max(1),
            whole: [true; 2],
            carrier: [true; 2],
            lost_thousandths: 0,
            in_flight: [VecDeque::new(), VecDeque::new()],
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
        self.in_flight[to].push_back((arrives_units, Some(Frame { bytes, content })));
        Some(self.delay_units)
    }

    /// The frame that arrives at the end `to` now; `None` if it was lost on its way.
    pub fn take(&mut self, to: usize) -> Option<Frame> {
        let (_, frame) = self.in_flight[to].pop_front()?;
        frame
    }

    /// Whether another frame arrives at the end `to` together with the one that was sent last.
    pub fn arrives_with_another(&self, to: usize) -> bool {
        let mut latest = self.in_flight[to].iter().rev().map(|(at, _)| at);
        latest
            .next()
            .is_some_and(|last| latest.next() == Some(last))
    }

    /// Whether a frame has arrived at the end `to` by now.
    pub fn has_arrived(&self, to: usize, now_units: u64) -> bool {
        let first = self.in_flight[to].front();
        first.is_some_and(|(arrives_units, _)| *arrives_units <= now_units)
    }

    /// Returns the next frame that has arrived at the end `to` by now, if any, like
    /// [`Cable::take`].
    pub fn take_arrived(&mut self, to: usize, now_units: u64) -> Option<Option<Frame>> {
        let arrived = self.has_arrived(to, now_units);
        arrived.then(|| self.take(to))
    }

    /// Frames in flight to either end.
    pub fn in_flight(&self) -> impl Iterator<Item = &Frame> {
        let both = self.in_flight.iter().flatten();
        both.filter_map(|(_, frame)| frame.as_ref())
    }

    /// Drops frames sent from now on towards the named ends, and frames in flight to them.
    pub fn cut(&mut self, towards: [bool; 2]) {
        for end in [0, 1] {
            if towards[end] {
                self.whole[end] = false;
                self.in_flight[end]
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
    fn a_cut_loses_frames_in_flight_and_keeps_their_arrival_slots() {
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
        let mut receive = |end| cable.take(end).map(|frame| frame.bytes);
        assert_eq!(
            [receive(1), receive(1), receive(1)],
            [None, None, Some(vec![5])]
        );
        assert_eq!(receive(0), Some(vec![4]));
    }

    #[test]
    fn delays_differ_by_the_jitter_at_most() {
        let mut rng = Rng::with_seed(2);
        let mut delays: Vec<u64> = (0..200)
            .map(|_| Cable::new(25, &mut rng).delay_units)
            .collect();
        delays.sort_unstable();
        assert_eq!((delays[0], delays[199]), (12, 20));
        assert_eq!(Cable::new(0, &mut rng).delay_units, FRAME_UNITS);
    }
}
