//! Which rule decides: the most specific one that matches.

use aya_ebpf::btf_maps::lpm_trie::Key;

use crate::{
    frame::Frame,
    headers::{self, Depth, Headers},
    layout::{
        Cause, DestinationKey, FAMILY_IPV4, FiveTupleKey, Network16, PortKey, TABLE_DESTINATIONS,
        TABLE_ETHERTYPES, TABLE_FIVE_TUPLES, TABLE_PORTS, TABLE_PREFIXES_V4, TABLE_PREFIXES_V6,
        TABLE_VLANS,
    },
    maps::{
        DESTINATIONS, ETHERTYPES, FIVE_TUPLES, PORTS, PREFIXES_V4, PREFIXES_V6, VLANS, has_rules,
    },
};

/// The cause and action of the most specific rule that matches the packet's ports and addresses.
#[inline(always)]
pub fn find_by_packet(headers: &Headers, tuple: &FiveTupleKey) -> Option<(Cause, u32)> {
    if headers.depth == Depth::Ports
        && let Some(found) = find_by_ports(tuple)
    {
        return Some(found);
    }
    if headers.depth != Depth::Ethernet
        && let Some(action) = find_prefix(tuple)
    {
        return Some((Cause::Prefix, action));
    }
    None
}

/// The action of the rule for the VLAN that the frame's outermost tag names.
#[inline(always)]
pub fn find_vlan(frame: &Frame, outer: Network16) -> Option<(Cause, u32)> {
    if !has_rules(TABLE_VLANS) {
        return None;
    }
    let vlan = headers::outermost_vlan(frame, outer)?;
    // SAFETY: see `find_by_ports`.
    let &action = unsafe { VLANS.get(&vlan) }?;
    Some((Cause::Vlan, action))
}

/// The action of the rule for this EtherType.
#[inline(always)]
pub fn find_ethertype(ethertype: Network16) -> Option<(Cause, u32)> {
    if !has_rules(TABLE_ETHERTYPES) {
        return None;
    }
    // SAFETY: see `find_by_ports`.
    let &action = unsafe { ETHERTYPES.get(&ethertype) }?;
    Some((Cause::EtherType, action))
}

#[inline(always)]
fn find_by_ports(tuple: &FiveTupleKey) -> Option<(Cause, u32)> {
    // SAFETY: this holds for each lookup. If a rule is removed meanwhile, its element may be
    // reused, so the action may be that of a rule newer than the frame. The action is one aligned
    // word, and every action is sound.
    if has_rules(TABLE_FIVE_TUPLES)
        && let Some(&action) = unsafe { FIVE_TUPLES.get(tuple) }
    {
        return Some((Cause::FiveTuple, action));
    }
    // Each key is made only when its table is looked into.
    if has_rules(TABLE_DESTINATIONS) {
        let &FiveTupleKey {
            dst,
            dst_port,
            protocol,
            family,
            ..
        } = tuple;
        let key = DestinationKey {
            dst,
            dst_port,
            protocol,
            family,
        };
        // SAFETY: as above.
        if let Some(&action) = unsafe { DESTINATIONS.get(&key) } {
            return Some((Cause::Destination, action));
        }
    }
    if has_rules(TABLE_PORTS) {
        let key = PortKey {
            dst_port: tuple.dst_port,
            protocol: tuple.protocol,
            zero: 0,
        };
        // SAFETY: as above.
        if let Some(&action) = unsafe { PORTS.get(&key) } {
            return Some((Cause::Port, action));
        }
    }
    None
}

#[inline(always)]
fn find_prefix(tuple: &FiveTupleKey) -> Option<u32> {
    let address = tuple.dst.bytes();
    if tuple.family == FAMILY_IPV4 {
        if !has_rules(TABLE_PREFIXES_V4) {
            return None;
        }
        let [a, b, c, d, ..] = address;
        PREFIXES_V4.get(&Key::new(32, [a, b, c, d])).copied()
    } else {
        if !has_rules(TABLE_PREFIXES_V6) {
            return None;
        }
        PREFIXES_V6.get(&Key::new(128, address)).copied()
    }
}
