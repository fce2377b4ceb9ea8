//! A cable: two FIFO directions that drop, corrupt and repeat frames.

use std::collections::VecDeque;

use covalent_protocol::wire::{ETHERNET_HEADER_BYTES, RECORD_BYTES, frame};
use fastrand::Rng;

use crate::{plan::FrameFaults, records::Content};

/// Most frames that overtake the repetition of one.
const REPEAT_BEHIND_MAX: usize = 6;
/// Payload bytes of a record, whatever the record claims.
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
    in_flight: [VecDeque<InFlight>; 2],
}

#[derive(Debug, Clone)]
struct InFlight {
    frame: Vec<u8>,
    content: Option<Content>,
    /// The other end did not send it: its sender knows of one less.
    copy: bool,
}

/// Outcome of a frame that was given to a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameOutcome {
    /// The frame is in flight.
    InFlight,
    /// It is lost.
    Lost,
    /// The frame is in flight, with some bits flipped.
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
            in_flight: [VecDeque::new(), VecDeque::new()],
        }
    }

    /// Gives it a frame for the end `to`.
    pub fn give(
        &mut self,
        to: usize,
        mut frame: Vec<u8>,
        faults: &FrameFaults,
        rng: &mut Rng,
    ) -> FrameOutcome {
        let mut happens = |thousandths: u32| thousandths > 0 && rng.u32(..1000) < thousandths;
        if self.cut[to] || happens(faults.lost) {
            return FrameOutcome::Lost;
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
        let queue = &mut self.in_flight[to];
        let place = if overtakes {
            rng.usize(..=queue.len())
        } else {
            queue.len()
        };
        queue.insert(
            place,
            InFlight {
                frame,
                content,
                copy: false,
            },
        );
        if corrupted {
            FrameOutcome::Corrupted
        } else {
            FrameOutcome::InFlight
        }
    }

    /// Puts a frame that no node sent in flight to the end `to`.
    pub fn plant(&mut self, to: usize, frame: Vec<u8>, rng: &mut Rng) {
        let queue = &mut self.in_flight[to];
        let place = rng.usize(..=queue.len());
        let planted = InFlight {
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
        let queue = &mut self.in_flight[to];
        let next = queue.pop_front()?;
        let repeated = faults.duplicated > 0 && rng.u32(..1000) < faults.duplicated;
        if repeated {
            // Behind later frames even: it is one too many, not one out of order.
            let behind = rng.usize(..=queue.len().min(REPEAT_BEHIND_MAX));
            queue.insert(
                behind,
                InFlight {
                    copy: true,
                    ..next.clone()
                },
            );
        }
        Some((next.frame, repeated))
    }

    /// Number of frames in flight to the end `to`.
    #[must_use]
    pub fn len(&self, to: usize) -> usize {
        self.in_flight[to].len()
    }

    /// Number of records of `epoch` in flight to the end `to`, without handshakes and copies.
    #[must_use]
    pub fn records_in_flight(&self, to: usize, epoch: u32) -> usize {
        self.in_flight[to]
            .iter()
            .filter(|in_flight| !in_flight.copy)
            .filter_map(|in_flight| in_flight.content)
            .filter(|content| content.epoch == epoch && !content.handshake)
            .map(|content| content.records)
            .sum()
    }

    /// Epochs of the frames in flight in both directions, including handshakes.
    pub fn epochs_in_flight(&self) -> impl Iterator<Item = u32> {
        let frames = self.in_flight.iter().flatten();
        frames.filter_map(|in_flight| in_flight.content.map(|content| content.epoch))
    }

    /// Drops the frames in flight behind the first one of each direction.
    pub fn lose_behind_first(&mut self) {
        self.in_flight
            .iter_mut()
            .for_each(|direction| direction.truncate(1));
    }

    /// Drops all frames in flight.
    pub fn lose(&mut self) {
        self.in_flight.iter_mut().for_each(VecDeque::clear);
    }
}
