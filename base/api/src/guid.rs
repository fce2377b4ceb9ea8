//! A node's identity: separate from any address, generated once and kept.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::name::LANES_MAX;

/// A globally unique identifier of a node or of one of its lanes: 64 random bits, never zero,
/// written as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Guid(u64);

impl Guid {
    /// The identifier with these bits. `None` for zero, which means "none" on the wire.
    #[must_use]
    pub const fn new(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// The address of a lane of the node with this identifier. Lane 0 has the node's own
    /// identifier, and each further lane the next one. Zero, which means "none", is skipped.
    #[must_use]
    pub const fn lane(self, lane: u32) -> Self {
        match self.0.overflowing_add(lane as u64) {
            (bits, false) => Self(bits),
            // Wraps past the maximum to 1. The sum is less than `lane`, so this cannot overflow.
            (bits, true) => Self(bits + 1),
        }
    }

    /// The bits that the addresses of all lanes of one node share. Those of the lane are zero.
    #[must_use]
    pub const fn node_bits(self) -> u64 {
        self.0 & !(LANES_MAX as u64 - 1)
    }

    /// The 64 bits, as they stand on the wire.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({self})")
    }
}

/// Error of an invalid GUID text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a GUID: expected 1 to 16 hexadecimal digits that are not all zero")]
pub struct BadGuid(String);

impl FromStr for Guid {
    type Err = BadGuid;

    fn from_str(text: &str) -> Result<Self, BadGuid> {
        u64::from_str_radix(text, 16)
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| BadGuid(text.to_owned()))
    }
}

impl TryFrom<String> for Guid {
    type Error = BadGuid;

    fn try_from(text: String) -> Result<Self, BadGuid> {
        text.parse()
    }
}

impl From<Guid> for String {
    fn from(guid: Guid) -> Self {
        guid.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_zero_is_refused() {
        let guid = Guid::new(0x00ab_cdef_0123_4567).expect("non-zero");
        assert_eq!(guid.to_string().parse(), Ok(guid));
        assert!("0".parse::<Guid>().is_err());
        assert!("not hex".parse::<Guid>().is_err());
    }

    #[test]
    fn lanes_have_addresses_of_their_own() {
        let node = Guid::new(0x00ab_cdef_0123_4500).expect("non-zero");
        assert_eq!(node.lane(0), node);
        assert_eq!(node.lane(3).to_string(), "00abcdef01234503");
        for lane in 0..LANES_MAX as u32 {
            assert_eq!(node.lane(lane).node_bits(), node.bits(), "lane {lane}");
        }
        let next = Guid::new(node.bits() + LANES_MAX as u64).expect("non-zero");
        assert_ne!(next.node_bits(), node.bits());
        let last = Guid::new(u64::MAX - 1).expect("non-zero");
        let addresses = [0, 1, 2, 255].map(|lane| last.lane(lane).bits());
        assert_eq!(addresses, [u64::MAX - 1, u64::MAX, 1, 254]);
    }
}
