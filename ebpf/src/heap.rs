//! Memory that loading leaves behind.

/// Gives memory that is free back to the system. The loader reads the kernel's own type information whether or not the program needs it: some
/// 25 MiB of small pieces, which the allocator would keep for the life of a daemon that never needs as much again.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call has no precondition and may run beside other threads' allocations; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
