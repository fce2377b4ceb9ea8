//! Counting by cause.

use crate::{layout::COUNTERS as COUNTERS_LEN, maps::COUNTERS};

/// Adds one to a counter of this CPU.
///
/// XDP runs with migration off and does not nest on a CPU, so a plain addition loses nothing.
#[inline(always)]
pub fn count(counter: u32) {
    let Some(block) = COUNTERS.get_ptr_mut(0) else {
        return;
    };
    let index = counter as usize;
    if index < COUNTERS_LEN {
        // SAFETY: `block` is this CPU's element of the map, which exists as long as the program.
        // `index` is below its length (checked above).
        unsafe { *block.cast::<u64>().add(index) += 1 };
    }
}
