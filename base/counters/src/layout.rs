//! Layout of the file of counters. `docs/counters.md` documents it for users.
//!
//! All data are words of 64 bits in native byte order. Offsets are in words from the start of their
//! record.

/// The first eight bytes of the file.
pub(super) const MAGIC: [u8; 8] = *b"COVCOUNT";
/// The version of all this.
pub(super) const VERSION: u64 = 1;

/// The head.
pub(super) mod head {
    pub const WORDS: usize = 32;
    pub const VERSION: usize = 1;
    pub const FILE_BYTES: usize = 2;
    pub const PID: usize = 3;
    pub const START_TICKS: usize = 4;
    pub const STARTED_REALTIME_NS: usize = 5;
    pub const BOOT_ID: usize = 6;
    pub const STATE: usize = 8;
    pub const INTERVAL_NS: usize = 9;
    pub const FAMILIES: usize = 10;
    pub const FAMILY_COUNT: usize = 11;
    pub const WRITERS: usize = 12;
    pub const WRITER_COUNT: usize = 13;
    pub const NODE: usize = 16;
    pub const NODE_WORDS: usize = 8;
}

/// Values of [`head::STATE`].
pub(super) const RUNNING: u64 = 1;
pub(super) const ENDED: u64 = 2;

/// A metric's words.
pub(super) mod family {
    pub const WORDS: usize = 80;
    pub const TYPE: usize = 0;
    pub const UNIT: usize = 1;
    pub const UNIT_WORDS: usize = 3;
    pub const NAME: usize = 4;
    pub const NAME_WORDS: usize = 12;
    pub const HELP: usize = 16;
    pub const HELP_WORDS: usize = 64;
}

/// A writer.
pub(super) mod writer {
    pub const WORDS: usize = 128;
    pub const SEQUENCE: usize = 0;
    pub const WRITTEN_MONOTONIC_NS: usize = 1;
    pub const WRITTEN_REALTIME_NS: usize = 2;
    pub const OMITTED: usize = 3;
    pub const FIELDS: usize = 4;
    pub const FIELD_CAPACITY: usize = 5;
    pub const FIELD_COUNT: usize = 6;
    pub const TABLE_COUNT: usize = 7;
    pub const NAME: usize = 8;
    pub const NAME_WORDS: usize = 4;
    pub const TABLES: usize = 16;
}

/// A table of a writer's objects of one kind, within the writer's record.
pub(super) mod table {
    pub const WORDS: usize = 12;
    /// Most tables of one writer.
    pub const MOST: usize = 8;
    pub const NAME: usize = 0;
    pub const NAME_WORDS: usize = 3;
    pub const OFFSET: usize = 3;
    pub const STRIDE_BYTES: usize = 4;
    pub const SLOTS: usize = 5;
    pub const USED: usize = 6;
    pub const TEXT_BYTES: usize = 7;
}

/// Meaning of a value of an object.
pub(super) mod field {
    pub const WORDS: usize = 16;
    pub const FAMILY_AND_KIND: usize = 0;
    pub const LABELS: usize = 2;
    pub const LABELS_WORDS: usize = 14;
}

/// An object.
pub(super) mod slot {
    pub const GENERATION: usize = 0;
    pub const SHAPE: usize = 1;
    pub const TEXT_BYTES: usize = 2;
    pub const TEXT: usize = 4;
}

/// Types of metrics, as Prometheus has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyType {
    /// Only grows.
    Counter = 1,
    /// The present value.
    Gauge = 2,
    /// Counts by upper bounds.
    Histogram = 3,
}

impl FamilyType {
    pub(super) const fn of(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Counter),
            2 => Some(Self::Gauge),
            3 => Some(Self::Histogram),
            _ => None,
        }
    }

    /// As Prometheus calls it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// How a value's word is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A whole number.
    Count = 1,
    /// Nanoseconds that only grow; shown in seconds.
    Nanoseconds = 2,
    /// The bits of an IEEE 754 double; a NaN while it is not known, and then there is no sample.
    Gauge = 3,
    /// Which of the object's lines of text has the labels of a sample that is always 1.
    Info = 4,
    /// A histogram's count up to the bound in its labels.
    Bucket = 5,
    /// Nanoseconds: a histogram's sum, shown in seconds.
    Sum = 6,
    /// A histogram's count.
    Total = 7,
}

impl FieldKind {
    pub(super) const fn of(word: u64) -> Option<Self> {
        match word {
            1 => Some(Self::Count),
            2 => Some(Self::Nanoseconds),
            3 => Some(Self::Gauge),
            4 => Some(Self::Info),
            5 => Some(Self::Bucket),
            6 => Some(Self::Sum),
            7 => Some(Self::Total),
            _ => None,
        }
    }
}
