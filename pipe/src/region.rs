//! Registered memory, the target of verbs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use covalent_ipc::{
    mapping::{Access, Mapping},
    sync::{AtomicU64, Ordering},
};

use crate::{PipeError, memfd};

const WHAT: &str = "region memory";

/// Bytes of a word: atomics act on one, at offsets that are multiples of it.
pub const WORD_BYTES: u64 = 8;

/// Largest region, in bytes: 1 GiB.
pub const REGION_BYTES_MAX: u64 = 1 << 30;

/// Attempts of a compare-and-exchange before a partial word is written in two steps. See
/// [`RegionMemory::write`].
const PARTIAL_WORD_TRIES: u32 = 128;

/// A region's memory, shared between the application that registered it and the daemon that
/// executes verbs on it.
///
/// `Send` and `Sync`: every access is an atomic access to whole words, in this process and in the
/// others. Atomics are sequentially consistent. A word read or written as bytes is a little-endian
/// `u64`.
///
/// Offsets and lengths are in bytes and are checked. An access outside the region, or an atomic at
/// an offset that is not a multiple of 8, returns `None` and changes nothing.
#[derive(Debug)]
pub struct RegionMemory {
    mapping: Mapping,
    size_bytes: u64,
}

impl RegionMemory {
    /// Makes a region of `size_bytes`, a multiple of 8 up to [`REGION_BYTES_MAX`]. It is all zero,
    /// every page is allocated, and its size is sealed.
    ///
    /// Also returns the descriptor for the other side. The region itself keeps none.
    ///
    /// # Errors
    /// [`PipeError::Size`] for other sizes. [`PipeError::System`] if memory or descriptors are
    /// exhausted.
    pub fn create(size_bytes: u64) -> Result<(Self, OwnedFd), PipeError> {
        let mapped_bytes = mapped_bytes(size_bytes)?;
        let memfd = memfd::create(WHAT, mapped_bytes, false)?;
        let mapping = map(memfd.as_fd(), mapped_bytes)?;
        memfd::seal(WHAT, memfd.as_fd(), memfd::Writers::UntilMapped)?;
        let region = Self {
            mapping,
            size_bytes,
        };
        Ok((region, memfd))
    }

    /// Maps a region of `size_bytes` that was received as `memfd`. Closes `memfd`.
    ///
    /// # Errors
    /// [`PipeError`] if the descriptor is not the sealed memory of such a region, or cannot be
    /// mapped.
    pub fn open(memfd: OwnedFd, size_bytes: u64) -> Result<Self, PipeError> {
        let mapped_bytes = mapped_bytes(size_bytes)?;
        memfd::check(WHAT, memfd.as_fd(), mapped_bytes)?;
        let mapping = map(memfd.as_fd(), mapped_bytes)?;
        Ok(Self {
            mapping,
            size_bytes,
        })
    }

    /// Replaces this memory with that of `memfd`, of the same size, and copies the contents. The
    /// addresses stay the same for all other users of this mapping. Concurrent writes by other
    /// users may be lost, because the copy of several words is not atomic.
    ///
    /// # Errors
    /// [`PipeError`] if the descriptor is not the sealed memory of such a region, or cannot be
    /// mapped. Nothing is changed then.
    pub fn replace(&self, memfd: OwnedFd) -> Result<(), PipeError> {
        let next = Self::open(
            memfd.try_clone().map_err(|source| PipeError::System {
                what: WHAT,
                call: "dup",
                source,
            })?,
            self.size_bytes,
        )?;
        for offset in (0..self.size_bytes).step_by(WORD_BYTES as usize) {
            let held = self.load(offset);
            if let Some(held) = held.filter(|&held| held != 0) {
                // Both have the same words.
                let _ = next.store(offset, held);
            }
        }
        self.mapping
            .replace(memfd.as_fd())
            .map_err(|source| PipeError::System {
                what: WHAT,
                call: "mmap",
                source,
            })
    }

    /// Faults in the pages in which a process punched holes before
    /// [`end_writers`](crate::end_writers), so that no later access waits. All pages are present
    /// when the memory is made.
    pub fn populate(&self) {
        self.mapping.populate();
    }

    /// Size in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads a word.
    #[must_use]
    pub fn load(&self, offset: u64) -> Option<u64> {
        Some(self.word(offset)?.load(Ordering::SeqCst))
    }

    /// Writes a word.
    #[must_use]
    pub fn store(&self, offset: u64, value: u64) -> Option<()> {
        self.word(offset)?.store(value, Ordering::SeqCst);
        Some(())
    }

    /// Writes a word and returns the previous value.
    #[must_use]
    pub fn swap(&self, offset: u64, value: u64) -> Option<u64> {
        Some(self.word(offset)?.swap(value, Ordering::SeqCst))
    }

    /// Writes `new` if the word is `expected`. Returns `Ok` with `expected` on success, otherwise
    /// `Err` with the current value.
    #[must_use]
    pub fn compare_exchange(
        &self,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Option<Result<u64, u64>> {
        Some(
            self.word(offset)?
                .compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst),
        )
    }

