//! The fields of a frame that steering reads.
//!
//! | frame | key |
//! |---|---|
//! | under 14 bytes, a VLAN tag cut short, an EtherType field under 0x0600 (LLC) | none |
//! | IPv4: under 20 bytes, other version, header longer than the frame or its total length | none |
//! | IPv6 under 40 bytes, of another version, with an extension header cut short | none |
//! | IP fragment but the first, more than 8 extension headers, ports outside the frame | no ports |
//!
//! "None" means that only its VLAN and `any` match such a frame. The parser skips up to two VLAN
//! tags (0x8100, 0x88a8, 0x9100) and reads a third one as the EtherType. Only the outermost tag
//! gives the VLAN. It must be complete: 18 bytes of frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use covalent_api::ethertype;

/// Bytes of destination, source and EtherType.
pub const ETHERNET_HEADER_BYTES: usize = 14;
/// The smallest EtherType; below it the field is an 802.3 length.
pub const ETHERTYPE_MIN: u16 = 0x0600;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const VLAN_TAG_BYTES: usize = 4;
const EXTENSION_HEADERS_MAX: usize = 8;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// The steering key of a frame with a readable header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameKey {
    /// The EtherType behind the VLAN tags.
    pub ethertype: u16,
    /// Addresses, if the frame carries IP.
    pub ip: Option<IpKey>,
}

/// The part of the key that an IP header gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Whether it is a part of a packet, the first one included.
    pub fragment: bool,
    /// Ports, if the packet carries them.
    pub transport: Option<TransportKey>,
}

/// The part of the key that a TCP or UDP header gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportKey {
    /// IP protocol number: 6 or 17.
    pub protocol: u8,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

/// A frame whose key is parsed once, at the first request.
#[derive(Debug)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    /// The key, once it was requested.
    key: Option<Option<FrameKey>>,
}

impl<'a> Frame<'a> {
    /// A frame that was not looked into.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, key: None }
    }

    /// All of it.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// As [`parse`].
    #[inline]
    pub fn key(&mut self) -> Option<&FrameKey> {
        let bytes = self.bytes;
        self.key.get_or_insert_with(|| parse(bytes)).as_ref()
    }
}

/// Parses the key of `frame`, which starts at the destination address and has no FCS. `None` if
/// only its VLAN and `any` may match. Never panics on any input, and reads a bounded number of
/// headers.
#[must_use]
pub fn parse(frame: &[u8]) -> Option<FrameKey> {
    let (ethertype, offset) = ethertype::of(frame)?;
    if ethertype < ETHERTYPE_MIN {
        return None;
    }
    let packet = frame.get(offset..)?;
    let ip = match ethertype {
        ETHERTYPE_IPV4 => Some(parse_ipv4(packet)?),
        ETHERTYPE_IPV6 => Some(parse_ipv6(packet)?),
        _ => None,
    };
    Some(FrameKey { ethertype, ip })
}

/// Returns the VLAN id in the outermost tag of `frame`, whatever follows the tag.
#[must_use]
pub fn outermost_vlan(frame: &[u8]) -> Option<u16> {
    let tag = frame.get(ETHERNET_HEADER_BYTES..ETHERNET_HEADER_BYTES + VLAN_TAG_BYTES)?;
    ethertype::is_vlan_tag(read_u16(frame, 12)?)
        .then(|| u16::from_be_bytes([tag[0], tag[1]]) & covalent_api::rule::VLAN_MAX)
}

fn parse_ipv4(packet: &[u8]) -> Option<IpKey> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4
        || header_bytes < 20
        || header_bytes > packet.len()
        || total_bytes < header_bytes
    {
        return None;
    }
    // The fragment offset and the more-fragments bit.
    let part = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let transport = if part & 0x1fff == 0 {
        parse_ports(header[9], packet, header_bytes)
    } else {
        None
    };
    Some(IpKey {
        src: Ipv4Addr::new(header[12], header[13], header[14], header[15]).into(),
        dst: Ipv4Addr::new(header[16], header[17], header[18], header[19]).into(),
        fragment: part != 0,
        transport,
    })
}

