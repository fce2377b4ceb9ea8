//! Fetching memory before it is needed.

/// Prefetches the first cache line of `object`. Does nothing on processors for which it is not
/// implemented.
#[inline]
pub fn fetch<T>(object: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction. It is a hint: it loads nothing into
        // the program and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(object).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = object;
}
