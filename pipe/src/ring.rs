//! The data ring: bytes shared with a process that may write them at any moment.
//!
//! - The daemon's halves and both ends of a cable see them as [`SharedBytes`], which can only be
//!   copied.
//! - The application's halves get slices ([`Ring::slice`]). Their other side is the daemon, which
//!   the application trusts. The daemon writes only behind the tail that it published, into bytes
//!   that the application gave back. The data of an RX pipe is sealed, so no third process can
//!   write it. The bytes of a TX or RX/TX pipe are the application's own until it hands them over,
//!   and the daemon only reads them then.
//! - Positions and lengths come from validated cursors and never from the ring itself.

use core::ptr::NonNull;

use covalent_ipc::mapping::Mapping;

use crate::shared_bytes::{SharedBytes, SharedBytesMut};

/// A ring of bytes whose size is a power of two. It is mapped twice back to back, so no access
/// wraps.
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

    /// Address of the byte at `cursor`. It is valid for `capacity()` bytes from there while `self`
    /// exists.
    #[inline]
    fn at(&self, cursor: u64) -> NonNull<u8> {
        let index = cursor as usize & (self.capacity() - 1);
        // SAFETY: `index` is less than the size of the first view.
        unsafe { self.mapping.base().add(index) }
    }

    /// Begins to fetch the line at `cursor`, to be written.
    #[inline]
    pub(crate) fn fetch_to_write(&self, cursor: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            // SAFETY: a hint that every x86-64 processor accepts, at worst as a no-op. It cannot
            // fault and changes no byte.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.at(cursor).as_ptr().cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = cursor;
    }

    /// The `len` bytes from `cursor` on, to be copied out.
    ///
    /// # Safety
    /// `len` is at most the capacity. While the view exists, no half *in this process* writes that
    /// span: the caller is the pipe's consumer and the span lies between its head and the accepted
    /// tail.
    #[inline]
    pub(crate) unsafe fn view(&self, cursor: u64, len: usize) -> SharedBytes<'_> {
        debug_assert!(len <= self.capacity());
        // SAFETY: the span is valid for reads (two views, `len` at most one view) while `self` is
        // borrowed, and not written by this process (caller).
        unsafe { SharedBytes::new(self.at(cursor), len) }
    }

    /// The `len` bytes from `cursor` on, to be copied into.
    ///
    /// # Safety
    /// The mapping is writable and `len` is at most the capacity. While the view exists, no half
    /// *in this process* holds that span: the caller is the pipe's producer and the span lies
    /// between its tail and the head plus the capacity.
    #[inline]
    pub(crate) unsafe fn view_mut(&self, cursor: u64, len: usize) -> SharedBytesMut<'_> {
        debug_assert!(len <= self.capacity());
        // SAFETY: the span is valid for writes while `self` is borrowed: there are two views, `len`
        // is at most one view, and the caller guarantees that it is writable. Nothing else in this
        // process uses the span (caller).
        unsafe { SharedBytesMut::new(self.at(cursor), len) }
    }

    /// The `len` bytes from `cursor` on, in place. Only for the application's halves.
    ///
    /// # Safety
    /// `len` is at most the capacity, and nothing writes that span while the slice exists. In this
    /// process: the caller is the pipe's consumer and the span lies between its head and the
    /// accepted tail. The other process is the daemon, trusted to write only what was given back.
    #[inline]
    pub(crate) unsafe fn slice(&self, cursor: u64, len: usize) -> &[u8] {
        debug_assert!(len <= self.capacity());
        // SAFETY: the span is valid for reads (two views, `len` at most one view) and initialized
        // (memfd). Nothing writes it while the slice exists (caller).
        unsafe { core::slice::from_raw_parts(self.at(cursor).as_ptr(), len) }
    }

    /// The `len` bytes from `cursor` on, to be changed in place. Only for the application's halves.
    ///
    /// # Safety
    /// The mapping is writable, and only the caller in this process may access the span while the
    /// slice exists. The other process is the daemon, trusted to read only what was handed over and
    /// to write only what was given back. `len` is at most the capacity, so no byte is accessed
    /// through both views.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the cursors, not by the borrow of the whole ring; see Safety"
    )]
    pub(crate) unsafe fn slice_mut(&self, cursor: u64, len: usize) -> &mut [u8] {
        debug_assert!(len <= self.capacity());
        // SAFETY: as in `slice`, and exclusive (caller).
        unsafe { core::slice::from_raw_parts_mut(self.at(cursor).as_ptr(), len) }
    }
}