fn parse_ipv6(packet: &[u8]) -> Option<IpKey> {
    let header: &[u8; 40] = packet.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let src: [u8; 16] = *packet.get(8..)?.first_chunk()?;
    let dst: [u8; 16] = *packet.get(24..)?.first_chunk()?;
    let mut next = header[6];
    let mut offset = 40;
    let (mut has_ports, mut fragment) = (true, false);
    let mut walked = 0;
    while matches!(next, 0 | 43 | 44 | 51 | 60) {
        if walked == EXTENSION_HEADERS_MAX {
            has_ports = false;
            break;
        }
        walked += 1;
        let extension: &[u8; 8] = packet.get(offset..)?.first_chunk()?;
        let bytes = match next {
            44 => {
                let part = u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9;
                fragment |= part != 0;
                // The bytes of a later fragment are data: the header that `next` names is in the
                // first fragment.
                has_ports = part & 0xfff8 == 0;
                8
            }
            51 => (usize::from(extension[1]) + 2) * 4,
            _ => (usize::from(extension[1]) + 1) * 8,
        };
        next = extension[0];
        offset += bytes;
        if offset > packet.len() {
            return None;
        }
        if !has_ports {
            break;
        }
    }
    let transport = if has_ports {
        parse_ports(next, packet, offset)
    } else {
        None
    };
    Some(IpKey {
        src: Ipv6Addr::from(src).into(),
        dst: Ipv6Addr::from(dst).into(),
        fragment,
        transport,
    })
}

fn parse_ports(protocol: u8, packet: &[u8], offset: usize) -> Option<TransportKey> {
    if !matches!(protocol, PROTOCOL_TCP | PROTOCOL_UDP) {
        return None;
    }
    Some(TransportKey {
        protocol,
        src_port: read_u16(packet, offset)?,
        dst_port: read_u16(packet, offset + 2)?,
    })
}

