//! Addresses for ports that have no hardware.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A random, locally administered unicast address (IEEE 802, second-lowest bit of the first byte set, lowest clear).
///
/// Random rather than derived from the port's name, because both ends of a cable often carry the same name.
pub(super) fn locally_administered() -> [u8; 6] {
    let [a, b, c, d, e, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    [0x02, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_local_unicast_and_differ() {
        let (one, other) = (locally_administered(), locally_administered());
        assert_eq!(one[0] & 0b11, 0b10);
        assert_ne!(one, other);
    }
}
