//! Layout of the ring's file. `docs/counters.md` documents it for users. Offsets are in words.

/// The first eight bytes of the file.
pub(super) const MAGIC: [u8; 8] = *b"COVRING\0";
/// The version of all this.
pub(super) const VERSION: u64 = 1;
/// The head, a page.
pub(super) const HEAD_WORDS: usize = 512;

/// The head.
pub(super) mod head {
    pub const VERSION: usize = 1;
    pub const FILE_BYTES: usize = 2;
    pub const PID: usize = 3;
    pub const START_TICKS: usize = 4;
    pub const STARTED_REALTIME_NS: usize = 5;
    pub const STATE: usize = 8;
    pub const RING_OFFSET: usize = 9;
    pub const CAPACITY_BYTES: usize = 10;
    /// Up to where the writer may be overwriting.
    pub const INTENT: usize = 16;
    /// Up to where records are whole.
    pub const TAIL: usize = 17;
    /// Position where a new or late reader continues.
    pub const RESUME: usize = 18;
    pub const RECORDS: usize = 19;
}

/// A record. Its contents follow these words.
pub(super) mod record {
    pub const LENGTH_AND_KIND: usize = 0;
    pub const SEQUENCE: usize = 1;
    pub const REALTIME_NS: usize = 2;
    pub const MONOTONIC_NS: usize = 3;
    pub const WORDS: usize = 4;
}

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Nothing: the next record is at the ring's beginning.
    Padding = 0,
    /// An event, as JSON.
    Event = 1,
    /// The values of an object of the file of counters.
    Sample = 2,
}
