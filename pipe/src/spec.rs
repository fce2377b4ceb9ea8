//! Parameters of a pipe.

/// Bytes of one quantum: packets start at multiples of it, and cursors move by multiples of it.
pub const QUANTUM_BYTES: usize = 64;

/// Smallest ring, in bytes: one page. The daemon hands out rings from 64 KiB on.
pub const CAPACITY_BYTES_MIN: u64 = 4096;

/// Largest ring, in bytes: 1 GiB.
pub const CAPACITY_BYTES_MAX: u64 = 1 << 30;

/// Direction of a pipe, seen from the application, and what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the application.
    Rx,
    /// From the application.
    Tx,
    /// To the application, which sends them on from where they lie.
    RxTx,
    /// Bytes without gaps, to the application. The application determines message boundaries with a
    /// [`framing`](crate::framing).
    RxBytes,
}

impl Direction {
    /// Whether the application only reads the data.
    pub(crate) const fn is_read_only(self) -> bool {
        matches!(self, Self::Rx | Self::RxBytes)
    }

    /// Items begin at multiples of this many bytes: a power of two.
    pub(crate) const fn alignment(self) -> u64 {
        match self {
            Self::Rx | Self::Tx | Self::RxTx => QUANTUM_BYTES as u64,
            Self::RxBytes => 1,
        }
    }
}

/// Page size requested for the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PagePolicy {
    /// 2 MiB pages if available, reserved or transparent, otherwise 4 KiB. See
    /// [`PipeMemory::create`](crate::PipeMemory::create).
    Auto,
    /// 2 MiB pages or an error; 4 KiB pages for a ring below 2 MiB, which is smaller than one.
    Require,
    /// 4 KiB pages.
    Never,
}

/// A pipe to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PipeSpec {
    /// Which way it carries packets.
    pub direction: Direction,
    /// Size of the ring in bytes: a power of two, [`CAPACITY_BYTES_MIN`] to [`CAPACITY_BYTES_MAX`].
    /// The usable size is 64 bytes less.
    pub capacity_bytes: u64,
    /// Page size requested for the data.
    pub pages: PagePolicy,
}

/// `len` bytes rounded up to whole quanta. `len` is at most [`CAPACITY_BYTES_MAX`].
pub(crate) const fn in_quanta(len: u64) -> u64 {
    aligned(len, QUANTUM_BYTES as u64)
}

/// `len` bytes rounded up to a multiple of `alignment`, a power of two.
pub(crate) const fn aligned(len: u64, alignment: u64) -> u64 {
    (len + alignment - 1) & !(alignment - 1)
}
