//! The table from matches to targets, looked up once per frame.

use std::{collections::HashMap, net::IpAddr};

use covalent_api::rule::Match;
use ipnet::IpNet;

use super::key::{Frame, FrameKey, IpKey, outermost_vlan};

/// The match already has a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupied<T>(
    /// The current holder.
    pub T,
);

/// Matches and their targets, with the precedence of [`Match`]: five-tuple, destination, port,
/// longest prefix, VLAN, EtherType, any.
///
/// A lookup costs at most one hash lookup per non-empty level (for prefixes: per length in use) and
/// allocates nothing. The keys in the maps come from admitted applications, which are not trusted.
/// An application that can predict the hash could bind colliding matches and slow down the frames
/// of all others. Therefore the hash is keyed, with keys that each process draws from the operating
/// system at its start. Used by one thread.
#[derive(Debug, Clone)]
pub struct FlowTable<T> {
    five_tuples: Map<FiveTuple, T>,
    destinations: Map<Destination, T>,
    ports: Map<(u8, u16), T>,
    prefixes: Map<Prefix, T>,
    /// Lengths in use with the number of prefixes of each, longest first; IPv4 and IPv6 apart.
    lengths: [Vec<(u8, usize)>; 2],
    vlans: Map<u16, T>,
    ethertypes: Map<u16, T>,
    any: Option<T>,
}

type Map<K, T> = HashMap<K, T, ahash::RandomState>;

