//! The first epochs of cables that are drawn: unknown to who hears nothing, and in order with each other.

use crate::mix::{STEP, mix};

/// Epochs are compared as serial numbers (RFC 1982), which have an order only while all lie within
/// half of their circle. A cable that is moved takes over the later epoch of its new place each
/// time, so first epochs lie within a quarter: 2^30 failures of a link later they are in order still.
const BITS: u32 = 30;

/// How far the first epoch of the cable at `port` lies behind that of a cable that draws none: a mix
/// of the seed and the port.
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
        /// Whichever cables one is moved to, one after the other, where it comes is later than where it ever was.
        #[test]
        fn a_cable_that_is_moved_never_comes_to_an_epoch_before_one_that_it_had(
            first in any::<u32>(),
            places in proptest::collection::vec(any::<(u64, u16)>(), 3..12),
            failures in 1..1u32 << 20,
        ) {
            let drawn = places.iter().map(|&(seed, port)| first.wrapping_add(drawn_epoch(seed, port)));
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
