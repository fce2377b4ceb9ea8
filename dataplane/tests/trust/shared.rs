//! Shared memory as a process without rules sees it: every word can be read and written at will.

use std::{
    os::fd::OwnedFd,
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use rustix::{
    fs::{FallocateFlags, fallocate, fstat, ftruncate},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

/// One memfd of the daemon's, mapped once.
pub struct Shared {
    memfd: OwnedFd,
    base: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

impl Shared {
    /// Maps it, writable if possible.
    pub fn map(memfd: OwnedFd) -> Self {
        let bytes = fstat(&memfd).expect("a memfd").st_size as usize;
        let try_map = |protection| {
            // SAFETY: a new mapping at an address of the kernel's choice replaces no other one.
            unsafe {
                mmap(
                    std::ptr::null_mut(),
                    bytes,
                    protection,
                    MapFlags::SHARED,
                    &memfd,
                    0,
                )
            }
        };
        let (base, writable) = match try_map(ProtFlags::READ | ProtFlags::WRITE) {
            Ok(base) => (base, true),
            Err(_) => (try_map(ProtFlags::READ).expect("it can be read"), false),
        };
        Self {
            base: NonNull::new(base.cast()).expect("a mapping"),
            memfd,
            bytes,
            writable,
        }
    }

    /// Its size in words of 32 bits.
    pub const fn words(&self) -> u64 {
        self.bytes as u64 / 4
    }

    /// Reads 64 bits at a multiple of 8 bytes, modulo the size.
    pub fn load(&self, offset: u64) -> u64 {
        self.word64(offset).load(Ordering::Relaxed)
    }

    /// Writes 64 bits at a multiple of 8 bytes, modulo the size.
    pub fn store(&self, offset: u64, value: u64) {
        if self.writable {
            self.word64(offset).store(value, Ordering::Release);
        }
    }

    /// Writes 32 bits at a multiple of 4 bytes, modulo the size.
    pub fn store_u32(&self, offset: u64, value: u32) {
        if self.writable {
            let at = (offset as usize % self.bytes) & !3;
            // SAFETY: The address is in bounds and aligned (just made so), writable, and mapped
            // while `self` lives. Any bit pattern is a valid atomic.
            let word = unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU32>() };
            word.store(value, Ordering::Release);
        }
    }

    /// Fills all of it with `byte`.
    pub fn fill(&self, byte: u8) {
        for at in 0..self.bytes as u64 / 8 {
            self.store(at * 8, u64::from_ne_bytes([byte; 8]));
        }
    }

    /// Tries to take its pages away: holes, and other sizes. Returns whether a hole was made.
    pub fn shake(&self, page: u64, pages: u64) -> bool {
        assert!(ftruncate(&self.memfd, page * 4096).is_err() || page * 4096 == self.bytes as u64);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.memfd, hole, page * 4096, pages * 4096).is_ok()
    }

    fn word64(&self, offset: u64) -> &AtomicU64 {
        let at = (offset as usize % self.bytes) & !7;
        // SAFETY: The address is in bounds and aligned (just made so), and mapped while `self`
        // lives. Any bit pattern is a valid atomic. A read-only mapping is only loaded from.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
