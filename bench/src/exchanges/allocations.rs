//! Counts a thread's calls to the allocator.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The system's allocator, with a count for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system's allocator with the caller's arguments, so its
// guarantees are those of `System`. The counter is a thread-local without a destructor and does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the pointer came from `System` with this layout, which the caller guarantees.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System` with this layout, which the caller guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the allocations of the calling thread so far, including reallocations.
pub fn of_this_thread() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted_for_each_thread() {
        let before = of_this_thread();
        let one = std::hint::black_box(Box::new(1_u64));
        assert_eq!(of_this_thread() - before, 1);
        let elsewhere = std::thread::scope(|scope| {
            let here = of_this_thread();
            let counted = scope
                .spawn(|| {
                    let before = of_this_thread();
                    drop(std::hint::black_box(vec![0_u8; 64]));
                    of_this_thread() - before
                })
                .join();
            (counted.expect("no panic"), here)
        });
        assert_eq!(elsewhere.0, 1);
        drop(one);
    }
}
