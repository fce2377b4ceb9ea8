//! Two channels of a node that is neither end, and the frames between them.

use alloc::collections::VecDeque;

use super::Spot;
use crate::wire::RecordBytes;

/// Records that wait in one direction: what one end may have unreflected, and its handshakes.
pub const TRANSIT_RECORDS_MAX: usize = 48;

/// Frames that wait to go on, in the order in which they came.
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

    /// Takes a frame in; `false` where there is no room for it.
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

    /// Takes the first frame out, to the start of `space`; tells its records, and whether it goes to everybody.
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

/// See the module. The legs are missing while nobody has it.
#[derive(Debug, Clone, Hash)]
pub(super) struct Transit {
    pub legs: Option<[Spot; 2]>,
    /// What goes out on each leg.
    pub waiting: [Waiting; 2],
    /// Paces since something came.
    pub silent_paces: u32,
    /// It was asked back since the last pace.
    pub wanted: bool,
}

impl Transit {
    /// Drops what waits; returns how many records that were.
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
            silent_paces: 0,
            wanted: false,
        }
    }
}