    /// Adds `delta`, wrapping, and returns the previous value.
    #[must_use]
    pub fn fetch_add(&self, offset: u64, delta: u64) -> Option<u64> {
        Some(self.word(offset)?.fetch_add(delta, Ordering::SeqCst))
    }

    /// Ands `mask` and returns the previous value.
    #[must_use]
    pub fn fetch_and(&self, offset: u64, mask: u64) -> Option<u64> {
        Some(self.word(offset)?.fetch_and(mask, Ordering::SeqCst))
    }

    /// Ors `mask` and returns the previous value.
    #[must_use]
    pub fn fetch_or(&self, offset: u64, mask: u64) -> Option<u64> {
        Some(self.word(offset)?.fetch_or(mask, Ordering::SeqCst))
    }

    /// Xors `mask` and returns the previous value.
    #[must_use]
    pub fn fetch_xor(&self, offset: u64, mask: u64) -> Option<u64> {
        Some(self.word(offset)?.fetch_xor(mask, Ordering::SeqCst))
    }

    /// Copies the bytes from `offset` on into `target`. The read of each word is atomic; the read
    /// of several words is not.
    #[must_use]
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Option<()> {
        for piece in self.pieces(offset, target.len())? {
            let bytes = self
                .word(piece.word_offset)?
                .load(Ordering::SeqCst)
                .to_le_bytes();
            target[piece.done..piece.done + piece.len]
                .copy_from_slice(&bytes[piece.first..piece.first + piece.len]);
        }
        Some(())
    }

    /// Copies `source` into the region from `offset` on. The write of each whole word is atomic;
    /// the write of several words is not.
    ///
    /// A partially written word keeps its other bytes, even if they change meanwhile. If another
    /// writer changes the word continuously, it is written in two steps. Between them the written
    /// bytes read as zero.
    #[must_use]
    pub fn write(&self, offset: u64, source: &[u8]) -> Option<()> {
        for piece in self.pieces(offset, source.len())? {
            let word = self.word(piece.word_offset)?;
            let bytes = &source[piece.done..piece.done + piece.len];
            let mut value = [0; WORD_BYTES as usize];
            value[piece.first..piece.first + piece.len].copy_from_slice(bytes);
            let mut mask = [0; WORD_BYTES as usize];
            mask[piece.first..piece.first + piece.len].fill(0xff);
            write_part(word, u64::from_le_bytes(value), u64::from_le_bytes(mask));
        }
        Some(())
    }

    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        if !offset.is_multiple_of(WORD_BYTES) || offset >= self.size_bytes {
            return None;
        }
        Some(&self.mapping.u64s(offset as usize, 1)[0])
    }

    /// The words that `len` bytes from `offset` on touch.
    fn pieces(&self, offset: u64, len: usize) -> Option<Pieces> {
        let end = offset.checked_add(len as u64)?;
        (end <= self.size_bytes).then_some(Pieces {
            at: offset,
            end,
            done: 0,
        })
    }
}

/// Writes the bytes of `value` that `mask` has.
fn write_part(word: &AtomicU64, value: u64, mask: u64) {
    if mask == u64::MAX {
        word.store(value, Ordering::SeqCst);
        return;
    }
    let mut seen = word.load(Ordering::SeqCst);
    for _ in 0..PARTIAL_WORD_TRIES {
        match word.compare_exchange_weak(
            seen,
            seen & !mask | value,
            Ordering::SeqCst,
            Ordering::SeqCst,
        ) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
    // Another writer keeps changing this word. It must not block this thread.
    word.fetch_and(!mask, Ordering::SeqCst);
    word.fetch_or(value, Ordering::SeqCst);
}

/// The part of one word that an access touches.
struct Piece {
    word_offset: u64,
    /// First byte within the word.
    first: usize,
    len: usize,
    /// Bytes of the access before this piece.
    done: usize,
}

struct Pieces {
    at: u64,
    end: u64,
    done: usize,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.at >= self.end {
            return None;
        }
        let word_offset = self.at - self.at % WORD_BYTES;
        let first = (self.at - word_offset) as usize;
        let len = ((WORD_BYTES as usize) - first).min((self.end - self.at) as usize);
        let piece = Piece {
            word_offset,
            first,
            len,
            done: self.done,
        };
        self.at += len as u64;
        self.done += len;
        Some(piece)
    }
}

fn mapped_bytes(size_bytes: u64) -> Result<u64, PipeError> {
    if size_bytes == 0 || !size_bytes.is_multiple_of(WORD_BYTES) || size_bytes > REGION_BYTES_MAX {
        return Err(PipeError::Size {
            what: "region",
            found: size_bytes,
            expected: "a multiple of 8, up to 1 GiB",
        });
    }
    Ok(size_bytes.next_multiple_of(memfd::PAGE_BYTES))
}

fn map(memfd: BorrowedFd<'_>, bytes: u64) -> Result<Mapping, PipeError> {
    Mapping::once(memfd, bytes as usize, Access::ReadWrite).map_err(|source| PipeError::System {
        what: WHAT,
        call: "mmap",
        source,
    })
}
