//! The table from matches to targets, looked up once per frame.

use std::net::IpAddr;

use covalent_api::rule::Match;
use ipnet::IpNet;
use rustc_hash::FxHashMap;

use super::key::{FrameKey, IpKey, parse};

/// Somebody holds this match already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupied<T>(
    /// Who.
    pub T,
);

/// Matches and their targets, with the precedence of [`Match`]: five-tuple, destination, port, longest prefix,
/// EtherType, any.
///
/// A lookup costs at most one hash lookup per level that holds anything (for prefixes: per length in use) and
/// allocates nothing. The keys in the maps come from local, admitted applications and never from the wire, so a fast
/// hash without a secret is enough. Used by one thread.
#[derive(Debug, Clone)]
pub struct FlowTable<T> {
    five_tuples: FxHashMap<FiveTuple, T>,
    destinations: FxHashMap<Destination, T>,
    ports: FxHashMap<(u8, u16), T>,
    prefixes: FxHashMap<Prefix, T>,
    /// Lengths in use with the number of prefixes of each, longest first; IPv4 and IPv6 apart.
    lengths: [Vec<(u8, usize)>; 2],
    ethertypes: FxHashMap<u16, T>,
    any: Option<T>,
}

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
            five_tuples: FxHashMap::default(),
            destinations: FxHashMap::default(),
            ports: FxHashMap::default(),
            prefixes: FxHashMap::default(),
            lengths: [Vec::new(), Vec::new()],
            ethertypes: FxHashMap::default(),
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
            Match::EtherType { ethertype } => {
                self.ethertypes.insert(ethertype, target);
            }
            Match::Any => self.any = Some(target),
        }
        Ok(())
    }

    /// Takes a binding back and tells who held it.
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
            Match::EtherType { ethertype } => self.ethertypes.remove(&ethertype),
            Match::Any => self.any.take(),
        }
    }

    /// Who holds exactly this match.
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
            Match::EtherType { ethertype } => self.ethertypes.get(&ethertype).copied(),
            Match::Any => self.any,
        }
    }

    /// The target of `frame`, by the most specific match; `None` if nothing matches.
    #[must_use]
    pub fn lookup(&self, frame: &[u8]) -> Option<T> {
        if self.is_only_any() {
            return self.any;
        }
        match parse(frame) {
            Some(key) => self.lookup_key(&key).or(self.any),
            None => self.any,
        }
    }

    fn lookup_key(&self, key: &FrameKey) -> Option<T> {
        key.ip
            .as_ref()
            .and_then(|ip| self.lookup_ip(ip))
            .or_else(|| found(&self.ethertypes, || key.ethertype))
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
fn found<K: Eq + std::hash::Hash, T: Copy>(
    map: &FxHashMap<K, T>,
    key: impl FnOnce() -> K,
) -> Option<T> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_api::rule::Transport;
    use proptest::prelude::*;

    use super::*;

    /// The table's meaning, told the slow way: try every rule, keep the most specific one.
    fn oracle(rules: &[(Match, u32)], frame: &[u8]) -> Option<u32> {
        let key = parse(frame);
        rules
            .iter()
            .filter_map(|(matches, target)| {
                specificity(matches, key.as_ref()).map(|rank| (rank, *target))
            })
            .max()
            .map(|(_, target)| target)
    }

    fn specificity(matches: &Match, key: Option<&FrameKey>) -> Option<(u8, u8)> {
        let ip = key.and_then(|key| key.ip);
        let ports = ip.and_then(|ip| ip.transport);
        let (fits, rank) = match *matches {
            Match::Any => (true, (0, 0)),
            Match::EtherType { ethertype } => {
                (key.is_some_and(|key| key.ethertype == ethertype), (1, 0))
            }
            Match::Prefix { dst } => (
                ip.is_some_and(|ip| dst.contains(&ip.dst)),
                (2, dst.prefix_len()),
            ),
            Match::Port {
                transport,
                dst_port,
            } => (
                ports.is_some_and(|ports| {
                    ports.protocol == transport.ip_protocol() && ports.dst_port == dst_port
                }),
                (3, 0),
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
                (4, 0),
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
                (5, 0),
            ),
        };
        fits.then_some(rank)
    }

    fn address() -> impl Strategy<Value = IpAddr> {
        // Few addresses, so that rules and frames meet.
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

    fn rule() -> impl Strategy<Value = Match> {
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
            prop_oneof![Just(0x0800), Just(0x86dd), Just(0x0806), Just(0x8100)]
                .prop_map(|ethertype| Match::EtherType { ethertype }),
            Just(Match::Any),
        ]
    }

    /// A frame that is well formed, with a few bytes changed and its end cut off now and then.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let whole = (
            address(),
            address(),
            transport(),
            0_u8..3,
            0_u8..3,
            0_usize..4,
        )
            .prop_map(|(src, dst, transport, src_port, dst_port, tags)| {
                let mut frame = vec![2; 12];
                for _ in 0..tags {
                    frame.extend([0x81, 0, 0, 1]);
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

    proptest! {
        #[test]
        fn lookup_equals_the_oracle(
            rules in prop::collection::vec((rule(), any::<bool>()), 0..40),
            frames in prop::collection::vec(frame(), 1..40),
        ) {
            let mut table = FlowTable::default();
            let mut held: Vec<(Match, u32)> = Vec::new();
            for (target, (matches, keep)) in (0_u32..).zip(rules) {
                let holder = held.iter().find(|(other, _)| *other == matches).map(|&(_, target)| target);
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
                prop_assert_eq!(table.lookup(&frame), oracle(&held, &frame), "{:02x?}", frame);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut table = FlowTable::default();
            table.insert(&Match::Prefix { dst: "0.0.0.0/0".parse().unwrap() }, 1).unwrap();
            table.insert(&Match::Any, 0).unwrap();
            prop_assert!(table.lookup(&bytes).is_some());
        }
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
                transport: None,
            })
        };
        assert_eq!(
            [by("1.2.3.4"), by("10.0.0.2"), by("::1"), by("2001:db8::2")],
            [Some(0), Some(1), Some(2), Some(3)]
        );
    }
}
