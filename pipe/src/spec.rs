//! What a pipe is asked to be.

/// Bytes of one quantum: packets start at multiples of it, and cursors move by multiples of it.
pub const QUANTUM_BYTES: usize = 64;

/// Smallest ring, in bytes: one page.
pub const CAPACITY_BYTES_MIN: u64 = 4096;

/// Largest ring, in bytes: 1 GiB.
pub const CAPACITY_BYTES_MAX: u64 = 1 << 30;

/// Which way a pipe carries packets, seen from the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the application.
    Rx,
    /// From the application.
    Tx,
    /// To the application, which sends them on from where they lie.
    RxTx,
}

/// Page size wanted for the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PagePolicy {
    /// 2 MiB pages where they are to be had and safe to share, else 4 KiB. See [`crate::PipeMemory::create`].
    Auto,
    /// 2 MiB pages or an error.
    Require,
    /// 4 KiB pages.
    Never,
}

/// A pipe to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PipeSpec {
    /// Which way it carries packets.
    pub direction: Direction,
    /// Size of the ring in bytes: a power of two, [`CAPACITY_BYTES_MIN`] to [`CAPACITY_BYTES_MAX`]. 64 bytes less can be used.
    pub capacity_bytes: u64,
    /// Page size wanted for the data.
    pub pages: PagePolicy,
}

/// `len` bytes rounded up to whole quanta. `len` is at most [`CAPACITY_BYTES_MAX`].
pub(crate) const fn in_quanta(len: u64) -> u64 {
    (len + QUANTUM_BYTES as u64 - 1) & !(QUANTUM_BYTES as u64 - 1)
}
