//! A ring of data between two processes and nothing else: the limit of the machine.
//!
//! The producer copies packets into consecutive quanta of 64 bytes and publishes its position. The
//! consumer reads one byte of each packet and publishes its position. There are no lengths (both
//! ends know them in advance), no checks, no notifications, and no protection of one end from the
//! other.

use std::{
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result, ensure};
use nix::sys::{
    memfd::{MFdFlags, memfd_create},
    mman::{MapFlags, ProtFlags, mmap, munmap},
};

/// Bytes of a quantum.
pub const QUANTUM_BYTES: usize = 64;

/// A page of its own for the two cursors.
const CURSORS_BYTES: usize = 4096;

/// Where the consumer's cursor lies: processors fetch lines in pairs.
const CONSUMED_OFFSET: usize = 128;

/// One end of the ring, mapped. Cursors and positions count quanta from the beginning of time.
#[derive(Debug)]
pub struct DataRing {
    cursors: Mapped,
    data: Mapped,
    mask: u64,
}

impl DataRing {
    /// Creates a ring of `bytes`, a power of two, in 2 MiB pages if `huge_pages`. Also returns the
    /// descriptors for the other end.
    pub fn create(bytes: usize, huge_pages: bool) -> Result<(Self, Vec<OwnedFd>)> {
        let kind = if huge_pages {
            MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB
        } else {
            MFdFlags::empty()
        };
        let make = |name, flags: MFdFlags, bytes: usize| -> Result<OwnedFd> {
            let fd = memfd_create(name, flags | MFdFlags::MFD_CLOEXEC)
                .context("making memory for a ring")?;
            nix::unistd::ftruncate(&fd, i64::try_from(bytes)?)
                .context("making memory for a ring")?;
            Ok(fd)
        };
        let fds = vec![
            make(c"bare ring cursors", MFdFlags::empty(), CURSORS_BYTES)?,
            make(c"bare ring", kind, bytes)?,
        ];
        Ok((Self::open(&fds, bytes)?, fds))
    }

    /// Maps a ring of `bytes` that the other end made.
    pub fn open(fds: &[OwnedFd], bytes: usize) -> Result<Self> {
        ensure!(
            bytes.is_power_of_two() && bytes >= QUANTUM_BYTES,
            "a ring of {bytes} bytes is not a power of two"
        );
        let [cursors, data] = fds else {
            anyhow::bail!("a ring has two descriptors, found {}", fds.len());
        };
        Ok(Self {
            cursors: Mapped::new(cursors, CURSORS_BYTES)?,
            data: Mapped::new(data, bytes)?,
            mask: (bytes / QUANTUM_BYTES) as u64 - 1,
        })
    }

    /// Quanta that the ring holds.
    pub const fn quanta(&self) -> u64 {
        self.mask + 1
    }

    /// The producer's cursor.
    pub fn produced(&self) -> &AtomicU64 {
        self.cursors.word(0)
    }

    /// The consumer's cursor.
    pub fn consumed(&self) -> &AtomicU64 {
        self.cursors.word(CONSUMED_OFFSET)
    }

    /// Copies a packet to position `at` and returns the position behind it. Only the producer calls
    /// this, within the space that the consumer has released.
    #[inline]
    pub fn place(&mut self, at: u64, packet: &[[u8; QUANTUM_BYTES]]) -> u64 {
        let mut at = at;
        for quantum in packet {
            // SAFETY: `quantum_at` points at 64 bytes of the mapping, which belongs to no Rust
            // object except this ring. The consumer does not access them: it reads only below
            // `produced`, and the producer writes only beyond `produced`.
            unsafe {
                self.quantum_at(at)
                    .cast::<[u8; QUANTUM_BYTES]>()
                    .write(*quantum);
            }
            at += 1;
        }
        at
    }

    /// Returns the byte at `offset` of the quantum at position `at`. Either end may call this,
    /// within its own part as given by the cursors.
    #[inline]
    pub fn byte(&self, at: u64, offset: usize) -> u8 {
        // SAFETY: the quantum is 64 bytes of the mapping, and the offset is reduced to lie within
        // it. The cursors guarantee that the other end does not write it now.
        unsafe { self.quantum_at(at).add(offset % QUANTUM_BYTES).read() }
    }

    /// Adds one to that byte.
    #[inline]
    pub fn touch(&mut self, at: u64, offset: usize) {
        // SAFETY: as in `byte`, and by the cursors the other end does not read it now either.
        unsafe {
            let byte = self.quantum_at(at).add(offset % QUANTUM_BYTES);
            byte.write(byte.read().wrapping_add(1));
        }
    }

    #[inline]
    fn quantum_at(&self, at: u64) -> NonNull<u8> {
        let offset = (at & self.mask) as usize * QUANTUM_BYTES;
        // SAFETY: the mask keeps the offset, and the 64 bytes behind it, within the mapping.
        unsafe { self.data.start.add(offset) }
    }
}

/// A shared mapping. It goes with this value.
#[derive(Debug)]
struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapped {
    fn new(fd: &OwnedFd, bytes: usize) -> Result<Self> {
        let length = bytes.try_into().context("a ring has some bytes")?;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no existing mapping.
        // This program created the file with this length, and no process truncates it.
        let start = unsafe {
            mmap(
                None,
                length,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE,
                fd.as_fd(),
                0,
            )
        }
        .context("mapping a ring")?;
        Ok(Self {
            start: start.cast(),
            bytes,
        })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= self.bytes && offset.is_multiple_of(8));
        // SAFETY: both offsets in use lie within the page and are multiples of 8. The mapping lives
        // as long as `self`. Both processes access the word only with atomic operations.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast().as_ptr()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this is the complete mapping that `new` made, and every reference into it
        // borrowed `self`.
        let unmapped = unsafe { munmap(self.start.cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "it was mapped");
    }
}

// SAFETY: the mapping belongs to no thread. Any thread that owns a `DataRing` can use it.
unsafe impl Send for Mapped {}

/// Reads the other end's cursor with acquire ordering: the data before it is visible too.
#[inline]
pub fn observe(cursor: &AtomicU64) -> u64 {
    cursor.load(Ordering::Acquire)
}

/// Publishes this end's cursor with release ordering, and with it the data before it.
#[inline]
pub fn show(cursor: &AtomicU64, position: u64) {
    cursor.store(position, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placed_packets_are_seen_at_the_other_end_and_across_the_wrap() {
        let (mut near, fds) = DataRing::create(4096, false).expect("memory");
        let mut far = DataRing::open(&fds, 4096).expect("the same memory");
        let bytes: Vec<u8> = (0..128).collect();
        let (packet, _) = bytes.as_chunks();
        // Its second quantum lies at the ring's beginning.
        let end = near.place(63, packet);
        assert_eq!(end, 65);
        show(near.produced(), end);
        assert_eq!(observe(far.produced()), 65);
        assert_eq!((far.byte(63, 8), far.byte(0, 35)), (8, 99));
        far.touch(63, 8);
        assert_eq!(near.byte(127, 8), 9);
        assert_eq!(observe(near.consumed()), 0);
    }

    #[test]
    fn a_ring_of_another_size_is_refused() {
        assert!(DataRing::create(4096 + 64, false).is_err());
    }
}