/// An address as bits, right-aligned; the family stands beside it.
type Bits = u128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FiveTuple {
    src: Bits,
    dst: Bits,
    ports: u32,
    /// Protocol number, with the family in bit 8.
    protocol: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Destination {
    dst: Bits,
    /// Port in the low half, protocol and family above it.
    rest: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Prefix {
    bits: Bits,
    /// Prefix length, with the family in bit 8.
    length: u16,
}

impl<T: Copy> Default for FlowTable<T> {
    fn default() -> Self {
        Self {
            five_tuples: Map::default(),
            destinations: Map::default(),
            ports: Map::default(),
            prefixes: Map::default(),
            lengths: [Vec::new(), Vec::new()],
            vlans: Map::default(),
            ethertypes: Map::default(),
            any: None,
        }
    }
}

impl<T: Copy> FlowTable<T> {
    /// Binds `matches` to `target`.
    ///
    /// # Errors
    /// [`Occupied`] with the holder if the very same match is bound; the table is unchanged.
    pub fn insert(&mut self, matches: &Match, target: T) -> Result<(), Occupied<T>> {
        if let Some(holder) = self.get(matches) {
            return Err(Occupied(holder));
        }
        match *matches {
            Match::FiveTuple {
                transport,
                src,
                src_port,
                dst,
                dst_port,
            } => {
                self.five_tuples.insert(
                    five_tuple(transport.ip_protocol(), src, src_port, dst, dst_port),
                    target,
                );
            }
            Match::Destination {
                transport,
                dst,
                dst_port,
            } => {
                self.destinations
                    .insert(destination(transport.ip_protocol(), dst, dst_port), target);
            }
            Match::Port {
                transport,
                dst_port,
            } => {
                self.ports
                    .insert((transport.ip_protocol(), dst_port), target);
            }
            Match::Prefix { dst } => {
                self.prefixes
                    .insert(prefix(dst.addr(), dst.prefix_len()), target);
                self.count_length(dst);
            }
            Match::Vlan { vlan } => {
                self.vlans.insert(vlan, target);
            }
            Match::EtherType { ethertype } => {
                self.ethertypes.insert(ethertype, target);
            }
            Match::Any => self.any = Some(target),
        }
        Ok(())
    }

    /// Removes a binding and returns its holder.
    pub fn remove(&mut self, matches: &Match) -> Option<T> {
        match *matches {
            Match::FiveTuple {
                transport,
                src,
                src_port,
                dst,
                dst_port,
            } => self.five_tuples.remove(&five_tuple(
                transport.ip_protocol(),
                src,
                src_port,
                dst,
                dst_port,
            )),
            Match::Destination {
                transport,
                dst,
                dst_port,
            } => self
                .destinations
                .remove(&destination(transport.ip_protocol(), dst, dst_port)),
            Match::Port {
                transport,
                dst_port,
            } => self.ports.remove(&(transport.ip_protocol(), dst_port)),
            Match::Prefix { dst } => {
                let removed = self.prefixes.remove(&prefix(dst.addr(), dst.prefix_len()));
                if removed.is_some() {
                    self.uncount_length(dst);
                }
                removed
            }
            Match::Vlan { vlan } => self.vlans.remove(&vlan),
            Match::EtherType { ethertype } => self.ethertypes.remove(&ethertype),
            Match::Any => self.any.take(),
        }
    }

    /// Returns the holder of exactly this match.
    #[must_use]
    pub fn get(&self, matches: &Match) -> Option<T> {
        match *matches {
            Match::FiveTuple {
                transport,
                src,
                src_port,
                dst,
                dst_port,
            } => self
                .five_tuples
                .get(&five_tuple(
                    transport.ip_protocol(),
                    src,
                    src_port,
                    dst,
                    dst_port,
                ))
                .copied(),
            Match::Destination {
                transport,
                dst,
                dst_port,
            } => self
                .destinations
                .get(&destination(transport.ip_protocol(), dst, dst_port))
                .copied(),
            Match::Port {
                transport,
                dst_port,
            } => self
                .ports
                .get(&(transport.ip_protocol(), dst_port))
                .copied(),
            Match::Prefix { dst } => self
                .prefixes
                .get(&prefix(dst.addr(), dst.prefix_len()))
                .copied(),
            Match::Vlan { vlan } => self.vlans.get(&vlan).copied(),
            Match::EtherType { ethertype } => self.ethertypes.get(&ethertype).copied(),
            Match::Any => self.any,
        }
    }

    /// The target of `frame`, by the most specific match; `None` if nothing matches.
    #[must_use]
    #[inline]
    pub fn lookup(&self, frame: &mut Frame<'_>) -> Option<T> {
        if self.is_only_any() {
            return self.any;
        }
        let bytes = frame.bytes();
        let key = frame.key();
        let ip = key.and_then(|key| key.ip.as_ref());
        ip.and_then(|ip| self.lookup_ip(ip))
            .or_else(|| self.lookup_vlan(bytes))
            .or_else(|| self.lookup_ethertype(key))
            .or(self.any)
    }

    fn lookup_vlan(&self, frame: &[u8]) -> Option<T> {
        if self.vlans.is_empty() {
            return None;
        }
        self.vlans.get(&outermost_vlan(frame)?).copied()
    }

    fn lookup_ethertype(&self, key: Option<&FrameKey>) -> Option<T> {
        key.and_then(|key| found(&self.ethertypes, || key.ethertype))
    }

    fn lookup_ip(&self, ip: &IpKey) -> Option<T> {
        let by_ports = ip.transport.and_then(|transport| {
            let protocol = transport.protocol;
            found(&self.five_tuples, || {
                five_tuple(
                    protocol,
                    ip.src,
                    transport.src_port,
                    ip.dst,
                    transport.dst_port,
                )
            })
            .or_else(|| {
                found(&self.destinations, || {
                    destination(protocol, ip.dst, transport.dst_port)
                })
            })
            .or_else(|| found(&self.ports, || (protocol, transport.dst_port)))
        });
        by_ports.or_else(|| {
            self.lengths[family(ip.dst)]
                .iter()
                .find_map(|&(length, _)| self.prefixes.get(&prefix(ip.dst, length)).copied())
        })
    }

    /// Whether no frame needs to be looked into.
    fn is_only_any(&self) -> bool {
        self.five_tuples.is_empty()
            && self.destinations.is_empty()
            && self.ports.is_empty()
            && self.prefixes.is_empty()
            && self.vlans.is_empty()
            && self.ethertypes.is_empty()
    }

    fn count_length(&mut self, dst: IpNet) {
        let lengths = &mut self.lengths[family(dst.addr())];
        match lengths.binary_search_by(|&(length, _)| dst.prefix_len().cmp(&length)) {
            Ok(at) => lengths[at].1 += 1,
            Err(at) => lengths.insert(at, (dst.prefix_len(), 1)),
        }
    }

    fn uncount_length(&mut self, dst: IpNet) {
        let lengths = &mut self.lengths[family(dst.addr())];
        if let Ok(at) = lengths.binary_search_by(|&(length, _)| dst.prefix_len().cmp(&length)) {
            lengths[at].1 -= 1;
            if lengths[at].1 == 0 {
                lengths.remove(at);
            }
        }
    }
}

/// Looks up only in a map that holds something: an unused level costs one comparison.
fn found<K: Eq + std::hash::Hash, T: Copy>(map: &Map<K, T>, key: impl FnOnce() -> K) -> Option<T> {
    if map.is_empty() {
        None
    } else {
        map.get(&key()).copied()
    }
}

/// 0 for IPv4, 1 for IPv6.
const fn family(address: IpAddr) -> usize {
    if address.is_ipv4() { 0 } else { 1 }
}

fn family_bit(address: IpAddr) -> u16 {
    u16::from(address.is_ipv6()) << 8
}

fn bits(address: IpAddr) -> Bits {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn five_tuple(protocol: u8, src: IpAddr, src_port: u16, dst: IpAddr, dst_port: u16) -> FiveTuple {
    FiveTuple {
        src: bits(src),
        dst: bits(dst),
        ports: u32::from(src_port) << 16 | u32::from(dst_port),
        protocol: u16::from(protocol) | family_bit(dst),
    }
}

fn destination(protocol: u8, dst: IpAddr, dst_port: u16) -> Destination {
    Destination {
        dst: bits(dst),
        rest: u32::from(u16::from(protocol) | family_bit(dst)) << 16 | u32::from(dst_port),
    }
}

/// The key of the prefix of `length` bits that `address` lies in.
fn prefix(address: IpAddr, length: u8) -> Prefix {
    let width: u8 = if address.is_ipv4() { 32 } else { 128 };
    let host_bits = u32::from(width.saturating_sub(length));
    let bits = bits(address)
        .checked_shr(host_bits)
        .unwrap_or(0)
        .checked_shl(host_bits)
        .unwrap_or(0);
    Prefix {
        bits,
        length: u16::from(length) | family_bit(address),
    }
}

/// Rules and frames that meet, and which rule a frame should meet.
#[cfg(test)]
pub(super) mod cases {
    #![allow(clippy::unwrap_used)]

    use covalent_api::rule::Transport;
    use proptest::prelude::*;

    use super::*;
    use crate::flow::parse;

    /// A simple reference model of the table: tries every rule and keeps the most specific one.
    pub fn most_specific<T>(rules: &[(Match, T)], frame: &[u8]) -> Option<Match> {
        let key = parse(frame);
        rules
            .iter()
            .filter_map(|(matches, _)| {
                specificity(matches, frame, key.as_ref()).map(|rank| (rank, matches))
            })
            .max_by_key(|(rank, _)| *rank)
            .map(|(_, matches)| matches.clone())
    }

    /// The VLAN of a frame, by another library.
    fn vlan_of(frame: &[u8]) -> Option<u16> {
        let ethernet = etherparse::Ethernet2Slice::from_slice_without_fcs(frame).ok()?;
        if ![0x8100, 0x88a8, 0x9100].contains(&ethernet.ether_type().0) {
            return None;
        }
        let tag = etherparse::SingleVlanSlice::from_slice(ethernet.payload_slice()).ok()?;
        Some(tag.vlan_identifier().value())
    }

    fn specificity(matches: &Match, frame: &[u8], key: Option<&FrameKey>) -> Option<(u8, u8)> {
        let ip = key.and_then(|key| key.ip);
        let ports = ip.and_then(|ip| ip.transport);
        let (fits, rank) = match *matches {
            Match::Any => (true, (0, 0)),
            Match::EtherType { ethertype } => {
                (key.is_some_and(|key| key.ethertype == ethertype), (1, 0))
            }
            Match::Vlan { vlan } => (vlan_of(frame) == Some(vlan), (2, 0)),
            Match::Prefix { dst } => (
                ip.is_some_and(|ip| dst.contains(&ip.dst)),
                (3, dst.prefix_len()),
            ),
            Match::Port {
                transport,
                dst_port,
            } => (
                ports.is_some_and(|ports| {
                    ports.protocol == transport.ip_protocol() && ports.dst_port == dst_port
                }),
                (4, 0),
            ),
            Match::Destination {
                transport,
                dst,
                dst_port,
            } => (
                ip.is_some_and(|ip| ip.dst == dst)
                    && ports.is_some_and(|ports| {
                        ports.protocol == transport.ip_protocol() && ports.dst_port == dst_port
                    }),
                (5, 0),
            ),
            Match::FiveTuple {
                transport,
                src,
                src_port,
                dst,
                dst_port,
            } => (
                ip.is_some_and(|ip| ip.dst == dst && ip.src == src)
                    && ports.is_some_and(|ports| {
                        ports.protocol == transport.ip_protocol()
                            && ports.dst_port == dst_port
                            && ports.src_port == src_port
                    }),
                (6, 0),
            ),
        };
        fits.then_some(rank)
    }

    fn address() -> impl Strategy<Value = IpAddr> {
        // Few addresses, so that rules often match frames.
        prop_oneof![
            (0_u32..4, 0_u32..4).prop_map(|(high, low)| IpAddr::from(
                (10_u32 << 24 | high << 16 | low).to_be_bytes()
            )),
            (0_u128..4, 0_u128..4).prop_map(|(high, low)| IpAddr::from(
                (0x2001 << 112 | high << 64 | low).to_be_bytes()
            )),
        ]
    }

    fn transport() -> impl Strategy<Value = Transport> {
        prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)]
    }

    pub fn rule() -> impl Strategy<Value = Match> {
        prop_oneof![
            (transport(), address(), 0_u16..3, address(), 0_u16..3).prop_map(
                |(transport, src, src_port, dst, dst_port)| Match::FiveTuple {
                    transport,
                    src,
                    src_port,
                    dst,
                    dst_port
                }
            ),
            (transport(), address(), 0_u16..3).prop_map(|(transport, dst, dst_port)| {
                Match::Destination {
                    transport,
                    dst,
                    dst_port,
                }
            }),
            (transport(), 0_u16..3).prop_map(|(transport, dst_port)| Match::Port {
                transport,
                dst_port
            }),
            (address(), 0_u8..=128).prop_map(|(address, length)| {
                let width = if address.is_ipv4() { 32 } else { 128 };
                Match::Prefix {
                    dst: IpNet::new(address, length.min(width)).unwrap().trunc(),
                }
            }),
            (0_u16..3).prop_map(|vlan| Match::Vlan { vlan }),
            prop_oneof![Just(0x0800), Just(0x86dd), Just(0x0806), Just(0x8100)]
                .prop_map(|ethertype| Match::EtherType { ethertype }),
            Just(Match::Any),
        ]
    }

    /// A frame that is well formed, with a few bytes changed and its end cut off now and then.
    pub fn frame() -> impl Strategy<Value = Vec<u8>> {
        let whole = (
            address(),
            address(),
            transport(),
            0_u8..3,
            0_u8..3,
            prop::collection::vec(
                (
                    prop_oneof![Just(0x8100_u16), Just(0x88a8), Just(0x9100)],
                    prop_oneof![Just(0), Just(0xe0)],
                    0_u8..3,
                ),
                0..4,
            ),
        )
            .prop_map(|(src, dst, transport, src_port, dst_port, tags)| {
                let mut frame = vec![2; 12];
                for (tag, priority, vlan) in tags {
                    frame.extend(tag.to_be_bytes());
                    frame.extend([priority, vlan]);
                }
                match (src, dst) {
                    (IpAddr::V4(src), IpAddr::V4(dst)) => {
                        frame.extend([
                            8,
                            0,
                            0x45,
                            0,
                            0,
                            28,
                            0,
                            0,
                            0,
                            0,
                            64,
                            transport.ip_protocol(),
                            0,
                            0,
                        ]);
                        frame.extend(src.octets());
                        frame.extend(dst.octets());
                    }
                    (IpAddr::V6(src), IpAddr::V6(dst)) => {
                        frame.extend([
                            0x86,
                            0xdd,
                            0x60,
                            0,
                            0,
                            0,
                            0,
                            8,
                            transport.ip_protocol(),
                            64,
                        ]);
                        frame.extend(src.octets());
                        frame.extend(dst.octets());
                    }
                    _ => frame.extend([8, 6]),
                }
                frame.extend([0, src_port, 0, dst_port, 0, 8, 0, 0]);
                frame
            });
        (
            whole,
            prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2),
            0_usize..20,
        )
            .prop_map(|(mut frame, changes, cut)| {
                for (at, value) in changes {
                    let at = at.index(frame.len());
                    frame[at] = value;
                }
                let kept = if cut < 10 {
                    frame.len()
                } else {
                    frame.len().saturating_sub(cut)
                };
                frame.truncate(kept);
                frame
            })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout)]

    use covalent_api::rule::Transport;
    use proptest::prelude::*;

    use super::{
        cases::{frame, most_specific, rule},
        *,
    };

    proptest! {
        #[test]
        fn lookup_equals_the_oracle(
            rules in prop::collection::vec((rule(), any::<bool>()), 0..40),
            frames in prop::collection::vec(frame(), 1..40),
        ) {
            let mut table = FlowTable::default();
            let mut held: Vec<(Match, u32)> = Vec::new();
            for (target, (matches, keep)) in (0_u32..).zip(rules) {
                let holder = held.iter().find(
                    |(other, _)| *other == matches,
                ).map(|&(_, target)| target);
                match table.insert(&matches, target) {
                    Ok(()) => {
                        prop_assert_eq!(holder, None);
                        held.push((matches.clone(), target));
                    }
                    Err(Occupied(by)) => prop_assert_eq!(holder, Some(by)),
                }
                if !keep {
                    let removed = table.remove(&matches);
                    let at = held.iter().position(|(other, _)| *other == matches);
                    prop_assert_eq!(removed, at.map(|at| held.remove(at).1));
                }
            }
            for frame in frames {
                let expected = most_specific(&held, &frame)
                    .and_then(|matches| held.iter().find(|(other, _)| *other == matches))
                    .map(|&(_, target)| target);
                prop_assert_eq!(table.lookup(&mut Frame::new(&frame)), expected, "{:02x?}", frame);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut table = FlowTable::default();
            table.insert(&Match::Prefix { dst: "0.0.0.0/0".parse().unwrap() }, 1).unwrap();
            table.insert(&Match::Any, 0).unwrap();
            prop_assert!(table.lookup(&mut Frame::new(&bytes)).is_some());
        }
    }

    /// One frame for each of many UDP connections, over IPv4 or IPv6.
    fn connections(count: u16, v6: bool) -> Vec<(Match, Vec<u8>)> {
        let address = |last: u16| -> IpAddr {
            if v6 {
                std::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(last)).into()
            } else {
                std::net::Ipv4Addr::from_bits(0x0a00_0000 | u32::from(last)).into()
            }
        };
        (0..count)
            .map(|number| {
                let (src, dst) = (address(number), address(1));
                let ethernet = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
                let ip = match (src, dst) {
                    (IpAddr::V4(src), IpAddr::V4(dst)) => {
                        ethernet.ipv4(src.octets(), dst.octets(), 9)
                    }
                    (IpAddr::V6(src), IpAddr::V6(dst)) => {
                        ethernet.ipv6(src.octets(), dst.octets(), 9)
                    }
                    _ => panic!("two families"),
                };
                let mut frame = Vec::new();
                ip.udp(4000, 53).write(&mut frame, &[0; 18]).unwrap();
                let matches = Match::FiveTuple {
                    transport: Transport::Udp,
                    src,
                    src_port: 4000,
                    dst,
                    dst_port: 53,
                };
                (matches, frame)
            })
            .collect()
    }

    #[test]
    #[ignore = "a measurement: cargo test --release -p covalent-dataplane --lib -- --ignored \
        --nocapture nanoseconds"]
    fn nanoseconds_per_lookup() {
        const ROUNDS: usize = 1 << 20;
        let measure = |name: &str, table: &FlowTable<u32>, frames: &[Vec<u8>]| {
            let best = (0..9)
                .map(|_| {
                    let start = std::time::Instant::now();
                    for round in 0..ROUNDS {
                        let frame = &frames[round & (frames.len() - 1)];
                        let mut frame = Frame::new(std::hint::black_box(frame));
                        std::hint::black_box(table.lookup(&mut frame));
                    }
                    start.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
                })
                .fold(f64::INFINITY, f64::min);
            println!("{best:5.1} ns  {name}");
        };
        for v6 in [false, true] {
            for count in [1, 64, 4096] {
                let (rules, frames): (Vec<_>, Vec<_>) = connections(count, v6).into_iter().unzip();
                let mut table = FlowTable::default();
                for (target, rule) in (0..).zip(&rules) {
                    table.insert(rule, target).unwrap();
                }
                let family = if v6 { "IPv6" } else { "IPv4" };
                measure(
                    &format!("{family}, one of {count} five-tuples"),
                    &table,
                    &frames,
                );
                if count == 64 {
                    let mut miss = FlowTable::default();
                    miss.insert(&rules[0], 0).unwrap();
                    for rule in [
                        Match::Destination {
                            transport: Transport::Tcp,
                            dst: "10.0.0.1".parse().unwrap(),
                            dst_port: 1,
                        },
                        Match::Port {
                            transport: Transport::Tcp,
                            dst_port: 1,
                        },
                        Match::Prefix {
                            dst: "192.0.2.0/24".parse().unwrap(),
                        },
                        Match::Prefix {
                            dst: "2001:db9::/32".parse().unwrap(),
                        },
                        Match::EtherType { ethertype: 0x0806 },
                    ] {
                        miss.insert(&rule, 1).unwrap();
                    }
                    measure(
                        &format!("{family}, a miss at every level"),
                        &miss,
                        &frames[1..33],
                    );
                }
            }
        }
    }

    #[test]
    fn hash_collisions_of_matches_are_unpredictable() {
        let place = || {
            let table = FlowTable::<u32>::default();
            let src = "10.0.0.1".parse().unwrap();
            table
                .five_tuples
                .hasher()
                .hash_one(five_tuple(17, src, 1, src, 2))
        };
        assert_ne!(place(), place());
    }

    #[test]
    fn the_default_prefix_and_the_host_prefix_work_in_both_families() {
        let mut table = FlowTable::default();
        for (target, net) in (0..).zip(["0.0.0.0/0", "10.0.0.2/32", "::/0", "2001:db8::2/128"]) {
            table
                .insert(
                    &Match::Prefix {
                        dst: net.parse().unwrap(),
                    },
                    target,
                )
                .unwrap();
        }
        let by = |address: &str| {
            let dst: IpAddr = address.parse().unwrap();
            table.lookup_ip(&IpKey {
                src: dst,
                dst,
                fragment: false,
                transport: None,
            })
        };
        assert_eq!(
            [by("1.2.3.4"), by("10.0.0.2"), by("::1"), by("2001:db8::2")],
            [Some(0), Some(1), Some(2), Some(3)]
        );
    }
}
