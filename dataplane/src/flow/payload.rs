//! The payload of a UDP datagram.

use etherparse::{SlicedPacket, TransportSlice};

/// Returns the payload of the UDP datagram in `frame`, without the frame's padding. `frame` starts
/// at the destination address and has no FCS. Returns `None` if it carries no whole datagram, for
/// example only a fragment. VLAN tags and IPv6 extension headers are skipped. The payload may be
/// empty.
#[must_use]
pub fn udp_payload(frame: &[u8]) -> Option<&[u8]> {
    match SlicedPacket::from_ethernet(frame).ok()?.transport? {
        TransportSlice::Udp(datagram) => Some(datagram.payload()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use etherparse::{IpFragOffset, Ipv4Header, PacketBuilder, ip_number};
    use proptest::prelude::*;

    use super::*;

    fn datagram(payload: &[u8]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(1, 514);
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).unwrap();
        frame
    }

    #[test]
    fn padding_is_not_payload() {
        let mut frame = datagram(b"<13>a log line\n");
        frame.resize(60, 0xaa);
        assert_eq!(udp_payload(&frame), Some(&b"<13>a log line\n"[..]));
        let mut empty = datagram(b"");
        empty.resize(60, 0xaa);
        assert_eq!(udp_payload(&empty), Some(&b""[..]));
    }

    #[test]
    fn tags_and_headers_of_both_families_are_skipped() {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .single_vlan(7.try_into().unwrap())
            .ipv6([1; 16], [2; 16], 64)
            .udp(1, 2)
            .write(&mut frame, b"six")
            .unwrap();
        assert_eq!(udp_payload(&frame), Some(&b"six"[..]));
    }

    #[test]
    fn an_incomplete_datagram_has_no_payload() {
        let mut tcp = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(1, 2, 3, 4)
            .write(&mut tcp, b"stream")
            .unwrap();
        assert_eq!(udp_payload(&tcp), None);

        let whole = datagram(b"four");
        assert_eq!(udp_payload(&whole[..whole.len() - 1]), None);
        assert_eq!(udp_payload(&[]), None);

        // A first fragment has the UDP header, and not the whole datagram.
        let mut ip = Ipv4Header::new(12, 64, ip_number::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        ip.more_fragments = true;
        for offset in [0, 100] {
            ip.fragment_offset = IpFragOffset::try_new(offset).unwrap();
            ip.header_checksum = ip.calc_header_checksum();
            let mut frame = whole[..14].to_vec();
            ip.write(&mut frame).unwrap();
            frame.extend_from_slice(&whole[34..46]);
            assert_eq!(udp_payload(&frame), None, "offset {offset}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_harm(
            mut frame in prop::collection::vec(
                any::<u8>(),
                0..200,
            ), at in 0..200_usize, byte: u8, cut in 0..80_usize,
        ) {
            let _ = udp_payload(&frame);
            frame = datagram(b"some payload");
            let len = frame.len();
            frame[at % len] = byte;
            frame.truncate(len - cut.min(len));
            if let Some(payload) = udp_payload(&frame) {
                prop_assert!(payload.len() <= frame.len());
            }
        }
    }
}