fn read_u16(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes
        .get(offset..)?
        .first_chunk()
        .copied()
        .map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn ethernet(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x02; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 7]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        frame
    }

    fn ipv4(options: usize, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let header_bytes = 20 + options * 4;
        let mut packet = vec![0; header_bytes];
        packet[0] = 0x40 | u8::try_from(header_bytes / 4).unwrap();
        packet[2..4].copy_from_slice(
            &u16::try_from(header_bytes + payload.len())
                .unwrap()
                .to_be_bytes(),
        );
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(payload);
        packet
    }

    fn ipv6(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[6] = first;
        packet[23] = 1;
        packet[39] = 2;
        packet.extend(rest);
        packet
    }

    const PORTS: [u8; 8] = [0x1f, 0x90, 0, 80, 0, 8, 0, 0];

    fn ports(frame: &[u8]) -> Option<(u8, u16, u16)> {
        let transport = parse(frame)?.ip?.transport?;
        Some((transport.protocol, transport.src_port, transport.dst_port))
    }

    #[test]
    fn runts_llc_and_cut_tags_have_no_key() {
        for length in 0..14 {
            assert_eq!(parse(&vec![0xff; length]), None);
        }
        assert_eq!(parse(&ethernet(&[], 0x05ff, &[0; 60])), None);
        assert_eq!(
            parse(&ethernet(&[], 0x0600, &[])).unwrap().ethertype,
            0x0600
        );
        let tagged = ethernet(&[0x8100], 0x0806, &[]);
        assert_eq!(parse(&tagged).unwrap().ethertype, 0x0806);
        assert_eq!(parse(&tagged[..tagged.len() - 1]), None);
    }

    #[test]
    fn two_tags_are_skipped_and_a_third_is_the_ethertype() {
        let packet = ipv4(0, 0, 17, &PORTS);
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x9100, 0x8100]] {
            assert_eq!(
                ports(&ethernet(tags, 0x0800, &packet)),
                Some((17, 8080, 80))
            );
        }
        assert_eq!(
            parse(&ethernet(&[0x8100; 3], 0x0800, &packet)).unwrap(),
            FrameKey {
                ethertype: 0x8100,
                ip: None
            }
        );
    }

    #[test]
    fn ipv4_options_move_the_ports_and_bad_headers_have_no_key() {
        assert_eq!(
            ports(&ethernet(&[], 0x0800, &ipv4(10, 0, 6, &PORTS))),
            Some((6, 8080, 80))
        );
        let good = ipv4(1, 0, 17, &PORTS);
        for (at, value) in [(0, 0x44), (0, 0x65), (0, 0x4f), (3, 23)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(
                parse(&ethernet(&[], 0x0800, &bad)),
                None,
                "byte {at} = {value:#x}"
            );
        }
        assert_eq!(parse(&ethernet(&[], 0x0800, &good[..19])), None);
    }

    #[test]
    fn later_fragments_have_addresses_and_no_ports() {
        let first = parse(&ethernet(&[], 0x0800, &ipv4(0, 0x2000, 17, &PORTS)))
            .unwrap()
            .ip
            .unwrap();
        assert!(first.transport.is_some());
        let later = parse(&ethernet(&[], 0x0800, &ipv4(0, 0x2001, 17, &PORTS)))
            .unwrap()
            .ip
            .unwrap();
        assert_eq!((later.dst, later.transport), (first.dst, None));
        assert!(first.fragment && later.fragment);
    }

    #[test]
    fn a_fragment_is_distinguished_from_a_whole_packet() {
        let v4 = |field| ethernet(&[], 0x0800, &ipv4(0, field, 17, &PORTS));
        let v6 = |offset: u16| {
            let [high, low] = offset.to_be_bytes();
            let rest = [&[17, 0, high, low, 0, 0, 0, 9][..], &PORTS].concat();
            ethernet(&[], 0x86dd, &ipv6(44, &rest))
        };
        let is_part = |frame: &[u8]| parse(frame).unwrap().ip.unwrap().fragment;
        // "Don't fragment", nothing at all, and a fragment header with nothing cut off (RFC 6946).
        for whole in [v4(0x4000), v4(0), v6(0)] {
            assert!(!is_part(&whole));
        }
        for part in [v4(0x2000), v4(1), v4(0x2001), v6(1), v6(8), v6(9)] {
            assert!(is_part(&part));
        }
    }

    #[test]
    fn the_outermost_whole_tag_names_the_vlan() {
        let frame = |tags: &[u16]| ethernet(tags, 0x0806, &[]);
        for tag in [0x8100, 0x88a8, 0x9100] {
            let tagged = frame(&[tag]);
            assert_eq!(outermost_vlan(&tagged), Some(7));
            assert_eq!(outermost_vlan(&tagged[..17]), None);
            let mut stacked = frame(&[tag, 0x8100]);
            stacked[14..16].copy_from_slice(&[0xff, 0xfe]);
            assert_eq!(outermost_vlan(&stacked), Some(0x0ffe));
        }
        assert_eq!(outermost_vlan(&frame(&[])), None);
        assert_eq!(outermost_vlan(&ethernet(&[], 0x0800, &[0, 7, 8, 0])), None);
    }

    #[test]
    fn ports_outside_the_frame_are_no_ports() {
        let key = parse(&ethernet(&[], 0x0800, &ipv4(0, 0, 17, &PORTS[..3]))).unwrap();
        assert_eq!(key.ip.unwrap().transport, None);
    }

    #[test]
    fn ipv6_extension_headers_are_walked_within_bounds() {
        let hop = |next: u8| [next, 0, 0, 0, 0, 0, 0, 0];
        let frame = |first: u8, chain: &[[u8; 8]]| {
            let mut rest = chain.concat();
            rest.extend(PORTS);
            ethernet(&[], 0x86dd, &ipv6(first, &rest))
        };
        assert_eq!(ports(&frame(17, &[])), Some((17, 8080, 80)));
        assert_eq!(ports(&frame(0, &[hop(60), hop(6)])), Some((6, 8080, 80)));
        // First fragment, then a later one.
        assert_eq!(
            ports(&frame(44, &[[17, 0, 0, 1, 0, 0, 0, 9]])),
            Some((17, 8080, 80))
        );
        assert_eq!(ports(&frame(44, &[[17, 0, 0, 8, 0, 0, 0, 9]])), None);
        assert!(
            parse(&frame(44, &[[17, 0, 0, 8, 0, 0, 0, 9]]))
                .unwrap()
                .ip
                .is_some()
        );
        // An authentication header counts in words of four bytes.
        let mut authenticated = vec![17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        authenticated.extend(PORTS);
        assert_eq!(
            ports(&ethernet(&[], 0x86dd, &ipv6(51, &authenticated))),
            Some((17, 8080, 80))
        );
        // Eight are walked, nine are not; a chain that runs out of the frame is malformed.
        let mut chain = vec![hop(0); 8];
        chain[7] = hop(17);
        assert_eq!(ports(&frame(0, &chain)), Some((17, 8080, 80)));
        let nine = frame(0, &[hop(0); 9]);
        assert!(parse(&nine).unwrap().ip.unwrap().transport.is_none());
        assert_eq!(parse(&ethernet(&[], 0x86dd, &ipv6(0, &hop(60)[..7]))), None);
        assert_eq!(
            parse(&ethernet(
                &[],
                0x86dd,
                &ipv6(0, &[6, 200, 0, 0, 0, 0, 0, 0])
            )),
            None
        );
    }
}
