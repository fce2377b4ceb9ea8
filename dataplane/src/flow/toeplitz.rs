//! The Toeplitz hash of receive-side scaling, as Microsoft defines it ("RSS hashing types") and
//! network cards compute it.
//!
//! | frame | input |
//! |---|---|
//! | whole TCP or UDP packet | source address, destination address, source port, destination port |
//! | other IP packet, any fragment, ports cut off | source address, destination address |
//! | anything else: no IP, or damaged | destination MAC address, source MAC address |
//! | under 14 bytes | nothing: hash 0 |
//!
//! All inputs are in network byte order. IPv6 extension headers are skipped. An address in one
//! (mobile IPv6) does not replace the packet's own address. VLAN tags are skipped and not hashed.
//! Microsoft defines no hash for frames without IP; that row is our own definition.

use std::net::IpAddr;

use covalent_config::{RSS_KEY_BYTES, RssKey};

use super::key::{ETHERNET_HEADER_BYTES, Frame, IpKey};

/// Longest input: two IPv6 addresses and two ports.
const INPUT_BYTES_MAX: usize = RSS_KEY_BYTES - 4;
const MAC_ADDRESSES_BYTES: usize = 12;

/// The hash under one key.
#[derive(Clone)]
pub struct Toeplitz {
    /// The XOR contribution of each value of each input byte: 36 KiB. An IPv4 packet reads 12
    /// entries, one from each of the first 12 tables.
    tables: Box<[[u32; 256]; INPUT_BYTES_MAX]>,
}

impl Toeplitz {
    /// Prepares the tables for `key`.
    #[must_use]
    pub fn new(key: &RssKey) -> Self {
        let mut tables = Box::new([[0; 256]; INPUT_BYTES_MAX]);
        for (at, table) in tables.iter_mut().enumerate() {
            // Eight more bits than a window has: one window for each bit of the byte.
            let mut windows = 0_u64;
            for byte in &key.bytes()[at..at + 5] {
                windows = windows << 8 | u64::from(*byte);
            }
            for (value, sum) in (0_u8..=255).zip(table.iter_mut()) {
                *sum = (0..8)
                    .filter(|bit| value & 0x80 >> bit != 0)
                    .fold(0, |sum, bit| sum ^ (windows >> (8 - bit)) as u32);
            }
        }
        Self { tables }
    }

    /// The hash of `input`. Bytes beyond 36 are not hashed: the key does not reach further.
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.tables
            .iter()
            .zip(input)
            .fold(0, |sum, (table, &byte)| sum ^ table[usize::from(byte)])
    }

    /// The hash of a frame's flow; see the module.
    #[must_use]
    pub fn hash_frame(&self, frame: &mut Frame<'_>) -> u32 {
        let bytes = frame.bytes();
        match frame.key().and_then(|key| key.ip.as_ref()) {
            Some(ip) => self.hash_ip(ip),
            None if bytes.len() < ETHERNET_HEADER_BYTES => 0,
            None => self.hash(&bytes[..MAC_ADDRESSES_BYTES]),
        }
    }

    fn hash_ip(&self, ip: &IpKey) -> u32 {
        let mut input = [0; INPUT_BYTES_MAX];
        let addresses_bytes = match (ip.src, ip.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                input[..4].copy_from_slice(&src.octets());
                input[4..8].copy_from_slice(&dst.octets());
                8
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                input[..16].copy_from_slice(&src.octets());
                input[16..32].copy_from_slice(&dst.octets());
                32
            }
            // No packet has two families.
            _ => 0,
        };
        let Some(ports) = ip.transport.filter(|_| !ip.fragment) else {
            return self.hash(&input[..addresses_bytes]);
        };
        let end = addresses_bytes + 4;
        input[addresses_bytes..end - 2].copy_from_slice(&ports.src_port.to_be_bytes());
        input[end - 2..end].copy_from_slice(&ports.dst_port.to_be_bytes());
        self.hash(&input[..end])
    }
}

