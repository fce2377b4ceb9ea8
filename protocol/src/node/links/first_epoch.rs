//! Random first epochs of cables: unknown to a node that receives nothing on the cable, and in a
//! defined order.

use crate::mix::{STEP, mix};

/// Epochs are compared as serial numbers (RFC 1982), which are ordered only within half of their
/// circle. A cable that is moved adopts the later epoch of its new place each time. First epochs
/// therefore lie within a quarter: they are still ordered after 2^30 failures of a link.
const BITS: u32 = 30;

/// Offset of the first epoch of the cable at `port` after that of a cable that draws none: a mix of
/// the seed and the port.
pub(super) const fn drawn_epoch(seed: u64, port: u16) -> u32 {
    let mixed = mix(seed.wrapping_add((port as u64).wrapping_mul(STEP)));
    mixed as u32 >> (u32::BITS - BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latch::{is_later, later_of};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// Over any sequence of cables, the epoch after a move is later than all before.
        #[test]
        fn a_moved_cable_never_returns_to_an_earlier_epoch(
            first in any::<u32>(),
            places in proptest::collection::vec(any::<(u64, u16)>(), 3..12),
            failures in 1..1u32 << 20,
        ) {
            let drawn = places.iter().map(
                |&(seed, port)| first.wrapping_add(drawn_epoch(seed, port)),
            );
            let mut had = Vec::new();
            let mut epoch = first;
            for place in drawn {
                epoch = later_of(epoch, place).wrapping_add(failures);
                for before in &had {
                    prop_assert!(is_later(epoch, *before), "{epoch} is not behind {before}");
                }
                had.push(epoch);
            }
        }
    }
}
