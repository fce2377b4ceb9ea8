//! How often a thread asked the allocator for memory.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The system's allocator, with a count for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator with the caller's own arguments, so its guarantees are
// those of `System`; the count is a thread-local without a destructor and allocates nothing itself.
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
        // SAFETY: the pointer came from `System` with this layout, as the caller promises.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System` with this layout, as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the calling thread so far, those of memory that grew among them.
pub fn of_this_thread() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_allocates_is_counted_there_alone() {
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
