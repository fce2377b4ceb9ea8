//! MAC addresses of ports: generated ones for ports without hardware, and their text form.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns a random, locally administered unicast address (IEEE 802, second-lowest bit of the first
/// byte set, lowest clear).
///
/// The address is random rather than derived from the port's name, because both ends of a cable
/// often have the same name.
pub(super) fn locally_administered() -> [u8; 6] {
    let [a, b, c, d, e, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    [0x02, a, b, c, d, e]
}

/// As the kernel's tools write it, for example `02:00:00:00:00:01`.
pub(super) fn text(mac: [u8; 6]) -> String {
    let [a, b, c, d, e, f] = mac;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_the_kernels_tools_do() {
        assert_eq!(text([2, 0, 0xab, 0, 0, 1]), "02:00:ab:00:00:01");
    }

    #[test]
    fn addresses_are_local_unicast_and_differ() {
        let (one, other) = (locally_administered(), locally_administered());
        assert_eq!(one[0] & 0b11, 0b10);
        assert_ne!(one, other);
    }
}
