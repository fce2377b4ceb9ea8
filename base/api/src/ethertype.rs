//! The EtherType of a frame, and the one that belongs to links.
//!
//! The daemon and the client library use the same function, so that the library refuses exactly the
//! frames that a lane would drop.

/// Bytes of destination, source and EtherType.
const HEADER_BYTES: usize = 14;
/// Most VLAN tags that are looked through.
const VLAN_TAGS_MAX: usize = 2;
/// Bytes of a VLAN tag.
const VLAN_TAG_BYTES: usize = 4;

/// The least EtherType of a VLAN tag.
pub const VLAN_TAG_MIN: u16 = 0x8100;

/// Two EtherTypes that IEEE 802 reserves for local experiments. The first is the default of links.
const EXPERIMENTAL: [u16; 2] = [0x88b5, 0x88b6];

/// Returns the EtherType of `frame` behind up to two VLAN tags, and the offset of the payload.
/// `None` if the frame is too short.
#[must_use]
#[inline]
pub fn of(frame: &[u8]) -> Option<(u16, usize)> {
    let mut ethertype = read_u16(frame, HEADER_BYTES - 2)?;
    let mut offset = HEADER_BYTES;
    for _ in 0..VLAN_TAGS_MAX {
        if !is_vlan_tag(ethertype) {
            break;
        }
        ethertype = read_u16(frame, offset + 2)?;
        offset += VLAN_TAG_BYTES;
    }
    Some((ethertype, offset))
}

/// Whether a VLAN tag begins with this number: 802.1Q, 802.1ad, or the older tag of QinQ.
#[must_use]
#[inline]
pub const fn is_vlan_tag(ethertype: u16) -> bool {
    matches!(ethertype, VLAN_TAG_MIN | 0x88a8 | 0x9100)
}

#[inline]
fn read_u16(frame: &[u8], offset: usize) -> Option<u16> {
    let bytes = frame.get(offset..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// Why an application cannot use this EtherType on a port with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "EtherType {0:#06x} belongs to the links of covalentd (`link.ethertype`), and no pipe carries \
     it on a port with a link. Use another one from 0x0600 to 0xffff, for example {free:#06x}, or \
     set another `link.ethertype` on every node",
    free = free_beside(*.0)
)]
pub struct OfLinks(pub u16);

/// An EtherType for experiments that is not `links`.
const fn free_beside(links: u16) -> u16 {
    if links == EXPERIMENTAL[1] {
        EXPERIMENTAL[0]
    } else {
        EXPERIMENTAL[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_names_owner_setting_and_another_ethertype() {
        let text = OfLinks(0x88b5).to_string();
        for part in [
            "0x88b5",
            "covalentd",
            "`link.ethertype`",
            "0xffff",
            "0x88b6",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let text = OfLinks(0x88b6).to_string();
        assert!(text.contains("example 0x88b5"), "{text}");
    }

    #[test]
    fn no_vlan_tag_is_below_the_least_one() {
        assert!((0..VLAN_TAG_MIN).all(|ethertype| !is_vlan_tag(ethertype)));
        assert!(is_vlan_tag(VLAN_TAG_MIN));
    }
}
