//! Packets, and which of them a pipe receives.

use std::{ffi::c_char, net::IpAddr};

use covalent::{Match, Spread, Transport};

use crate::{
    argument::text,
    growing::{growing, growing_value},
    status::{Failure, Result, invalid},
};

/// A received packet in its pipe: one Ethernet frame without FCS, in network byte order. It stays
/// there until it is freed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_packet {
    /// Its bytes.
    pub data: *const u8,
    /// How many.
    pub length_bytes: usize,
}

/// A received packet that may be changed in place until it is sent or discarded: one Ethernet frame
/// without FCS, in network byte order. Its length is fixed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_packet_mut {
    /// Its bytes.
    pub data: *mut u8,
    /// How many.
    pub length_bytes: usize,
}

/// Every frame that no other match takes.
pub const COVALENT_MATCH_ANY: u32 = 0;
/// Every frame of `ethertype`. A frame of IPv4 (0x0800) or IPv6 (0x86dd) whose headers are
/// malformed or cut short matches only its VLAN and `COVALENT_MATCH_ANY`.
pub const COVALENT_MATCH_ETHERTYPE: u32 = 1;
/// Everything sent to the prefix `dst`, for example `10.1.0.0/16`.
pub const COVALENT_MATCH_PREFIX: u32 = 2;
/// Everything sent to `dst_port`.
pub const COVALENT_MATCH_PORT: u32 = 3;
/// Everything sent to the address `dst` and `dst_port`.
pub const COVALENT_MATCH_DESTINATION: u32 = 4;
/// Packets from `src` and `src_port` to `dst` and `dst_port`.
pub const COVALENT_MATCH_FIVE_TUPLE: u32 = 5;
/// Every frame whose outermost tag has the VLAN id `vlan`.
pub const COVALENT_MATCH_VLAN: u32 = 6;

/// Pipes share a match by flow. The Toeplitz hash of receive-side scaling selects the pipe, so a
/// flow stays in one pipe and in order.
pub const COVALENT_SPREAD_HASH: u32 = 1;
/// Pipes share a match one frame after the other, in turn.
pub const COVALENT_SPREAD_ROUND_ROBIN: u32 = 2;

/// TCP.
pub const COVALENT_TCP: u32 = 6;
/// UDP.
pub const COVALENT_UDP: u32 = 17;

/// The frames that a pipe receives. If several matches apply, the most specific one wins:
/// five-tuple, destination, port, longest prefix, VLAN, EtherType, any. Zeros are
/// COVALENT_MATCH_ANY.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_match {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// One of COVALENT_MATCH_…. It selects the fields below that apply. The others must be 0.
    pub kind: u32,
    /// COVALENT_TCP or COVALENT_UDP, where ports count.
    pub transport: u32,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// EtherType, 0x0600 or more.
    pub ethertype: u16,
    /// VLAN id, 0 to 4095.
    pub vlan: u16,
    /// Source address as text, closed by a zero.
    pub src: *const c_char,
    /// Destination address or prefix as text, closed by a zero.
    pub dst: *const c_char,
}

growing!(covalent_match, 40);

/// Converts a C match.
///
/// # Safety
/// A non-null pointer points to a match. The strings of the fields that apply are NUL-terminated.
pub(crate) unsafe fn matches(matches: *const covalent_match) -> Result<Match> {
    // SAFETY: the caller's word.
    let wanted = unsafe { growing_value(matches, "match")? };
    let transport = || match wanted.transport {
        COVALENT_TCP => Ok(Transport::Tcp),
        COVALENT_UDP => Ok(Transport::Udp),
        other => Err(invalid(format!(
            "match.transport {other}: expected COVALENT_TCP or COVALENT_UDP"
        ))),
    };
    // SAFETY: the caller's word, for each text that counts.
    let dst = || unsafe { text(wanted.dst, "match.dst") };
    let address = |text: &str| -> Result<IpAddr> { text.parse().map_err(|_| not_an_address(text)) };
    refuse_unused(&wanted)?;
    Ok(match wanted.kind {
        COVALENT_MATCH_ANY => Match::Any,
        COVALENT_MATCH_ETHERTYPE => Match::EtherType {
            ethertype: wanted.ethertype,
        },
        COVALENT_MATCH_VLAN => Match::Vlan { vlan: wanted.vlan },
        COVALENT_MATCH_PREFIX => {
            let dst = dst()?;
            Match::Prefix {
                dst: dst.parse().map_err(|_| {
                    invalid(format!(
                        "match.dst `{dst}` is no prefix such as 10.1.0.0/16"
                    ))
                })?,
            }
        }
        COVALENT_MATCH_PORT => Match::Port {
            transport: transport()?,
            dst_port: wanted.dst_port,
        },
        COVALENT_MATCH_DESTINATION => Match::Destination {
            transport: transport()?,
            dst: address(dst()?)?,
            dst_port: wanted.dst_port,
        },
        COVALENT_MATCH_FIVE_TUPLE => Match::FiveTuple {
            transport: transport()?,
            // SAFETY: as above.
            src: address(unsafe { text(wanted.src, "match.src")? })?,
            src_port: wanted.src_port,
            dst: address(dst()?)?,
            dst_port: wanted.dst_port,
        },
        other => {
            return Err(invalid(format!(
                "match.kind {other} is none of COVALENT_MATCH_…"
            )));
        }
    })
}

