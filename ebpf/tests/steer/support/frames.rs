//! Hand-made frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::rtnetlink::{MAC_A, MAC_B};

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// An Ethernet frame from `a` to `b` with these VLAN tag identifiers.
pub fn ethernet(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [MAC_B, MAC_A].concat();
    for (index, tag) in tags.iter().enumerate() {
        frame.extend(tag.to_be_bytes());
        frame.extend([0, index as u8 + 1]);
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An IPv4 packet.
#[derive(Clone)]
pub struct V4 {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub protocol: u8,
    /// Words of options, 0 to 10.
    pub option_words: usize,
    /// Flags and fragment offset, as on the wire.
    pub fragment: u16,
}

impl Default for V4 {
    fn default() -> Self {
        Self {
            src: Ipv4Addr::new(10, 1, 0, 1),
            dst: Ipv4Addr::new(10, 2, 0, 2),
            protocol: UDP,
            option_words: 0,
            fragment: 0,
        }
    }
}

impl V4 {
    pub fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let header_bytes = 20 + self.option_words * 4;
        let mut packet = vec![1; header_bytes];
        packet[0] = 0x40 | (header_bytes / 4) as u8;
        packet[1] = 0;
        packet[2..4].copy_from_slice(&((header_bytes + payload.len()) as u16).to_be_bytes());
        packet[4..6].fill(0);
        packet[6..8].copy_from_slice(&self.fragment.to_be_bytes());
        packet[8] = 64;
        packet[9] = self.protocol;
        packet[10..12].fill(0);
        packet[12..16].copy_from_slice(&self.src.octets());
        packet[16..20].copy_from_slice(&self.dst.octets());
        let checksum = checksum(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(payload);
        packet
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks_exact(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded + (folded >> 16)) as u16)
}

/// An IPv6 extension header: its number and its bytes.
pub type Extension = (u8, Vec<u8>);

/// An IPv6 packet with extension headers that are there as they are.
pub fn v6(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    extensions: &[Extension],
    protocol: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
    packet.extend(src.octets());
    packet.extend(dst.octets());
    let mut next_at = 6;
    for (kind, header) in extensions {
        packet[next_at] = *kind;
        next_at = packet.len();
        packet.extend(header);
    }
    packet[next_at] = protocol;
    packet.extend(payload);
    let payload_bytes = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&payload_bytes.to_be_bytes());
    packet
}

/// An extension header of `8 * units` bytes; its next header is filled in by [`v6`].
pub fn extension(kind: u8, units: usize) -> Extension {
    let mut header = vec![0; units * 8];
    header[1] = (units - 1) as u8;
    (kind, header)
}

/// An authentication header of `4 * words` bytes.
pub fn authentication(words: usize) -> Extension {
    let mut header = vec![0; words * 4];
    header[1] = (words - 2) as u8;
    (51, header)
}

/// A fragment header; the offset counts in units of eight bytes.
pub fn fragment(offset: u16, more: bool) -> Extension {
    let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
    (44, vec![0, 0, high, low, 0, 0, 0, 9])
}

/// A UDP header (or the start of a TCP header) with these ports and a body.
pub fn ports(src: u16, dst: u16, body: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(src.to_be_bytes());
    segment.extend(dst.to_be_bytes());
    segment.extend(((8 + body.len()) as u16).to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(body);
    segment
}

/// A UDP frame of the addresses' family.
pub fn udp(src: &str, src_port: u16, dst: &str, dst_port: u16) -> Vec<u8> {
    let payload = ports(src_port, dst_port, &[0x5a; 32]);
    match (src.parse().unwrap(), dst.parse().unwrap()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ethernet(
            &[],
            0x0800,
            &V4 {
                src,
                dst,
                ..V4::default()
            }
            .packet(&payload),
        ),
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            ethernet(&[], 0x86dd, &v6(src, dst, &[], UDP, &payload))
        }
        _ => panic!("two families in one packet"),
    }
}

/// The address with these bits.
pub fn v4_address(bits: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(bits)
}
