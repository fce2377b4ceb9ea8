//! A cable: two FIFO directions that lose, corrupt and repeat what they are given.

use std::collections::VecDeque;

use fastrand::Rng;

use crate::plan::FrameFaults;

/// Most frames that overtake the repetition of one.
const REPEAT_BEHIND_MAX: usize = 6;

/// One end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The node.
    pub node: usize,
    /// The node's port.
    pub port: u16,
    /// Whether the port has a carrier.
    pub carrier: bool,
}

/// A cable between two ports.
#[derive(Debug)]
pub struct Cable {
    /// Its two ends.
    pub ends: [End; 2],
    /// Directions that lose everything, by receiving end.
    pub cut: [bool; 2],
    under_way: [VecDeque<Vec<u8>>; 2],
}

/// What became of a frame that a cable was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is under way.
    UnderWay,
    /// It is lost.
    Lost,
    /// It is under way, but some of its bits flipped.
    Corrupted,
}

impl Cable {
    /// A cable without carriers.
    #[must_use]
    pub fn new(ends: [End; 2]) -> Self {
        Self {
            ends,
            cut: [false; 2],
            under_way: [VecDeque::new(), VecDeque::new()],
        }
    }

    /// Gives it a frame for the end `to`.
    pub fn give(
        &mut self,
        to: usize,
        mut frame: Vec<u8>,
        faults: &FrameFaults,
        rng: &mut Rng,
    ) -> Fate {
        let mut happens = |thousandths: u32| rng.u32(..1000) < thousandths;
        if self.cut[to] || happens(faults.lost) {
            return Fate::Lost;
        }
        let corrupted = happens(faults.corrupted);
        if corrupted {
            for _ in 0..rng.usize(1..4) {
                let bit = rng.usize(..frame.len() * 8);
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        }
        self.under_way[to].push_back(frame);
        if corrupted {
            Fate::Corrupted
        } else {
            Fate::UnderWay
        }
    }

    /// The next frame that arrives at the end `to`, and whether it will arrive again.
    pub fn take(
        &mut self,
        to: usize,
        faults: &FrameFaults,
        rng: &mut Rng,
    ) -> Option<(Vec<u8>, bool)> {
        let queue = &mut self.under_way[to];
        let frame = queue.pop_front()?;
        let again = rng.u32(..1000) < faults.duplicated;
        if again {
            // Behind later frames even: it is one too many, not one out of order.
            let behind = rng.usize(..=queue.len().min(REPEAT_BEHIND_MAX));
            queue.insert(behind, frame.clone());
        }
        Some((frame, again))
    }

    /// Frames under way to the end `to`.
    #[must_use]
    pub fn len(&self, to: usize) -> usize {
        self.under_way[to].len()
    }

    /// Loses everything that is under way.
    pub fn lose(&mut self) {
        self.under_way.iter_mut().for_each(VecDeque::clear);
    }
}
