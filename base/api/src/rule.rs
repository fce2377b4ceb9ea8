//! Steering rules: the frames that reach the dataplane, and the pipe that receives each.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The least EtherType: smaller numbers in its place are lengths (IEEE 802.3, 3.2.6).
pub const ETHERTYPE_MIN: u16 = 0x0600;

/// EtherTypes of VLAN tags: 802.1Q and 802.1ad.
pub const VLAN_ETHERTYPES: [u16; 2] = [0x8100, 0x88a8];

/// A transport protocol that has ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP, IP protocol 6.
    Tcp,
    /// UDP, IP protocol 17.
    Udp,
}

impl Transport {
    /// The IP protocol number (IANA "Protocol Numbers").
    #[must_use]
    pub const fn ip_protocol(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// Largest VLAN id: the field has twelve bits (IEEE 802.1Q, 9.6).
pub const VLAN_MAX: u16 = 0x0fff;

/// Condition on a frame for a rule to apply. The match skips one or two VLAN tags.
///
/// If several rules apply, the most specific wins: five-tuple, destination, port, longest prefix,
/// VLAN, EtherType, any. Address and port matches apply in every VLAN. A VLAN rule receives all
/// remaining frames of its VLAN, including ARP. A later fragment of an IP packet carries no ports,
/// so only prefix, VLAN, EtherType and any can match it. A frame of IPv4 or IPv6 whose headers are
/// malformed or cut short matches only its VLAN and any, not its EtherType.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "match", rename_all = "snake_case", deny_unknown_fields)]
pub enum Match {
    /// One connection, exactly.
    FiveTuple {
        /// Transport protocol.
        transport: Transport,
        /// Source address. Its family must be that of `dst`.
        src: IpAddr,
        /// Source port, 0 to 65535.
        src_port: u16,
        /// Destination address.
        dst: IpAddr,
        /// Destination port, 0 to 65535.
        dst_port: u16,
    },
    /// Everything sent to one address and port.
    Destination {
        /// Transport protocol.
        transport: Transport,
        /// Destination address.
        dst: IpAddr,
        /// Destination port, 0 to 65535.
        dst_port: u16,
    },
    /// All packets sent to one port, at any address.
    Port {
        /// Transport protocol.
        transport: Transport,
        /// Destination port, 0 to 65535.
        dst_port: u16,
    },
    /// Everything sent to one prefix; the longest prefix wins.
    Prefix {
        /// Destination prefix, for example `10.1.0.0/16` or `2001:db8::/32`.
        dst: IpNet,
    },
    /// Every frame whose outermost tag (0x8100, 0x88a8 or 0x9100) has this VLAN id, including LLC
    /// frames and damaged packets behind the tag. The id of an inner tag is ignored. Only a tag in
    /// the frame's bytes counts: the match does not see a tag that a NIC or a VLAN device keeps in
    /// metadata.
    Vlan {
        /// The VLAN id, 0 (a tag that carries a priority only) to 4095.
        vlan: u16,
    },
    /// Every frame of one EtherType (behind any VLAN tags), 0x0600 to 0xffff. Of IPv4 (0x0800) and
    /// IPv6 (0x86dd) only the frames whose IP headers are well formed.
    EtherType {
        /// The EtherType, for example 0x0806 for ARP.
        ethertype: u16,
    },
    /// Every frame that no other rule matched, runts and LLC frames included.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Any,
}

/// Action for a frame that a configured rule matched, or that nothing matched (`dataplane.miss`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The kernel's network stack gets the frame.
    Kernel,
    /// The dataplane gets the frame and looks for a pipe that is bound to it.
    Dataplane,
    /// The frame is dropped and counted: by the XDP program where there is one, else by the lane.
    Drop,
}

/// How the pipes of a set share the frames of one match.
///
/// Several pipes may hold the same match on the same port as a *set*, each bound with the same
/// policy. With [`Match::Any`] it is a fallback set, which receives all frames that nothing else
/// matches. The pipes may belong to several sessions of the port's lane, but only to one user. A
/// set exists from its first binding to the end of its last one. A single pipe receives all frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// By flow: the Toeplitz hash of receive-side scaling selects one of [`SPREAD_BUCKETS`]
    /// buckets, and each bucket belongs to one pipe. A flow therefore stays in one pipe, in order.
    ///
    /// The hash covers source and destination address. If the packet is unfragmented TCP or UDP, it
    /// also covers the ports. Without IP, it covers the destination and source MAC addresses. A
    /// frame of less than 14 bytes has hash 0. VLAN tags are not hashed. All fragments, including
    /// the first, are hashed by addresses only, so they reach the same pipe.
    ///
    /// When a pipe leaves, the others receive equal shares of its buckets, and no other flow moves.
    /// When the `n`-th pipe joins, it takes one `n`-th of the buckets, in equal shares from the
    /// others, and no flow moves between those.
    Hash,
    /// Frame by frame, to each pipe in turn, regardless of the flow. The frames of a flow are in
    /// order only within a pipe.
    RoundRobin,
}

/// Buckets that the flows of a [`Spread::Hash`] set fall into: the hash's low bits.
pub const SPREAD_BUCKETS: usize = 1024;

/// Most pipes of one set. With that many, each still has four buckets.
pub const SPREAD_PIPES_MAX: usize = 256;

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "hash",
            Self::RoundRobin => "round_robin",
        })
    }
}