impl std::fmt::Debug for Toeplitz {
    /// Omits the tables, which are too large to read.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout)]

    use std::{hint::black_box, net::SocketAddr, time::Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::flow::key::TransportKey;

    /// Source, destination, hash of the addresses, hash with TCP ports: the vectors that Microsoft
    /// publishes under "Verifying the RSS hash calculation".
    const SUITE: [(&str, &str, u32, u32); 8] = [
        (
            "66.9.149.187:2794",
            "161.142.100.80:1766",
            0x323e_8fc2,
            0x51cc_c178,
        ),
        (
            "199.92.111.2:14230",
            "65.69.140.83:4739",
            0xd718_262a,
            0xc626_b0ea,
        ),
        (
            "24.19.198.95:12898",
            "12.22.207.184:38024",
            0xd2d0_a5de,
            0x5c2b_394a,
        ),
        (
            "38.27.205.30:48228",
            "209.142.163.6:2217",
            0x8298_9176,
            0xafc7_327f,
        ),
        (
            "153.39.163.191:44251",
            "202.188.127.2:1303",
            0x5d18_09c5,
            0x10e8_28a2,
        ),
        (
            "[3ffe:2501:200:1fff::7]:2794",
            "[3ffe:2501:200:3::1]:1766",
            0x2cc1_8cd5,
            0x4020_7d3d,
        ),
        (
            "[3ffe:501:8::260:97ff:fe40:efab]:14230",
            "[ff02::1]:4739",
            0x0f0c_461c,
            0xdde5_1bbf,
        ),
        (
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            "[fe80::200:f8ff:fe21:67cf]:38024",
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    fn packet(src: SocketAddr, dst: SocketAddr, protocol: u8) -> IpKey {
        IpKey {
            src: src.ip(),
            dst: dst.ip(),
            fragment: false,
            transport: Some(TransportKey {
                protocol,
                src_port: src.port(),
                dst_port: dst.port(),
            }),
        }
    }

    /// The definition, bit by bit.
    fn oracle(key: &RssKey, input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1 == 1;
        (0..input.len() * 8)
            .filter(|&at| bit(input, at))
            .fold(0, |sum, at| {
                let window = (at..at + 32).fold(0, |window, at| {
                    window << 1 | u32::from(bit(key.bytes(), at))
                });
                sum ^ window
            })
    }

    #[test]
    fn the_published_vectors_hold_for_addresses_and_for_ports() {
        let toeplitz = Toeplitz::new(&RssKey::MICROSOFT);
        for (src, dst, addresses, ports) in SUITE {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            for protocol in [6, 17] {
                let key = packet(src, dst, protocol);
                assert_eq!(toeplitz.hash_ip(&key), ports, "{src} {dst}");
                let fragment = IpKey {
                    fragment: true,
                    ..key
                };
                assert_eq!(toeplitz.hash_ip(&fragment), addresses, "{src} {dst}");
            }
            let key = IpKey {
                transport: None,
                ..packet(src, dst, 1)
            };
            assert_eq!(toeplitz.hash_ip(&key), addresses, "{src} {dst}");
        }
    }

    #[test]
    fn under_the_symmetric_key_both_directions_have_one_hash() {
        let toeplitz = Toeplitz::new(&RssKey::SYMMETRIC);
        let mut hashes = std::collections::BTreeSet::new();
        for (src, dst, ..) in SUITE {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            let there = toeplitz.hash_ip(&packet(src, dst, 6));
            assert_eq!(there, toeplitz.hash_ip(&packet(dst, src, 6)));
            hashes.insert(there);
        }
        assert_eq!(hashes.len(), SUITE.len());
        let mut frame = [0; 60];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 6, 5, 4, 3, 2, 1]);
        frame[12..14].copy_from_slice(&[8, 6]);
        let there = toeplitz.hash_frame(&mut Frame::new(&frame));
        frame[..12].rotate_left(6);
        assert_eq!(toeplitz.hash_frame(&mut Frame::new(&frame)), there);
    }

    #[test]
    fn frames_are_hashed_over_the_documented_fields() {
        let toeplitz = Toeplitz::new(&RssKey::MICROSOFT);
        let (src, dst, addresses, ports) = SUITE[0];
        let (src, dst): (SocketAddr, SocketAddr) = (src.parse().unwrap(), dst.parse().unwrap());
        let (IpAddr::V4(from), IpAddr::V4(to)) = (src.ip(), dst.ip()) else {
            panic!("the first vectors are of IPv4")
        };
        let builder = || {
            etherparse::PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(from.octets(), to.octets(), 9)
        };
        let mut udp = Vec::new();
        builder()
            .udp(src.port(), dst.port())
            .write(&mut udp, b"body")
            .unwrap();
        assert_eq!(toeplitz.hash_frame(&mut Frame::new(&udp)), ports);
        let mut tagged = udp[..12].to_vec();
        tagged.extend([0x81, 0, 0, 7]);
        tagged.extend(&udp[12..]);
        assert_eq!(toeplitz.hash_frame(&mut Frame::new(&tagged)), ports);
        // The first fragment has its ports in it, and goes where the later ones go.
        for fragment in [[0x20, 0], [0x20, 1], [0, 1]] {
            udp[20..22].copy_from_slice(&fragment);
            assert_eq!(
                toeplitz.hash_frame(&mut Frame::new(&udp)),
                addresses,
                "{fragment:?}"
            );
        }
        udp[20..22].copy_from_slice(&[0x40, 0]);
        assert_eq!(
            toeplitz.hash_frame(&mut Frame::new(&udp)),
            ports,
            "may not be fragmented"
        );
        udp[23] = 1;
        assert_eq!(
            toeplitz.hash_frame(&mut Frame::new(&udp)),
            addresses,
            "ICMP"
        );
        // Damaged, or no IP at all: the MAC addresses.
        let macs = toeplitz.hash(&udp[..12]);
        assert_eq!(toeplitz.hash_frame(&mut Frame::new(&udp[..30])), macs);
        udp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(toeplitz.hash_frame(&mut Frame::new(&udp)), macs);
        assert_eq!(toeplitz.hash_frame(&mut Frame::new(&udp[..14])), macs);
        assert_eq!(toeplitz.hash_frame(&mut Frame::new(&udp[..13])), 0);
        assert_eq!(toeplitz.hash_frame(&mut Frame::new(&[])), 0);
    }

    proptest! {
        #[test]
        fn the_tables_compute_the_definition(
            key in any::<[u8; 32]>(),
            tail in any::<[u8; 8]>(),
            input in prop::collection::vec(any::<u8>(), 0..=INPUT_BYTES_MAX),
        ) {
            let mut bytes = [1; RSS_KEY_BYTES];
            bytes[..32].copy_from_slice(&key);
            bytes[32..].copy_from_slice(&tail);
            bytes[0] |= 1;
            let key = RssKey::new(bytes).unwrap();
            prop_assert_eq!(Toeplitz::new(&key).hash(&input), oracle(&key, &input));
        }
    }

    #[test]
    #[ignore = "a measurement: cargo test --release -p covalent-dataplane --lib -- --ignored \
        --nocapture nanoseconds"]
    fn nanoseconds_per_hash() {
        const HASHES: u32 = 1 << 22;
        let toeplitz = Toeplitz::new(&RssKey::MICROSOFT);
        for bytes in [12, 36] {
            let best = (0..7)
                .map(|_| {
                    let mut input = [0x5a; INPUT_BYTES_MAX];
                    let start = Instant::now();
                    for number in 0..HASHES {
                        input[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
                        black_box(toeplitz.hash(black_box(&input[..bytes])));
                    }
                    start.elapsed().as_secs_f64() * 1e9 / f64::from(HASHES)
                })
                .fold(f64::INFINITY, f64::min);
            println!("Toeplitz hash of {bytes} bytes: {best:.1} ns");
        }
    }
}
