//! A cable: two FIFO directions that lose, corrupt and repeat what they are given.

use std::collections::VecDeque;

use covalent_protocol::wire::{ETHERNET_HEADER_BYTES, RECORD_BYTES, frame};
use fastrand::Rng;

use crate::{plan::FrameFaults, records::Content};

/// Most frames that overtake the repetition of one.
const REPEAT_BEHIND_MAX: usize = 6;
/// Bytes of a record that are payload, whatever the record says.
const PAYLOAD: std::ops::Range<usize> = 32..56;

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
    /// Until which event each direction stands still, by receiving end.
    pub stalled_until: [u32; 2],
    under_way: [VecDeque<UnderWay>; 2],
}

#[derive(Debug, Clone)]
struct UnderWay {
    frame: Vec<u8>,
    content: Option<Content>,
    /// The other end did not send it: its sender knows of one less.
    copy: bool,
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
            stalled_until: [0; 2],
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
        let mut happens = |thousandths: u32| thousandths > 0 && rng.u32(..1000) < thousandths;
        if self.cut[to] || happens(faults.lost) {
            return Fate::Lost;
        }
        let corrupted = happens(faults.corrupted);
        let (forged, overtakes) = (happens(faults.forged), happens(faults.reordered));
        let content = Content::of(&frame);
        if corrupted {
            for _ in 0..rng.usize(1..4) {
                let bit = rng.usize(..frame.len() * 8);
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        }
        if forged {
            let records = (frame.len() - ETHERNET_HEADER_BYTES) / RECORD_BYTES;
            let byte =
                ETHERNET_HEADER_BYTES + rng.usize(..records) * RECORD_BYTES + rng.usize(PAYLOAD);
            frame[byte] ^= 1 << rng.u8(..8);
            frame::seal(&mut frame);
        }
        let queue = &mut self.under_way[to];
        let place = if overtakes {
            rng.usize(..=queue.len())
        } else {
            queue.len()
        };
        queue.insert(
            place,
            UnderWay {
                frame,
                content,
                copy: false,
            },
        );
        if corrupted {
            Fate::Corrupted
        } else {
            Fate::UnderWay
        }
    }

    /// A frame is under way to the end `to` that nobody sent.
    pub fn plant(&mut self, to: usize, frame: Vec<u8>, rng: &mut Rng) {
        let queue = &mut self.under_way[to];
        let place = rng.usize(..=queue.len());
        let planted = UnderWay {
            content: Content::of(&frame),
            frame,
            copy: true,
        };
        queue.insert(place, planted);
    }

    /// The next frame that arrives at the end `to`, and whether it will arrive again.
    pub fn take(
        &mut self,
        to: usize,
        faults: &FrameFaults,
        rng: &mut Rng,
    ) -> Option<(Vec<u8>, bool)> {
        let queue = &mut self.under_way[to];
        let next = queue.pop_front()?;
        let again = faults.duplicated > 0 && rng.u32(..1000) < faults.duplicated;
        if again {
            // Behind later frames even: it is one too many, not one out of order.
            let behind = rng.usize(..=queue.len().min(REPEAT_BEHIND_MAX));
            queue.insert(
                behind,
                UnderWay {
                    copy: true,
                    ..next.clone()
                },
            );
        }
        Some((next.frame, again))
    }

    /// Frames under way to the end `to`.
    #[must_use]
    pub fn len(&self, to: usize) -> usize {
        self.under_way[to].len()
    }

    /// Records of an epoch under way to the end `to`, handshakes and copies left out.
    #[must_use]
    pub fn records_under_way(&self, to: usize, epoch: u32) -> usize {
        self.under_way[to]
            .iter()
            .filter(|under_way| !under_way.copy)
            .filter_map(|under_way| under_way.content)
            .filter(|content| content.epoch == epoch && !content.handshake)
            .map(|content| content.records)
            .sum()
    }

    /// The epochs of the frames under way in both directions, handshakes among them.
    pub fn epochs_under_way(&self) -> impl Iterator<Item = u32> {
        let frames = self.under_way.iter().flatten();
        frames.filter_map(|under_way| under_way.content.map(|content| content.epoch))
    }

    /// Loses what is under way behind the first frame of each direction.
    pub fn lose_behind_first(&mut self) {
        self.under_way
            .iter_mut()
            .for_each(|direction| direction.truncate(1));
    }

    /// Loses everything that is under way.
    pub fn lose(&mut self) {
        self.under_way.iter_mut().for_each(VecDeque::clear);
    }
}
