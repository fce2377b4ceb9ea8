//! One ring that is shared with the kernel (`Documentation/networking/af_xdp.rst`).

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};

/// A memory mapping. It is unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory without ties to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file` at `offset`, or of anonymous memory without a file. The mapping
    /// is writable and populated.
    pub fn new(len: usize, file: Option<(BorrowedFd<'_>, libc::off_t)>) -> io::Result<Self> {
        let (flags, fd, offset) = match file {
            Some((fd, offset)) => (libc::MAP_SHARED, fd.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        // SAFETY: the kernel chooses the place, so nothing that exists is replaced.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_POPULATE,
                fd,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Where the mapping begins.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and is unmapped only here.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// One ring of descriptors. The functions that the caller uses determine which side produces.
#[derive(Debug)]
pub struct Ring<T> {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    slots: u32,
    produced: u32,
    consumed: u32,
    _descriptors: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `slots` descriptors at `page_offset` of the socket.
    pub fn new(
        socket: BorrowedFd<'_>,
        page_offset: libc::off_t,
        offsets: libc::xdp_ring_offset,
        slots: u32,
    ) -> io::Result<Self> {
        let len = offsets.desc as usize + slots as usize * size_of::<T>();
        let mapping = Mapping::new(len, Some((socket, page_offset)))?;
        Ok(Self {
            mapping,
            offsets,
            slots,
            produced: 0,
            consumed: 0,
            _descriptors: std::marker::PhantomData,
        })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel reported the offset of an aligned u32 inside the mapping. The kernel
        // also accesses it atomically.
        unsafe { &*self.mapping.start().as_ptr().add(offset as usize).cast() }
    }

    fn slot(&self, index: u32) -> *mut T {
        let at = self.offsets.desc as usize + (index & (self.slots - 1)) as usize * size_of::<T>();
        // SAFETY: the mapping has space for `slots` descriptors from `desc`, and the index is below
        // `slots`.
        unsafe { self.mapping.start().as_ptr().add(at).cast() }
    }

    /// Returns whether the kernel needs a system call to continue.
    pub fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Whether the kernel has yet to take something that was produced.
    pub fn has_unconsumed(&self) -> bool {
        self.word(self.offsets.consumer).load(Ordering::Acquire) != self.produced
    }

    /// Produces as many of `items` as fit; returns how many.
    pub fn push(&mut self, items: &[T]) -> usize {
        let mut free = self.slots - self.produced.wrapping_sub(self.consumed);
        if (free as usize) < items.len() {
            self.consumed = self.word(self.offsets.consumer).load(Ordering::Acquire);
            free = self.slots - self.produced.wrapping_sub(self.consumed);
        }
        let count = items.len().min(free as usize);
        for item in &items[..count] {
            // SAFETY: the slot lies behind the kernel's consumer index, so the kernel does not read
            // it now.
            unsafe { self.slot(self.produced).write(*item) };
            self.produced = self.produced.wrapping_add(1);
        }
        if count > 0 {
            self.word(self.offsets.producer)
                .store(self.produced, Ordering::Release);
        }
        count
    }

    /// Consumes up to `into.len()` descriptors; returns how many.
    pub fn pop(&mut self, into: &mut [T]) -> usize {
        let mut ready = self.produced.wrapping_sub(self.consumed);
        if ready == 0 {
            self.produced = self.word(self.offsets.producer).load(Ordering::Acquire);
            ready = self.produced.wrapping_sub(self.consumed);
        }
        let count = into.len().min(ready as usize);
        for item in &mut into[..count] {
            // SAFETY: the slot lies before the kernel's producer index, so the kernel has written
            // it and no longer accesses it.
            *item = unsafe { self.slot(self.consumed).read() };
            self.consumed = self.consumed.wrapping_add(1);
        }
        if count > 0 {
            self.word(self.offsets.consumer)
                .store(self.consumed, Ordering::Release);
        }
        count
    }
}
