//! State of a pipe's memory that both halves keep.

use crate::{QUANTUM_BYTES, control::Control, ring::Ring, spec::aligned};

/// State that a half keeps: the mappings, without the descriptors.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) control: Control,
    pub(crate) ring: Ring,
    /// Items begin at multiples of this many bytes: a power of two.
    pub(crate) alignment: u64,
}

impl Shared {
    /// Most bytes that a pipe holds: one quantum less than the ring, so that full and empty also
    /// differ for readers of wrapped indices.
    #[inline]
    pub(crate) const fn usable(&self) -> u64 {
        (self.ring.capacity() - QUANTUM_BYTES) as u64
    }

    /// Bytes that an item of `len` bytes takes.
    #[inline]
    pub(crate) const fn footprint(&self, len: usize) -> u64 {
        aligned(len as u64, self.alignment)
    }
}
