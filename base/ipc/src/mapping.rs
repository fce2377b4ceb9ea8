//! Memory shared with another process, mapped once or twice. It is accessed only through atomics
//! and raw copies.

use std::{ffi::c_void, hint::black_box, io, os::fd::BorrowedFd, ptr::NonNull};

use nix::libc;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No page is smaller.
const SMALLEST_PAGE_BYTES: usize = 4096;

/// Access of this process to a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only reads.
    Read,
    /// It reads and writes.
    ReadWrite,
}

/// A shared mapping, unmapped on drop. It maps a sealed memfd, or a file that this process made and
/// that only its user may write (the counters).
///
/// The other process may change any byte at any time. This type therefore gives out no reference to
/// plain bytes. It gives out only the raw base address and references to atomics, whose values may
/// change by definition.
#[derive(Debug)]
pub struct Mapping {
    /// First byte of the first view.
    base: NonNull<u8>,
    /// Bytes of one view.
    view_bytes: usize,
    views: usize,
    /// The reservation, unmapped on drop. It encloses every view.
    reserved: NonNull<c_void>,
    reserved_bytes: usize,
    access: Access,
    /// Where [`Mapping::table_word`] finds its words: set once, and checked then.
    table: Table,
}

/// Words of 32 bits at one offset. Their number is a power of two. The default is one word, for
/// which there is always space.
#[derive(Debug, Clone, Copy, Default)]
struct Table {
    offset: usize,
    mask: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread. Any thread may use or unmap it. The
// type has no thread-bound state.
unsafe impl Send for Mapping {}
// SAFETY: through `&Mapping`, safe code reaches only atomics and the mapping's address. Neither is
// a data race.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `memfd` once and faults in every page. The caller has checked that
    /// the memfd is at least `bytes` long and sealed against shrinking. Alternatively the caller
    /// has made it this long as a file that no other user may write.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn once(memfd: BorrowedFd<'_>, bytes: usize, access: Access) -> io::Result<Self> {
        let mapping = Self::views(memfd, bytes, 1, SMALLEST_PAGE_BYTES, access)?;
        mapping.populate();
        Ok(mapping)
    }

    /// Maps the first `bytes` of `memfd` twice, back to back. An access past the end of the first
    /// view continues at its start.
    ///
    /// The views begin at a multiple of `page_bytes`, a power of two that divides `bytes` and is at
    /// least the page size of `memfd`. The caller has checked the length and the seals of `memfd`.
    /// The caller then faults in the pages with [`Mapping::populate`] or [`Mapping::collapse`].
    ///
    /// # Errors
    /// The error of the system call.
    pub fn twice(
        memfd: BorrowedFd<'_>,
        bytes: usize,
        page_bytes: usize,
        access: Access,
    ) -> io::Result<Self> {
        Self::views(memfd, bytes, 2, page_bytes, access)
    }

    fn views(
        memfd: BorrowedFd<'_>,
        view_bytes: usize,
        views: usize,
        page_bytes: usize,
        access: Access,
    ) -> io::Result<Self> {
        // Reserve one extra page so that the views can begin at a multiple of the page size.
        let reserved_bytes = view_bytes
            .checked_mul(views)
            .and_then(|bytes| bytes.checked_add(page_bytes))
            .ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: an anonymous mapping at an address that the kernel chooses replaces no other
        // mapping.
        let reserved = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                reserved_bytes,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let reserved = NonNull::new(reserved).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = reserved.as_ptr().align_offset(page_bytes);
        // SAFETY: `skip` < `page_bytes`, and the reservation is `page_bytes` larger than the views.
        let base = unsafe { reserved.cast::<u8>().add(skip) };
        // From here on a drop unmaps the reservation, including mappings that replaced parts of it.
        let mut mapping = Self {
            base,
            view_bytes,
            views,
            reserved,
            reserved_bytes,
            access,
            table: Table::default(),
        };
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        for view in 0..views {
            // SAFETY: `views * view_bytes` bytes from `base` lie within the reservation. Nothing
            // else uses the reservation. `MAP_FIXED` replaces only it.
            unsafe {
                mmap(
                    base.add(view * view_bytes).as_ptr().cast(),
                    view_bytes,
                    protection,
                    MapFlags::SHARED | MapFlags::FIXED,
                    memfd,
                    0,
                )
            }?;
        }
        mapping.trim(view_bytes * views);
        Ok(mapping)
    }

    /// Replaces this mapping with the same bytes of another memfd, which the caller has checked in
    /// the same way. A concurrent access to a word finds the old word or the new one.
    ///
    /// # Errors
    /// The error of the system call. The mapping may then be in part the old memory.
    pub fn replace(&self, memfd: BorrowedFd<'_>) -> io::Result<()> {
        let protection = match self.access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        for view in 0..self.views {
            // SAFETY: the span is a view of this mapping and of nothing else. `MAP_FIXED` replaces
            // only it, atomically for every thread, because the kernel holds the process's mmap
            // lock meanwhile. References to atomics in the view stay valid. Their values may change
            // at any time, as always.
            unsafe {
                mmap(
                    self.base.add(view * self.view_bytes).as_ptr().cast(),
                    self.view_bytes,
                    protection,
                    MapFlags::SHARED | MapFlags::FIXED,
                    memfd,
                    0,
                )
            }?;
        }
        self.populate();
        Ok(())
    }

    /// Faults in every page of every view, so that no later access waits.
    ///
    /// This touches the pages one by one. `MAP_POPULATE` and `MADV_POPULATE_WRITE` hold the
    /// process's mmap lock and delay other threads that map memory. A delay of 50 ms was measured
    /// with half a gibibyte, even when populating in pieces. A page fault takes the lock of one
    /// mapping only (Linux 6.6).
    pub fn populate(&self) {
        let end = self.view_bytes * self.views;
        for offset in (0..end).step_by(SMALLEST_PAGE_BYTES) {
            // SAFETY: `offset` is a multiple of a page below the end of the last view. The views
            // stay mapped while `self` exists. The rest is as in `u64s`.
            let word = unsafe {
                self.base
                    .as_ptr()
                    .add(offset)
                    .cast::<AtomicU64>()
                    .as_ref_unchecked()
            };
            // The value is irrelevant. A writable page of shared memory is mapped writable on the
            // first read.
            black_box(word.load(Ordering::Relaxed));
        }
    }

    /// Unmaps the reservation around the `used_bytes` from the base on, because a process may have
    /// only some ten thousand mappings.
    fn trim(&mut self, used_bytes: usize) {
        let before = self.base.as_ptr().addr() - self.reserved.as_ptr().addr();
        let behind = self.reserved_bytes - before - used_bytes;
        // SAFETY: the two spans lie within the reservation, on both sides of the views. Nothing
        // refers to them.
        unsafe {
            if before > 0 && munmap(self.reserved.as_ptr(), before).is_ok() {
                self.reserved = self.base.cast();
                self.reserved_bytes -= before;
            }
            if behind > 0 && munmap(self.base.add(used_bytes).as_ptr().cast(), behind).is_ok() {
                self.reserved_bytes -= behind;
            }
        }
    }

    /// Requests that the kernel collapses the pages into huge pages now, regardless of the time it
    /// takes (`MADV_COLLAPSE`, Linux 6.1). Returns whether all pages were collapsed. The views
    /// begin at a multiple of the huge page size.
    ///
    /// Faults in every page in either case. Unlike reserved huge pages, these come from ordinary
    /// memory. If another process punches a hole, small pages replace them and no process receives
    /// a SIGBUS.
    pub fn collapse(&self) -> bool {
        // SAFETY: the first view is mapped while `self` exists. The call moves pages and preserves
        // their contents, which concurrent readers and writers cannot observe.
        let collapsed = unsafe {
            libc::madvise(
                self.base.as_ptr().cast(),
                self.view_bytes,
                libc::MADV_COLLAPSE,
            ) == 0
        };
        // Populate after the collapse: a huge page takes one fault, and pages mapped earlier would
        // be unmapped again.
        self.populate();
        collapsed
    }

    /// Bytes of one view.
    pub const fn bytes(&self) -> usize {
        self.view_bytes
    }

    /// Returns the first byte of the first view. It is valid for the total size of all views while
    /// `self` exists.
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns `count` words from byte `offset` of the first view.
    ///
    /// # Panics
    /// If the words do not lie within the view, `offset` is not a multiple of 8, or the mapping is
    /// read-only. Each is a bug of the caller.
    #[inline]
    pub fn u64s(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(
            self.holds(offset, count, size_of::<u64>()),
            "words outside the mapping"
        );
        // SAFETY: the words lie within the first view (checked above: in bounds, aligned,
        // writable). The view stays mapped while `self` is borrowed. It cannot lose pages: the
        // memfd is sealed against shrinking, or it is a file that only this user and root could
        // shorten. Both have full control over this process anyway. Memory from either is always
        // initialized, and every bit pattern is a valid atomic. Atomics may change while they are
        // referenced, by this process or another.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// As [`Mapping::u64s`] for words of 32 bits; `offset` is a multiple of 4.
    ///
    /// # Panics
    /// As [`Mapping::u64s`].
    #[inline]
    pub fn u32s(&self, offset: usize, count: usize) -> &[AtomicU32] {
        assert!(
            self.holds(offset, count, size_of::<u32>()),
            "words outside the mapping"
        );
        // SAFETY: as in `u64s`.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// Returns the mapping with `count` words of 32 bits from byte `offset` on as its table.
    /// `count` is a power of two.
    ///
    /// # Panics
    /// As [`Mapping::u32s`].
    pub fn with_table(mut self, offset: usize, count: usize) -> Self {
        assert!(
            count.is_power_of_two() && self.holds(offset, count, size_of::<u32>()),
            "a table outside the mapping"
        );
        self.table = Table {
            offset,
            mask: count - 1,
        };
        self
    }

    /// Returns the word of the table at `index` modulo the table size. [`Mapping::u32s`] would
    /// check each word; these were checked once.
    #[inline]
    pub fn table_word(&self, index: usize) -> &AtomicU32 {
        let Table { offset, mask } = self.table;
        // SAFETY: `with_table` checked that all words up to `mask` lie within the first view,
        // aligned and writable. The default, one word at offset 0, satisfies this because a view
        // has at least a page. The rest is as in `u64s`.
        unsafe {
            self.base
                .as_ptr()
                .add(offset)
                .cast::<AtomicU32>()
                .add(index & mask)
                .as_ref_unchecked()
        }
    }

    #[inline]
    fn holds(&self, offset: usize, count: usize, word_bytes: usize) -> bool {
        self.access == Access::ReadWrite
            && offset.is_multiple_of(word_bytes)
            && count <= self.view_bytes / word_bytes
            && offset <= self.view_bytes - count * word_bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the reservation exclusively and nothing borrows from `self` any
        // more. A failure would mean that it was not mapped. There is nothing to do about it.
        let _ = unsafe { munmap(self.reserved.as_ptr(), self.reserved_bytes) };
    }
}