/// Refuses a field that the kind does not use: ignored, it would match more than the caller meant.
fn refuse_unused(wanted: &covalent_match) -> Result<()> {
    let (kind, used): (_, &[&str]) = match wanted.kind {
        COVALENT_MATCH_ANY => ("ANY", &[]),
        COVALENT_MATCH_ETHERTYPE => ("ETHERTYPE", &["ethertype"]),
        COVALENT_MATCH_VLAN => ("VLAN", &["vlan"]),
        COVALENT_MATCH_PREFIX => ("PREFIX", &["dst"]),
        COVALENT_MATCH_PORT => ("PORT", &["transport", "dst_port"]),
        COVALENT_MATCH_DESTINATION => ("DESTINATION", &["transport", "dst", "dst_port"]),
        // A five-tuple leaves only these two, and an unknown kind is refused by name.
        _ => (
            "FIVE_TUPLE",
            &["transport", "src", "src_port", "dst", "dst_port"],
        ),
    };
    let set = [
        ("transport", wanted.transport != 0),
        ("src_port", wanted.src_port != 0),
        ("dst_port", wanted.dst_port != 0),
        ("ethertype", wanted.ethertype != 0),
        ("vlan", wanted.vlan != 0),
        ("src", !wanted.src.is_null()),
        ("dst", !wanted.dst.is_null()),
    ];
    match set.iter().find(|(name, set)| *set && !used.contains(name)) {
        Some((name, _)) if wanted.kind <= COVALENT_MATCH_VLAN => Err(invalid(format!(
            "match.{name} is set, and COVALENT_MATCH_{kind} does not use it: set it to 0, or use \
             another kind"
        ))),
        _ => Ok(()),
    }
}

/// The spread that C means.
pub(crate) fn spread(number: u32) -> Result<Spread> {
    match number {
        COVALENT_SPREAD_HASH => Ok(Spread::Hash),
        COVALENT_SPREAD_ROUND_ROBIN => Ok(Spread::RoundRobin),
        other => Err(invalid(format!(
            "spread {other}: expected COVALENT_SPREAD_HASH or COVALENT_SPREAD_ROUND_ROBIN"
        ))),
    }
}

fn not_an_address(text: &str) -> Failure {
    invalid(format!("`{text}` in a match is no IP address"))
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn a_field_that_the_kind_does_not_use_is_refused() {
        let plain = covalent_match {
            struct_bytes: size_of::<covalent_match>() as u32,
            kind: COVALENT_MATCH_ETHERTYPE,
            transport: 0,
            src_port: 0,
            dst_port: 0,
            ethertype: 0x88b6,
            vlan: 0,
            src: ptr::null(),
            dst: ptr::null(),
        };
        // SAFETY: the match is valid, and its texts are null.
        assert!(unsafe { matches(&raw const plain) }.is_ok());
        let tagged = covalent_match { vlan: 7, ..plain };
        // SAFETY: as above.
        let refused = unsafe { matches(&raw const tagged) }.err();
        let text = refused.map(|refused| refused.text().to_owned());
        let expected = "match.vlan is set, and COVALENT_MATCH_ETHERTYPE does not use it";
        assert!(text.is_some_and(|text| text.starts_with(expected)));
    }
}
