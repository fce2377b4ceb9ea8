//! Memory shared with another process, mapped once or twice, and the only ways to reach it: atomics and raw copies.

use std::{ffi::c_void, hint::black_box, io, os::fd::BorrowedFd, ptr::NonNull};

use nix::libc;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No page is smaller.
const SMALLEST_PAGE_BYTES: usize = 4096;

/// What this process may do with a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// A shared mapping of a sealed memfd, or of a file that this process made and only its user may write ([`crate::telemetry`]), unmapped on drop.
///
/// The other process may change any byte at any time. So no reference to plain bytes leaves this type: only references to atomics, whose
/// values may change under them by definition, and the raw base address.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// First byte of the first view.
    base: NonNull<u8>,
    /// Bytes of one view.
    view_bytes: usize,
    views: usize,
    /// What was reserved, to be unmapped on drop: it encloses every view.
    reserved: NonNull<c_void>,
    reserved_bytes: usize,
    access: Access,
    /// Where [`Mapping::table_word`] finds its words: set once, and checked then.
    table: Table,
}

/// Words of 32 bits at one offset; their number is a power of two. Empty: one word, for which there is always room.
#[derive(Debug, Clone, Copy, Default)]
struct Table {
    offset: usize,
    mask: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread: any thread may use or unmap it. The type has no thread-bound state.
unsafe impl Send for Mapping {}
// SAFETY: through `&Mapping` safe code reaches only atomics and the mapping's address; neither is a data race.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `memfd` once, every page brought in. The caller has checked that it is at least so long and sealed against shrinking, or
    /// has made it so long as a file that no other user may write.
    pub(crate) fn once(memfd: BorrowedFd<'_>, bytes: usize, access: Access) -> io::Result<Self> {
        let mapping = Self::views(memfd, bytes, 1, SMALLEST_PAGE_BYTES, access)?;
        mapping.populate();
        Ok(mapping)
    }