/// A configured steering rule. A pipe's binding is a rule with [`Action::Dataplane`] and that pipe
/// as target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// Frames that the rule is about.
    #[serde(flatten)]
    pub matches: Match,
    /// Where they go.
    pub action: Action,
}

/// Error of a [`Match`] whose individual parts are well-formed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMatch {
    /// The two addresses of a five-tuple are of different families, so no frame can have both.
    #[error(
        "`src` {src} and `dst` {dst} are of different families; give both as IPv4 or both as IPv6"
    )]
    MixedFamilies {
        /// Source address.
        src: IpAddr,
        /// Destination address.
        dst: IpAddr,
    },
    /// The number is a length field and not an EtherType.
    #[error("{0:#06x} is a length (IEEE 802.3) and not an EtherType; expected 0x0600 to 0xffff")]
    Length(u16),
    /// VLAN tags are looked through, so no frame shows this EtherType.
    #[error("{0:#06x} is a VLAN tag; tags are looked through, so give the EtherType behind them")]
    VlanTag(u16),
    /// The number has more than the twelve bits of a VLAN id.
    #[error("{0} is not a VLAN id; expected 0 to 4095")]
    VlanId(u16),
    /// The prefix has bits set behind its length.
    #[error("{given} has bits set behind its prefix length; did you mean `{meant}`?")]
    HostBits {
        /// The prefix as given.
        given: IpNet,
        /// The same with those bits cleared.
        meant: IpNet,
    },
}

impl BadMatch {
    /// The field that is to be changed.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::MixedFamilies { .. } | Self::HostBits { .. } => "dst",
            Self::Length(_) | Self::VlanTag(_) => "ethertype",
            Self::VlanId(_) => "vlan",
        }
    }
}

impl Match {
    /// Checks the constraints that the types do not enforce: families, prefix bits, the ranges of
    /// VLAN ids and EtherTypes.
    ///
    /// # Errors
    /// [`BadMatch`] describes the problem.
    pub fn check(&self) -> Result<(), BadMatch> {
        match *self {
            Self::FiveTuple { src, dst, .. } if src.is_ipv4() != dst.is_ipv4() => {
                Err(BadMatch::MixedFamilies { src, dst })
            }
            Self::Prefix { dst } if dst.trunc() != dst => Err(BadMatch::HostBits {
                given: dst,
                meant: dst.trunc(),
            }),
            Self::Vlan { vlan } if vlan > VLAN_MAX => Err(BadMatch::VlanId(vlan)),
            Self::EtherType { ethertype } if ethertype < ETHERTYPE_MIN => {
                Err(BadMatch::Length(ethertype))
            }
            Self::EtherType { ethertype } if VLAN_ETHERTYPES.contains(&ethertype) => {
                Err(BadMatch::VlanTag(ethertype))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Dataplane => "dataplane",
            Self::Drop => "drop",
        })
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FiveTuple {
                transport,
                src,
                src_port,
                dst,
                dst_port,
            } => {
                write!(f, "{transport:?} {src}:{src_port} -> {dst}:{dst_port}")
            }
            Self::Destination {
                transport,
                dst,
                dst_port,
            } => write!(f, "{transport:?} -> {dst}:{dst_port}"),
            Self::Port {
                transport,
                dst_port,
            } => write!(f, "{transport:?} -> port {dst_port}"),
            Self::Prefix { dst } => write!(f, "-> {dst}"),
            Self::Vlan { vlan } => write!(f, "VLAN {vlan}"),
            Self::EtherType { ethertype } => write!(f, "EtherType {ethertype:#06x}"),
            Self::Any => f.write_str("any frame"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_that_no_frame_can_have_is_refused() {
        let tuple = |src: &str, dst: &str| Match::FiveTuple {
            transport: Transport::Udp,
            src: src.parse().expect("an address"),
            src_port: 1,
            dst: dst.parse().expect("an address"),
            dst_port: 2,
        };
        let prefix = |dst: &str| Match::Prefix {
            dst: dst.parse().expect("a prefix"),
        };
        assert_eq!(tuple("192.0.2.1", "192.0.2.2").check(), Ok(()));
        assert!(matches!(
            tuple("192.0.2.1", "2001:db8::1").check(),
            Err(BadMatch::MixedFamilies { .. })
        ));
        assert_eq!(prefix("10.1.0.0/16").check(), Ok(()));
        let error = prefix("10.1.2.3/16").check().expect_err("host bits");
        assert!(error.to_string().contains("`10.1.0.0/16`"), "{error}");
        assert_eq!(Match::EtherType { ethertype: 0x0600 }.check(), Ok(()));
        assert_eq!(
            Match::EtherType { ethertype: 0x05ff }.check(),
            Err(BadMatch::Length(0x05ff))
        );
        assert_eq!(
            Match::EtherType { ethertype: 0x8100 }.check(),
            Err(BadMatch::VlanTag(0x8100))
        );
        assert_eq!(Match::Vlan { vlan: 0 }.check(), Ok(()));
        assert_eq!(Match::Vlan { vlan: 4095 }.check(), Ok(()));
        let error = Match::Vlan { vlan: 4096 }.check().expect_err("13 bits");
        assert_eq!((&error, error.key()), (&BadMatch::VlanId(4096), "vlan"));
        assert_eq!(Match::Any.check(), Ok(()));
    }
}
