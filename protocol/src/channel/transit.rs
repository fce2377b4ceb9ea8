//! Transits: two channels of an intermediate node, and the frames between them.

use alloc::collections::VecDeque;

use super::Spot;
use crate::wire::RecordBytes;

/// Most records that wait in one direction: the unreflected records of one end, and its handshakes.
pub const TRANSIT_RECORDS_MAX: usize = 48;

/// Frames that wait for forwarding, in order of arrival.
#[derive(Debug, Clone, Hash)]
pub(super) struct Waiting {
    records: VecDeque<RecordBytes>,
    frames: VecDeque<Frame>,
}

#[derive(Debug, Clone, Copy, Hash)]
struct Frame {
    records: u8,
    to_all: bool,
}

impl Waiting {
    fn new() -> Self {
        Self {
            records: VecDeque::with_capacity(TRANSIT_RECORDS_MAX),
            frames: VecDeque::with_capacity(TRANSIT_RECORDS_MAX),
        }
    }

    /// Appends a frame. Returns `false` if it does not fit.
    pub fn push(&mut self, to_all: bool, records: &[RecordBytes]) -> bool {
        if self.records.len() + records.len() > TRANSIT_RECORDS_MAX {
            return false;
        }
        self.records.extend(records);
        self.frames.push_back(Frame {
            records: records.len() as u8,
            to_all,
        });
        true
    }

    /// Records of the first frame.
    pub fn first(&self) -> Option<usize> {
        self.frames.front().map(|frame| usize::from(frame.records))
    }

    /// Removes the first frame and writes its records to the start of `space`. Returns the number
    /// of records and whether it is a broadcast.
    pub fn pop(&mut self, space: &mut [RecordBytes]) -> Option<(usize, bool)> {
        let frame = self.frames.pop_front()?;
        let records = usize::from(frame.records);
        for (place, record) in space.iter_mut().zip(self.records.drain(..records)) {
            *place = record;
        }
        Some((records, frame.to_all))
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    fn clear(&mut self) {
        self.records.clear();
        self.frames.clear();
    }
}

/// See the module. The legs are missing while the transit is free.
#[derive(Debug, Clone, Hash)]
pub(super) struct Transit {
    pub legs: Option<[Spot; 2]>,
    /// Frames to send on each leg.
    pub waiting: [Waiting; 2],
    /// Ticks since the last frame arrived.
    pub silent_ticks: u32,
    /// A `Wanted` was queued since the last tick.
    pub wanted: bool,
}

impl Transit {
    /// Drops all waiting frames. Returns the number of records.
    pub fn clear(&mut self) -> u64 {
        let records = self
            .waiting
            .iter()
            .map(|waiting| waiting.len() as u64)
            .sum();
        self.waiting.iter_mut().for_each(Waiting::clear);
        records
    }

    pub fn new() -> Self {
        Self {
            legs: None,
            waiting: [Waiting::new(), Waiting::new()],
            silent_ticks: 0,
            wanted: false,
        }
    }
}
