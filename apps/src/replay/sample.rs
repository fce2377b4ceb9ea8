//! A small sample of frames for a replay without captures. It is generated here, not captured.

use crate::replay::capture::Capture;

/// The name of the sample in reports.
pub const SOURCE: &str = "built-in sample";

const BROADCAST: [u8; 6] = [0xff; 6];
/// Locally administered addresses.
const A: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0a];
const B: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0b];

/// Frames of several protocols and of all relevant lengths: ARP, UDP from 60 to 1514 bytes, TCP,
/// IPv6 neighbor discovery, one and two VLAN tags, a fragment, LLC, an unknown EtherType, and a
/// bare Ethernet header.
///
/// The IP addresses are reserved for documentation (RFC 5737, RFC 3849).
#[must_use]
pub fn captures() -> Vec<Capture> {
    vec![protocols(), lengths()]
}

fn protocols() -> Capture {
    let arp = [
        &[0, 1, 8, 0, 6, 4, 0, 1][..],
        &A,
        &[192, 0, 2, 1],
        &[0; 6],
        &[192, 0, 2, 2],
        &[0; 18],
    ]
    .concat();
    let udp = ipv4(17, 0, &transport(4000, 53, &[0; 4], 30));
    let tcp = ipv4(
        6,
        0,
        &transport(
            4001,
            80,
            &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0],
            10,
        ),
    );
    let later_fragment = ipv4(17, 185, &[0x5a; 64]);
    let solicitation = [
        &[0x60, 0, 0, 0, 0, 24, 58, 255][..],
        &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        &[0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 2],
        &[135, 0, 0, 0, 0, 0, 0, 0],
        &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
    ]
    .concat();
    let tagged = [&[0, 42, 0x08, 0][..], &udp].concat();
    let twice_tagged = [&[0, 7, 0x81, 0][..], &tagged].concat();
    let frames = vec![
        ethernet(BROADCAST, 0x0806, &arp),
        ethernet(B, 0x0800, &udp),
        ethernet(B, 0x0800, &tcp),
        ethernet(B, 0x0800, &later_fragment),
        ethernet([0x33, 0x33, 0xff, 0, 0, 2], 0x86dd, &solicitation),
        ethernet(B, 0x8100, &tagged),
        ethernet(B, 0x88a8, &twice_tagged),
        // A length instead of an EtherType: LLC, here a spanning-tree message.
        ethernet(
            [0x01, 0x80, 0xc2, 0, 0, 0],
            38,
            &[&[0x42, 0x42, 3][..], &[0; 43]].concat(),
        ),
        ethernet(B, 0x88b6, &[0xa5; 46]),
        ethernet(B, 0x88b6, &[]),
    ];
    Capture {
        name: format!("{SOURCE}: protocols"),
        frames,
    }
}

fn lengths() -> Capture {
    // Round the 64-byte quanta of a pipe and the usual packet sizes.
    let frame_bytes = [
        60, 63, 64, 65, 127, 128, 129, 256, 512, 1023, 1024, 1025, 1513, 1514,
    ];
    let frames = frame_bytes
        .into_iter()
        .map(|length| {
            let payload: Vec<u8> = (0..length - 14 - 20 - 8)
                .map(|at| (at * 7 + length) as u8)
                .collect();
            let datagram = [&transport(4002, 9, &[0; 4], 0)[..], &payload].concat();
            ethernet(B, 0x0800, &ipv4(17, 0, &datagram))
        })
        .collect();
    Capture {
        name: format!("{SOURCE}: lengths"),
        frames,
    }
}

fn ethernet(destination: [u8; 6], ethertype: u16, payload: &[u8]) -> Box<[u8]> {
    [&destination[..], &A, &ethertype.to_be_bytes(), payload]
        .concat()
        .into()
}

/// A transport header's ports, `rest` of it, and `filler_bytes` of payload.
fn transport(source: u16, destination: u16, rest: &[u8], filler_bytes: usize) -> Vec<u8> {
    [
        &source.to_be_bytes()[..],
        &destination.to_be_bytes(),
        rest,
        &vec![0x3c; filler_bytes],
    ]
    .concat()
}

/// An IPv4 packet with a right header checksum. `fragment` is the offset in units of 8 bytes.
fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut header = [0u8; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[8] = 64;
    header[9] = protocol;
    header[12..16].copy_from_slice(&[192, 0, 2, 1]);
    header[16..20].copy_from_slice(&[198, 51, 100, 2]);
    let sum: u32 = header
        .chunks_exact(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    [&header[..], payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_sendable_and_all_different() {
        let frames: Vec<_> = captures()
            .into_iter()
            .flat_map(|capture| capture.frames)
            .collect();
        assert!(
            frames
                .iter()
                .all(|frame| (14..=1514).contains(&frame.len()))
        );
        assert_eq!(frames.iter().map(|frame| frame.len()).max(), Some(1514));
        let mut sorted = frames.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), frames.len());
    }

    #[test]
    fn header_checksums_are_right() {
        let packet = ipv4(17, 0, &[0; 8]);
        let sum: u32 = packet[..20]
            .chunks_exact(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
