//! Memory that loading leaves behind.

/// Returns free memory to the system. The loader always reads the kernel's type information: some
/// 25 MiB of small allocations. The allocator would keep them for the lifetime of a daemon that
/// never needs as much again.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call has no precondition and may run concurrently with allocations of other
    // threads. It accesses free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
