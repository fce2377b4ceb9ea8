//! The memory of a region.

use alloc::{boxed::Box, vec};

/// Bytes of a word.
pub(super) const WORD_BYTES: u64 = 8;

/// Memory that verbs act on: words of 8 bytes, little-endian where they are read or written as
/// bytes.
///
/// Other threads and processes may change it between any two calls. Each call on one word is one
/// atomic step. An access out of bounds, or to a word at an offset that is not a multiple of 8,
/// returns `None` and changes nothing.
pub trait Memory {
    /// Size in bytes, a multiple of 8. Never changes.
    fn size_bytes(&self) -> u64;

    /// Reads a word.
    fn load(&self, offset: u64) -> Option<u64>;

    /// Writes a word and returns the old word.
    fn swap(&mut self, offset: u64, value: u64) -> Option<u64>;

    /// Writes `new` if the word equals `expected`. Returns `Ok` with `expected` on success, else
    /// `Err` with the current word.
    fn compare_exchange(
        &mut self,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Option<Result<u64, u64>>;

    /// Adds `delta`, wrapping, and returns the old word.
    fn fetch_add(&mut self, offset: u64, delta: u64) -> Option<u64>;

    /// Bitwise-ands `mask` and returns the old word.
    fn fetch_and(&mut self, offset: u64, mask: u64) -> Option<u64>;

    /// Bitwise-ors `mask` and returns the old word.
    fn fetch_or(&mut self, offset: u64, mask: u64) -> Option<u64>;

    /// Bitwise-xors `mask` and returns the old word.
    fn fetch_xor(&mut self, offset: u64, mask: u64) -> Option<u64>;

    /// Copies the bytes starting at `offset` into `target`. Each word is read in one step; several
    /// words need not be.
    fn read(&self, offset: u64, target: &mut [u8]) -> Option<()>;

    /// Copies `source` to the bytes starting at `offset`. Each whole word is written in one step;
    /// several words need not be.
    fn write(&mut self, offset: u64, source: &[u8]) -> Option<()>;
}

/// Unshared memory, for nodes in one program, as in a simulator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Words(Box<[u8]>);

impl Words {
    /// `count` words, all zero.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self(vec![0; count * WORD_BYTES as usize].into_boxed_slice())
    }

    fn word_mut(&mut self, offset: u64) -> Option<&mut [u8; WORD_BYTES as usize]> {
        if !offset.is_multiple_of(WORD_BYTES) {
            return None;
        }
        self.0
            .get_mut(usize::try_from(offset).ok()?..)?
            .first_chunk_mut()
    }

    fn update(&mut self, offset: u64, new: impl FnOnce(u64) -> u64) -> Option<u64> {
        let word = self.word_mut(offset)?;
        let old = u64::from_le_bytes(*word);
        *word = new(old).to_le_bytes();
        Some(old)
    }

    fn range(&self, offset: u64, len: usize) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(len)?;
        (end <= self.0.len()).then_some(start..end)
    }
}

impl Memory for Words {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn load(&self, offset: u64) -> Option<u64> {
        if !offset.is_multiple_of(WORD_BYTES) {
            return None;
        }
        let word = self.0.get(usize::try_from(offset).ok()?..)?.first_chunk()?;
        Some(u64::from_le_bytes(*word))
    }

    fn swap(&mut self, offset: u64, value: u64) -> Option<u64> {
        self.update(offset, |_| value)
    }

    fn compare_exchange(
        &mut self,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Option<Result<u64, u64>> {
        let old = self.update(offset, |old| if old == expected { new } else { old })?;
        Some(if old == expected { Ok(old) } else { Err(old) })
    }

    fn fetch_add(&mut self, offset: u64, delta: u64) -> Option<u64> {
        self.update(offset, |old| old.wrapping_add(delta))
    }

    fn fetch_and(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.update(offset, |old| old & mask)
    }

    fn fetch_or(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.update(offset, |old| old | mask)
    }

    fn fetch_xor(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.update(offset, |old| old ^ mask)
    }

    fn read(&self, offset: u64, target: &mut [u8]) -> Option<()> {
        target.copy_from_slice(&self.0[self.range(offset, target.len())?]);
        Some(())
    }

    fn write(&mut self, offset: u64, source: &[u8]) -> Option<()> {
        let range = self.range(offset, source.len())?;
        self.0[range].copy_from_slice(source);
        Some(())
    }
}
