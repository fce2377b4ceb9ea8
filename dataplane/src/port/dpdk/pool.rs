//! Pools of packet buffers, which a device and a lane share.

use std::{
    ffi::CString,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};

use covalent_dpdk_sys as sys;

use super::eal;

/// Longest frame that a buffer holds, in bytes.
pub(super) const FRAME_BYTES_MAX: u16 = 2048;

/// Buffers that each thread caches between two visits to the pool. DPDK lets the cache grow to 1.5
/// times this size.
const CACHE_BUFFERS: u32 = 128;

/// Buffers that may lie in the cache of a thread where no other thread gets them.
pub(super) const STRAY_BUFFERS: u32 = CACHE_BUFFERS + CACHE_BUFFERS / 2;

/// Every pool of the process has a name of its own.
static POOLS: AtomicU32 = AtomicU32::new(0);

/// One buffer of some pool. The type does not express ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Buffer(NonNull<sys::rte_mbuf>);

impl Buffer {
    /// Wraps a pointer from DPDK, which never returns null there.
    pub(super) fn new(raw: *mut sys::rte_mbuf) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    pub(super) const fn raw(self) -> *mut sys::rte_mbuf {
        self.0.as_ptr()
    }
}

/// Converts contiguous buffers to the array that DPDK expects.
pub(super) fn raw(buffers: &mut [Buffer]) -> *mut *mut sys::rte_mbuf {
    // A buffer is a pointer and nothing else (`repr(transparent)`).
    buffers.as_mut_ptr().cast()
}

/// Buffers for frames of up to [`FRAME_BYTES_MAX`].
#[derive(Debug)]
pub(super) struct Pool {
    raw: NonNull<sys::rte_mempool>,
    buffers: u32,
}

// SAFETY: a pool may be used by every thread of the process at once; DPDK made it so.
unsafe impl Send for Pool {}

impl Pool {
    /// Makes a pool; `None` when DPDK's memory is used up.
    pub(super) fn create(buffers: u32) -> Option<Self> {
        let name = format!("covalent{}", POOLS.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).ok()?;
        // SAFETY: The environment layer is up, because only its owner gets here. The name outlives
        // the call.
        let raw = unsafe {
            sys::covalent_pool_create(name.as_ptr(), buffers, CACHE_BUFFERS, FRAME_BYTES_MAX)
        };
        NonNull::new(raw).map(|raw| Self { raw, buffers })
    }

    pub(super) const fn raw(&self) -> *mut sys::rte_mempool {
        self.raw.as_ptr()
    }

    /// Free buffers in the pool.
    pub(super) fn idle(&self) -> u32 {
        // SAFETY: The pool lives as long as `self`. The counts of other threads' caches are
        // momentary values.
        unsafe { sys::covalent_pool_idle(self.raw.as_ptr(), eal::threads()) }
    }

    /// All buffers there are.
    pub(super) const fn buffers(&self) -> u32 {
        self.buffers
    }

    /// Size of the pages that it lies in, in bytes.
    pub(super) fn page_bytes(&self) -> u64 {
        // SAFETY: The pool lives as long as `self`.
        unsafe { sys::covalent_pool_page_bytes(self.raw.as_ptr()) as u64 }
    }

    /// Appends `wanted` buffers to `into`, or none of them.
    pub(super) fn take(&self, into: &mut Vec<Buffer>, wanted: usize) -> bool {
        let mut raw = [ptr::null_mut(); TAKEN_MAX];
        let wanted = wanted.min(TAKEN_MAX);
        // SAFETY: `raw` has space for `wanted` pointers, and the pool lives.
        let answer =
            unsafe { sys::covalent_alloc(self.raw.as_ptr(), raw.as_mut_ptr(), wanted as u32) };
        if answer != 0 {
            return false;
        }
        into.extend(raw[..wanted].iter().filter_map(|&raw| Buffer::new(raw)));
        true
    }
}

/// Most buffers taken from a pool at a time.
pub(super) const TAKEN_MAX: usize = 32;

impl Drop for Pool {
    fn drop(&mut self) {
        // A removed device or another port of this process may still hold buffers. The pool then
        // stays until the process exits.
        if self.idle() == self.buffers {
            // SAFETY: Every buffer is back, so no code can reach one again. `self` was the only
            // reference to the pool.
            unsafe { sys::covalent_pool_free(self.raw.as_ptr()) };
        }
    }
}

/// Gives buffers back to their pools; null pointers are passed over.
///
/// # Safety
/// Each buffer is the caller's, and is not used afterwards.
pub(super) unsafe fn give_back(buffers: &mut [*mut sys::rte_mbuf]) {
    // SAFETY: as promised by the caller.
    unsafe { sys::covalent_free(buffers.as_mut_ptr(), buffers.len() as u32) };
}
