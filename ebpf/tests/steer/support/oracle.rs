//! The expected verdict of a frame, computed independently: etherparse parses the frame, and every
//! rule is tested.

use std::net::IpAddr;

use covalent_ebpf::{Action, Key};
use etherparse::{
    Ethernet2Slice, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice,
    Ipv6RawExtHeaderSlice, SingleVlanSlice,
};

/// The rules and settings that the program was given.
#[derive(Clone, Default)]
pub struct Oracle {
    pub rules: Vec<(Key, Action)>,
    pub link_ethertype: Option<u16>,
    pub default: Option<Action>,
}

/// The readable fields of a frame behind its tags.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    pub ethertype: Option<u16>,
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// Protocol, source and destination port.
    pub ports: Option<(u8, u16, u16)>,
}

impl Oracle {
    /// Returns the name of the cause, as in `Counters::by_cause`, and the action for the frame.
    pub fn decide(&self, frame: &[u8]) -> (&'static str, Action) {
        let default = self.default.unwrap_or(Action::Kernel);
        let Ok(ethernet) = Ethernet2Slice::from_slice_without_fcs(frame) else {
            return ("runt", default);
        };
        if self.link_ethertype == Some(ethernet.ether_type().0) {
            return ("link", Action::Dataplane);
        }
        let (facts, vlan) = (read(frame), outermost_vlan(frame));
        let best = self
            .rules
            .iter()
            .filter(|(key, _)| match key {
                Key::Vlan(number) => vlan == Some(*number),
                key => facts.is_some_and(|facts| applies(key, &facts)),
            })
            .min_by_key(|(key, _)| rank(key));
        match (best, facts) {
            (Some((key, action)), _) => (cause(key), *action),
            (None, Some(_)) => ("default", default),
            (None, None) => ("unparsable", default),
        }
    }
}

fn cause(key: &Key) -> &'static str {
    match key {
        Key::FiveTuple { .. } => "five_tuple",
        Key::Destination { .. } => "destination",
        Key::Port { .. } => "port",
        Key::Prefix { .. } => "prefix",
        Key::Vlan(_) => "vlan",
        Key::EtherType(_) => "ethertype",
    }
}

/// Smaller is more specific.
fn rank(key: &Key) -> u32 {
    match key {
        Key::FiveTuple { .. } => 0,
        Key::Destination { .. } => 1,
        Key::Port { .. } => 2,
        Key::Prefix { len, .. } => 1_000 - u32::from(*len),
        Key::Vlan(_) => 2_000,
        Key::EtherType(_) => 3_000,
    }
}

fn applies(key: &Key, facts: &Facts) -> bool {
    match *key {
        Key::FiveTuple {
            proto,
            src,
            src_port,
            dst,
            dst_port,
        } => {
            facts.addresses == Some((src, dst)) && facts.ports == Some((proto, src_port, dst_port))
        }
        Key::Destination {
            proto,
            dst,
            dst_port,
        } => {
            facts.addresses.is_some_and(|(_, to)| to == dst)
                && facts
                    .ports
                    .is_some_and(|(protocol, _, to)| (protocol, to) == (proto, dst_port))
        }
        Key::Port { proto, dst_port } => facts
            .ports
            .is_some_and(|(protocol, _, to)| (protocol, to) == (proto, dst_port)),
        Key::Prefix { dst, len } => facts
            .addresses
            .is_some_and(|(_, to)| shares_prefix(to, dst, len)),
        Key::EtherType(number) => facts.ethertype == Some(number),
        Key::Vlan(_) => false,
    }
}

/// Returns the VLAN of a frame's first tag, regardless of the contents after it.
pub fn outermost_vlan(frame: &[u8]) -> Option<u16> {
    let ethernet = Ethernet2Slice::from_slice_without_fcs(frame).ok()?;
    if ![0x8100, 0x88a8, 0x9100].contains(&ethernet.ether_type().0) {
        return None;
    }
    let tag = SingleVlanSlice::from_slice(ethernet.payload_slice()).ok()?;
    Some(tag.vlan_identifier().value())
}

fn shares_prefix(one: IpAddr, other: IpAddr, len: u8) -> bool {
    let bits = |ip: IpAddr| -> Vec<bool> {
        let octets = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        octets
            .iter()
            .flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1))
            .collect()
    };
    one.is_ipv4() == other.is_ipv4() && bits(one)[..len.into()] == bits(other)[..len.into()]
}

/// Returns the fields of a frame of at least 14 bytes that a rule can match. Returns `None` if a
/// header is truncated or inconsistent.
pub fn read(frame: &[u8]) -> Option<Facts> {
    let ethernet = Ethernet2Slice::from_slice_without_fcs(frame).ok()?;
    let mut ethertype = ethernet.ether_type().0;
    let mut payload = ethernet.payload_slice();
    let mut tags = 0;
    while [0x8100, 0x88a8, 0x9100].contains(&ethertype) && tags < 2 {
        let tag = SingleVlanSlice::from_slice(payload).ok()?;
        ethertype = tag.ether_type().0;
        payload = tag.payload_slice();
        tags += 1;
    }
    let mut facts = Facts {
        ethertype: (ethertype >= 0x600).then_some(ethertype),
        ..Facts::default()
    };
    let transport = match ethertype {
        0x0800 => read_v4(payload, &mut facts)?,
        0x86dd => read_v6(payload, &mut facts)?,
        _ => None,
    };
    if let Some((protocol @ (6 | 17), [a, b, c, d, ..])) = transport {
        facts.ports = Some((
            protocol,
            u16::from_be_bytes([*a, *b]),
            u16::from_be_bytes([*c, *d]),
        ));
    }
    Some(facts)
}

/// Protocol and bytes of the payload of an IP header or extension header.
type Transport<'a> = Option<(u8, &'a [u8])>;

fn read_v4<'a>(packet: &'a [u8], facts: &mut Facts) -> Option<Transport<'a>> {
    let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
    let header_bytes = header.slice().len();
    if usize::from(header.total_len()) < header_bytes {
        return None;
    }
    facts.addresses = Some((
        header.source_addr().into(),
        header.destination_addr().into(),
    ));
    let first = header.fragments_offset().value() == 0;
    Some(first.then(|| (header.protocol().0, &packet[header_bytes..])))
}

fn read_v6<'a>(packet: &'a [u8], facts: &mut Facts) -> Option<Transport<'a>> {
    let header = Ipv6HeaderSlice::from_slice(packet).ok()?;
    facts.addresses = Some((
        header.source_addr().into(),
        header.destination_addr().into(),
    ));
    let mut next = header.next_header().0;
    let mut rest = &packet[header.slice().len()..];
    for _ in 0..8 {
        let (following, bytes) = match next {
            0 | 43 | 60 => {
                let extension = Ipv6RawExtHeaderSlice::from_slice(rest).ok()?;
                (extension.next_header().0, extension.slice().len())
            }
            44 => {
                let fragment = Ipv6FragmentHeaderSlice::from_slice(rest).ok()?;
                if fragment.fragment_offset().value() != 0 {
                    return Some(None);
                }
                (fragment.next_header().0, fragment.slice().len())
            }
            // etherparse refuses an authentication header of 8 bytes, although it can be skipped
            // like any other.
            51 if rest.len() >= 8 => (rest[0], (usize::from(rest[1]) + 2) * 4),
            51 => return None,
            _ => break,
        };
        next = following;
        rest = rest.get(bytes..)?;
    }
    Some(Some((next, rest)))
}
