//! Steering rules: which frames come to the dataplane, and which pipe receives them.

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

/// What a frame must look like for a rule to apply. One and two VLAN tags are looked through.
///
/// Where several rules apply the most specific wins: five-tuple, destination, port, longest prefix, EtherType, any.
/// A later fragment of an IP packet carries no ports, so only prefix, EtherType and any can match it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "match", rename_all = "snake_case", deny_unknown_fields)]
pub enum Match {
    /// One connection, exactly.
    FiveTuple {
        /// Transport protocol.
        transport: Transport,
        /// Source address; the family must be that of `dst`.
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
    /// Everything sent to one port, whatever the address.
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
    /// Every frame of one EtherType (behind any VLAN tags), 0x0600 to 0xffff.
    EtherType {
        /// The EtherType, for example 0x0806 for ARP.
        ethertype: u16,
    },
    /// Every frame that no other rule matched, runts and LLC frames included.
    Any,
}

/// What happens to a frame that a configured rule matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The kernel's network stack gets the frame.
    Kernel,
    /// The dataplane gets the frame and looks for a pipe that is bound to it.
    Dataplane,
}

/// A configured steering rule. A pipe's binding is the same thing with [`Action::Dataplane`] and that pipe as target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// Frames that the rule is about.
    #[serde(flatten)]
    pub matches: Match,
    /// Where they go.
    pub action: Action,
}

/// What is wrong with a [`Match`] whose parts are well-formed each by itself.
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
        }
    }
}

impl Match {
    /// Checks what the types alone do not: families, prefix bits, the range of EtherTypes.
    ///
    /// # Errors
    /// [`BadMatch`] says what is wrong.
    pub fn check(&self) -> Result<(), BadMatch> {
        match *self {
            Self::FiveTuple { src, dst, .. } if src.is_ipv4() != dst.is_ipv4() => {
                Err(BadMatch::MixedFamilies { src, dst })
            }
            Self::Prefix { dst } if dst.trunc() != dst => Err(BadMatch::HostBits {
                given: dst,
                meant: dst.trunc(),
            }),
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
        assert_eq!(Match::Any.check(), Ok(()));
    }
}