    /// Maps the first `bytes` of `memfd` twice, back to back, so that what runs past the end of the first view is found at its start.
    /// The views begin at a multiple of `page_bytes`: a power of two of which `bytes` is a multiple, at least the page size of `memfd`. The caller has checked its length and seals, and
    /// brings the pages in by [`Mapping::populate`] or [`Mapping::collapse`].
    pub(crate) fn twice(
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
        // One page more than the views need, so that they can begin at a multiple of the page size.
        let reserved_bytes = view_bytes
            .checked_mul(views)
            .and_then(|bytes| bytes.checked_add(page_bytes))
            .ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice replaces no other mapping.
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
        // SAFETY: `skip` < `page_bytes`, and the reservation has `page_bytes` more than the views need.
        let base = unsafe { reserved.cast::<u8>().add(skip) };
        // From here on dropping it unmaps the reservation, whatever has replaced parts of it.
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
            // SAFETY: `views * view_bytes` bytes from `base` lie within the reservation, which nothing else uses: MAP_FIXED replaces only it.
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

    /// Maps the same bytes of another memfd, which the caller has checked likewise, in the place of this one. Who reads or writes words meanwhile finds the old
    /// ones or the new ones.
    pub(crate) fn replace(&self, memfd: BorrowedFd<'_>) -> io::Result<()> {
        let protection = match self.access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        for view in 0..self.views {
            // SAFETY: the span is a view of this mapping and nothing else's: MAP_FIXED replaces only it, at once for every thread, because the kernel holds
            // the lock of the process's mappings meanwhile. References to its atomics stay valid, and what they find may change as ever.
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

    /// Brings in every page of every view, so that nobody waits for one later.
    ///
    /// One by one and not by `MAP_POPULATE` or `MADV_POPULATE_WRITE`: those hold the lock of all the process's mappings, and who
    /// wants to map something meanwhile waits (50 ms were measured beside half a gibibyte, also where it was asked for in pieces). A page fault
    /// takes that of one mapping only (Linux 6.6).
    pub(crate) fn populate(&self) {
        let end = self.view_bytes * self.views;
        for offset in (0..end).step_by(SMALLEST_PAGE_BYTES) {
            // SAFETY: `offset` is a multiple of a page below the end of the last view; the views are mapped while `self` lives. The rest is as in `u64s`.
            let word = unsafe {
                self.base
                    .as_ptr()
                    .add(offset)
                    .cast::<AtomicU64>()
                    .as_ref_unchecked()
            };
            // What is read does not matter. A page of shared memory that may be written is writable from the first look on.
            black_box(word.load(Ordering::Relaxed));
        }
    }

    /// Gives back what was reserved around the `used_bytes` from the base on: a process may have some ten thousand mappings only.
    fn trim(&mut self, used_bytes: usize) {
        let before = self.base.as_ptr().addr() - self.reserved.as_ptr().addr();
        let behind = self.reserved_bytes - before - used_bytes;
        // SAFETY: the two spans lie within the reservation, on both sides of the views, and nothing refers to them.
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

    /// Has the kernel put the pages together into huge ones, now, at whatever cost in time (`MADV_COLLAPSE`, Linux 6.1). Returns whether all of them
    /// are; the views begin at a multiple of that size. Brings in every page, whatever its size. Unlike reserved huge pages these come from ordinary memory: if another process
    /// punches a hole, small ones take their place and nobody meets a SIGBUS.
    pub(crate) fn collapse(&self) -> bool {
        // SAFETY: the first view is mapped for as long as `self` lives. The call moves pages and leaves their contents, which is invisible
        // to whoever reads or writes them meanwhile.
        let collapsed = unsafe {
            libc::madvise(
                self.base.as_ptr().cast(),
                self.view_bytes,
                libc::MADV_COLLAPSE,
            ) == 0
        };
        // Afterwards: a huge page is one fault, and what was brought in before would have to go again.
        self.populate();
        collapsed
    }

    /// Bytes of one view.
    pub(crate) const fn bytes(&self) -> usize {
        self.view_bytes
    }

    /// First byte of the first view. Valid for as many bytes as all views have together, while `self` lives.
    pub(crate) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// `count` words from byte `offset` of the first view.
    ///
    /// # Panics
    /// If they do not lie within the view, `offset` is not a multiple of 8 or the mapping is read-only: a mistake in this crate.
    #[inline]
    pub(crate) fn u64s(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(
            self.holds(offset, count, size_of::<u64>()),
            "words outside the mapping"
        );
        // SAFETY: the words lie within the first view (just checked: in bounds, aligned, writable), which stays mapped while `self` is
        // borrowed and cannot lose its pages because the memfd is sealed against shrinking, or is a file that only this user and root could
        // shorten, who could do to this process what they like anyway. Memory from either is always initialised, and every bit pattern is a
        // valid atomic. Atomics may change while they are referenced, by this process or another.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// As [`Mapping::u64s`] for words of 32 bits; `offset` is a multiple of 4.
    #[inline]
    pub(crate) fn u32s(&self, offset: usize, count: usize) -> &[AtomicU32] {
        assert!(
            self.holds(offset, count, size_of::<u32>()),
            "words outside the mapping"
        );
        // SAFETY: as in `u64s`.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// The mapping with `count` words of 32 bits from byte `offset` on as its table; `count` is a power of two.
    ///
    /// # Panics
    /// As [`Mapping::u32s`].
    pub(crate) fn with_table(mut self, offset: usize, count: usize) -> Self {
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

    /// The word of the table that `index` comes to, counted round. What [`Mapping::u32s`] would check for each word was checked for all of them
    /// once.
    #[inline]
    pub(crate) fn table_word(&self, index: usize) -> &AtomicU32 {
        let Table { offset, mask } = self.table;
        // SAFETY: `with_table` checked that all words up to `mask` lie within the first view, aligned and writable; the default, one word at offset 0,
        // does so because a view has at least a page. The rest is as in `u64s`.
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
        // SAFETY: the reservation is ours alone and nothing borrows from `self` any more. A failure would mean that it was not mapped;
        // there is nothing to do about it.
        let _ = unsafe { munmap(self.reserved.as_ptr(), self.reserved_bytes) };
    }
}
