//! The data ring, for the model checker, which observes every access. An access that the cursors do
//! not order against the other side's accesses to the same item is a data race and fails the check.

use std::{cell, ptr::NonNull, sync::Arc};

use loom::cell::UnsafeCell;

use crate::shared_bytes::{SharedBytes, SharedBytesMut};

/// A ring of bytes whose size is a power of two. A clone is the other side's view of it.
///
/// It is mapped once: an item must not extend past its end.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    capacity: usize,
    item_bytes: usize,
    memory: Arc<Memory>,
}

#[derive(Debug)]
struct Memory {
    bytes: Box<[cell::UnsafeCell<u8>]>,
    /// One for each place where an item may begin.
    items: Box<[UnsafeCell<()>]>,
}

// SAFETY: the checker runs one thread at a time.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Ring {
    pub(crate) fn new(capacity: usize, item_bytes: usize) -> Self {
        assert!(capacity.is_power_of_two());
        Self {
            capacity,
            item_bytes,
            memory: Arc::new(Memory {
                bytes: (0..capacity).map(|_| cell::UnsafeCell::new(0)).collect(),
                items: (0..capacity / item_bytes)
                    .map(|_| UnsafeCell::new(()))
                    .collect(),
            }),
        }
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn fetch_to_write(&self, _cursor: u64) {}

    /// The span's address, and the items that it touches.
    fn at(&self, cursor: u64, len: usize) -> (*mut u8, &[UnsafeCell<()>]) {
        let start = cursor as usize & (self.capacity - 1);
        assert!(start + len <= self.capacity, "an item past the ring's end");
        let items = start / self.item_bytes..(start + len).div_ceil(self.item_bytes);
        let base = cell::UnsafeCell::raw_get(self.memory.bytes.as_ptr());
        // SAFETY: the span lies within the bytes (just checked).
        (unsafe { base.add(start) }, &self.memory.items[items])
    }

    /// # Safety
    /// As for the ring in mapped memory.
    pub(crate) unsafe fn view(&self, cursor: u64, len: usize) -> SharedBytes<'_> {
        // SAFETY: the caller's word, and the span is as long as the slice.
        unsafe { SharedBytes::new(NonNull::from(self.slice(cursor, len)).cast(), len) }
    }

    /// # Safety
    /// As for the ring in mapped memory.
    pub(crate) unsafe fn view_mut(&self, cursor: u64, len: usize) -> SharedBytesMut<'_> {
        // SAFETY: the caller's word, and the span is as long as the slice.
        unsafe { SharedBytesMut::new(NonNull::from(self.slice_mut(cursor, len)).cast(), len) }
    }

    /// # Safety
    /// As for the ring in mapped memory.
    pub(crate) unsafe fn slice(&self, cursor: u64, len: usize) -> &[u8] {
        let (start, items) = self.at(cursor, len);
        for item in items {
            item.with(|_| ());
        }
        // SAFETY: the span lies within the bytes. Nothing writes it while the slice exists
        // (caller).
        unsafe { core::slice::from_raw_parts(start, len) }
    }

    /// # Safety
    /// As for the ring in mapped memory.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the cursors, not by the borrow of the whole ring"
    )]
    pub(crate) unsafe fn slice_mut(&self, cursor: u64, len: usize) -> &mut [u8] {
        let (start, items) = self.at(cursor, len);
        for item in items {
            item.with_mut(|_| ());
        }
        // SAFETY: as in `slice`, and exclusive (caller).
        unsafe { core::slice::from_raw_parts_mut(start, len) }
    }
}
