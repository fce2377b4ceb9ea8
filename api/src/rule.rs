//! Steering rules: which frames come to the dataplane, and which pipe receives them.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

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

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FiveTuple { transport, src, src_port, dst, dst_port } => {
                write!(f, "{transport:?} {src}:{src_port} -> {dst}:{dst_port}")
            }
            Self::Destination { transport, dst, dst_port } => write!(f, "{transport:?} -> {dst}:{dst_port}"),
            Self::Port { transport, dst_port } => write!(f, "{transport:?} -> port {dst_port}"),
            Self::Prefix { dst } => write!(f, "-> {dst}"),
            Self::EtherType { ethertype } => write!(f, "EtherType {ethertype:#06x}"),
            Self::Any => f.write_str("any frame"),
        }
    }
}
