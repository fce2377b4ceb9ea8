//! The data ring: bytes shared with a process that may write them at any moment.
//!
//! In Rust's model bytes that another process changes while we access them are a data race, and no language has a better word for it. The
//! rule of this crate, which keeps the consequences to *values* and away from control flow:
//!
//! - The daemon's half reads and writes packet bytes only by `memcpy` between the ring and its own memory, over raw pointers. The
//!   bytes are `u8`, of which every value is valid, and no length, index or decision is ever taken from them in place.
//! - Where a slice is handed out ([`Ring::slice`]), its receiver copies it once (the port's transmit path) or trusts the other
//!   side not to touch it (the application, whose other side is the daemon).
//! - Positions and lengths come from validated cursors and never from the ring itself.

use crate::mapping::Mapping;

/// A ring of bytes whose size is a power of two, mapped twice back to back so that no access wraps.
#[derive(Debug)]
pub(crate) struct Ring {
    mapping: Mapping,
}

impl Ring {
    /// `mapping` was made by [`Mapping::twice`] and its size is a power of two.
    pub(crate) fn new(mapping: Mapping) -> Self {
        debug_assert!(mapping.bytes().is_power_of_two());
        Self { mapping }
    }

    /// As [`Mapping::collapse`].
    pub(crate) fn collapse(&self) -> bool {
        self.mapping.collapse()
    }

    /// As [`Mapping::populate`].
    pub(crate) fn populate(&self) {
        self.mapping.populate();
    }

    /// Size in bytes.
    #[inline]
    pub(crate) const fn capacity(&self) -> usize {
        self.mapping.bytes()
    }

    /// Address of the byte at `cursor`; valid for `capacity()` bytes from there on while `self` lives.
    #[inline]
    fn at(&self, cursor: u64) -> *mut u8 {
        let index = cursor as usize & (self.capacity() - 1);
        // SAFETY: `index` is less than the size of the first view.
        unsafe { self.mapping.base().as_ptr().add(index) }
    }

    /// Begins to fetch the line at `cursor`, to be written.
    #[inline]
    pub(crate) fn fetch_to_write(&self, cursor: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            // SAFETY: a hint that every x86-64 processor takes, as nothing at worst; it cannot fault, and changes no byte.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.at(cursor).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = cursor;
    }

    /// Copies `bytes` into the ring from `cursor` on.
    ///
    /// # Safety
    /// The mapping is writable, `bytes` is no longer than the ring, and no half *in this process* holds a slice of that span: the
    /// caller is the pipe's producer and the span lies between its tail and the head plus the capacity.
    #[inline]
    pub(crate) unsafe fn copy_in(&self, cursor: u64, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.capacity());
        let target = self.at(cursor);
        // SAFETY: the target is valid for `capacity()` bytes (two views back to back), `bytes` is no longer than that (caller) and is
        // private memory, so the two do not overlap. What another process writes there meanwhile only changes the values.
        unsafe {
            if bytes.len() == 64 {
                // The smallest frame is the commonest, and its copy need not be a call.
                target
                    .cast::<[u8; 64]>()
                    .write_unaligned(*bytes.as_ptr().cast::<[u8; 64]>());
            } else {
                copy(bytes.as_ptr(), target, bytes.len());
            }
        }
    }

    /// The `len` bytes from `cursor` on.
    ///
    /// # Safety
    /// `len` is at most the capacity, and for the slice's whole life no half *in this process* writes that span: the caller is the pipe's
    /// consumer and the span lies between its head and the accepted tail. If the other process is not trusted to leave the span alone, the receiver must copy
    /// the bytes once and decide from the copy.
    #[inline]
    pub(crate) unsafe fn slice(&self, cursor: u64, len: usize) -> &[u8] {
        debug_assert!(len <= self.capacity());
        // SAFETY: the span is valid for reads (two views, `len` at most one view), initialised (memfd) and not written by this process
        // while the slice lives (caller).
        unsafe { core::slice::from_raw_parts(self.at(cursor), len) }
    }

    /// The `len` bytes from `cursor` on, to be changed.
    ///
    /// # Safety
    /// The mapping is writable, and the caller alone in this process may reach the span for the slice's whole life; the other
    /// process is trusted to leave it alone. `len` is at most the capacity, so that no byte is reached through both views.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the cursors, not by the borrow of the whole ring; see Safety"
    )]
    pub(crate) unsafe fn slice_mut(&self, cursor: u64, len: usize) -> &mut [u8] {
        debug_assert!(len <= self.capacity());
        // SAFETY: as in `slice`, and exclusive (caller).
        unsafe { core::slice::from_raw_parts_mut(self.at(cursor), len) }
    }
}

/// A call of its own: side by side with the copy of 64 bytes the compiler takes the two for one copy of any length, and that is a call.
///
/// # Safety
/// As [`core::ptr::copy_nonoverlapping`] of bytes.
#[inline(never)]
unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: the caller's word.
    unsafe { core::ptr::copy_nonoverlapping(source, target, len) };
}
