//! The match of a rule, and its form in the program's maps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::layout::{
    Address, DestinationKey, ETHERTYPE_MIN, FAMILY_IPV4, FAMILY_IPV6, FiveTupleKey, Network16,
    PortKey, TABLE_DESTINATIONS, TABLE_ETHERTYPES, TABLE_FIVE_TUPLES, TABLE_PORTS,
    TABLE_PREFIXES_V4, TABLE_PREFIXES_V6, TABLE_VLANS, VLAN_ID_MASK,
};

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// The frames that a rule matches. Numbers are in host byte order here and in network byte order in
/// the maps.
///
/// If several keys match a frame, the first in this list wins. Among prefixes the longest wins. The
/// program parses frames behind one or two VLAN tags. A later fragment has no ports, so only the
/// last three kinds can match it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// One connection, one direction.
    FiveTuple {
        /// IP protocol, 6 (TCP) or 17 (UDP).
        proto: u8,
        /// Source address, of the same family as `dst`.
        src: IpAddr,
        /// Source port.
        src_port: u16,
        /// Destination address.
        dst: IpAddr,
        /// Destination port.
        dst_port: u16,
    },
    /// Everything sent to one address and port.
    Destination {
        /// IP protocol, 6 (TCP) or 17 (UDP).
        proto: u8,
        /// Destination address.
        dst: IpAddr,
        /// Destination port.
        dst_port: u16,
    },
    /// Everything sent to one port at any address.
    Port {
        /// IP protocol, 6 (TCP) or 17 (UDP).
        proto: u8,
        /// Destination port.
        dst_port: u16,
    },
    /// Everything sent to one prefix. Bits behind it do not matter.
    Prefix {
        /// An address of the prefix.
        dst: IpAddr,
        /// Length of the prefix in bits: 0 to 32 (IPv4) or 128 (IPv6).
        len: u8,
    },
    /// Every frame whose outermost tag (0x8100, 0x88a8 or 0x9100) has this VLAN id, regardless of
    /// the contents after the tag.
    Vlan(
        /// The VLAN id, 0 to 4095.
        u16,
    ),
    /// Every frame of one EtherType, 0x0600 to 0xffff; of IPv4 and IPv6 only if well formed.
    EtherType(
        /// The EtherType behind any VLAN tags.
        u16,
    ),
}

/// Why a [`Key`] cannot be a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The protocol has no ports that the program reads.
    #[error("IP protocol {0} has no ports to match: use 6 (TCP) or 17 (UDP)")]
    Protocol(u8),
    /// Source and destination are of different families.
    #[error(
        "source {src} and destination {dst} are of different address families: no packet has such \
         a pair"
    )]
    Families {
        /// The source address.
        src: IpAddr,
        /// The destination address.
        dst: IpAddr,
    },
    /// The prefix is longer than the address.
    #[error("prefix length {len} of {dst}: at most {max} bits")]
    PrefixLength {
        /// The address.
        dst: IpAddr,
        /// The length given.
        len: u8,
        /// The longest possible.
        max: u8,
    },
    /// The number has more than twelve bits.
    #[error("{0} is not a VLAN id: 0 to 4095")]
    Vlan(u16),
    /// The number is not an EtherType.
    #[error("{0:#06x} is not an EtherType: below 0x0600 the field is the length of an LLC frame")]
    EtherType(u16),
}

/// A key in the form of the map that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableKey {
    FiveTuple(FiveTupleKey),
    Destination(DestinationKey),
    Port(PortKey),
    PrefixV4 { bits: u32, address: [u8; 4] },
    PrefixV6 { bits: u32, address: [u8; 16] },
    Vlan(Network16),
    EtherType(Network16),
}

impl TableKey {
    /// Bit of its table in the setting that lists the tables with rules.
    pub(crate) const fn table(&self) -> u32 {
        match self {
            Self::FiveTuple(_) => TABLE_FIVE_TUPLES,
            Self::Destination(_) => TABLE_DESTINATIONS,
            Self::Port(_) => TABLE_PORTS,
            Self::PrefixV4 { .. } => TABLE_PREFIXES_V4,
            Self::PrefixV6 { .. } => TABLE_PREFIXES_V6,
            Self::Vlan(_) => TABLE_VLANS,
            Self::EtherType(_) => TABLE_ETHERTYPES,
        }
    }
}

impl TryFrom<&Key> for TableKey {
    type Error = KeyError;

    fn try_from(key: &Key) -> Result<Self, KeyError> {
        Ok(match *key {
            Key::FiveTuple {
                proto,
                src,
                src_port,
                dst,
                dst_port,
            } => {
                if src.is_ipv4() != dst.is_ipv4() {
                    return Err(KeyError::Families { src, dst });
                }
                Self::FiveTuple(FiveTupleKey {
                    src: address(src),
                    dst: address(dst),
                    src_port: Network16::new(src_port),
                    dst_port: Network16::new(dst_port),
                    protocol: protocol(proto)?,
                    family: family(dst),
                    zero: [0; 2],
                })
            }
            Key::Destination {
                proto,
                dst,
                dst_port,
            } => Self::Destination(DestinationKey {
                dst: address(dst),
                dst_port: Network16::new(dst_port),
                protocol: protocol(proto)?,
                family: family(dst),
            }),
            Key::Port { proto, dst_port } => Self::Port(PortKey {
                dst_port: Network16::new(dst_port),
                protocol: protocol(proto)?,
                zero: 0,
            }),
            Key::Prefix { dst, len } => prefix(dst, len)?,
            Key::Vlan(number) if number > VLAN_ID_MASK => return Err(KeyError::Vlan(number)),
            Key::Vlan(number) => Self::Vlan(Network16::new(number)),
            Key::EtherType(number) if number < ETHERTYPE_MIN => {
                return Err(KeyError::EtherType(number));
            }
            Key::EtherType(number) => Self::EtherType(Network16::new(number)),
        })
    }
}

const fn protocol(proto: u8) -> Result<u8, KeyError> {
    match proto {
        PROTOCOL_TCP | PROTOCOL_UDP => Ok(proto),
        other => Err(KeyError::Protocol(other)),
    }
}

fn address(ip: IpAddr) -> Address {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes = ip.octets(),
    }
    Address::from_bytes(bytes)
}

const fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() {
        FAMILY_IPV4
    } else {
        FAMILY_IPV6
    }
}

/// Clears the bits after the prefix: the kernel ignores them, but would print them in `bpftool map
/// dump`.
fn prefix(dst: IpAddr, len: u8) -> Result<TableKey, KeyError> {
    let max = if dst.is_ipv4() { 32 } else { 128 };
    if len > max {
        return Err(KeyError::PrefixLength { dst, len, max });
    }
    let bits = u32::from(len);
    Ok(match dst {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            TableKey::PrefixV4 {
                bits,
                address: Ipv4Addr::from_bits(ip.to_bits() & mask).octets(),
            }
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            TableKey::PrefixV6 {
                bits,
                address: Ipv6Addr::from_bits(ip.to_bits() & mask).octets(),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn keys_are_in_network_byte_order() {
        let key = Key::FiveTuple {
            proto: 6,
            src: "10.1.2.3".parse().unwrap(),
            src_port: 0x1234,
            dst: "10.4.5.6".parse().unwrap(),
            dst_port: 0x50,
        };
        let TableKey::FiveTuple(raw) = TableKey::try_from(&key).unwrap() else {
            panic!("wrong table")
        };
        assert_eq!(raw.src.bytes()[..5], [10, 1, 2, 3, 0]);
        // As the kernel compares it.
        // SAFETY: the key has no padding.
        let bytes: [u8; 40] = unsafe { std::mem::transmute(raw) };
        assert_eq!(bytes[..5], [10, 1, 2, 3, 0]);
        assert_eq!(bytes[16..21], [10, 4, 5, 6, 0]);
        assert_eq!(bytes[32..], [0x12, 0x34, 0, 0x50, 6, 4, 0, 0]);
    }

    #[test]
    fn equal_bytes_of_two_families_are_two_keys() {
        let key = |dst: &str| {
            TableKey::try_from(&Key::Destination {
                proto: 17,
                dst: dst.parse().unwrap(),
                dst_port: 53,
            })
            .unwrap()
        };
        assert_ne!(key("1.2.3.4"), key("102:304::"));
    }

    #[test]
    fn bits_behind_a_prefix_are_cleared() {
        let prefix = |dst: &str, len| {
            TableKey::try_from(&Key::Prefix {
                dst: dst.parse().unwrap(),
                len,
            })
            .unwrap()
        };
        assert_eq!(
            prefix("10.1.2.3", 8),
            TableKey::PrefixV4 {
                bits: 8,
                address: [10, 0, 0, 0]
            }
        );
        assert_eq!(
            prefix("10.1.2.3", 0),
            TableKey::PrefixV4 {
                bits: 0,
                address: [0; 4]
            }
        );
        assert_eq!(
            prefix("10.1.2.3", 32),
            TableKey::PrefixV4 {
                bits: 32,
                address: [10, 1, 2, 3]
            }
        );
        assert_eq!(
            prefix("ffff::1", 0),
            TableKey::PrefixV6 {
                bits: 0,
                address: [0; 16]
            }
        );
        assert_eq!(prefix("2001:db8::1", 128), prefix("2001:db8::1", 128));
        assert_eq!(prefix("2001:db8::1", 127), prefix("2001:db8::", 127));
    }

    #[test]
    fn impossible_keys_are_refused() {
        let v4 = "10.0.0.1".parse().unwrap();
        let v6 = "::1".parse().unwrap();
        let refused = |key: Key| TableKey::try_from(&key).unwrap_err();
        assert_eq!(
            refused(Key::Port {
                proto: 1,
                dst_port: 7
            }),
            KeyError::Protocol(1)
        );
        assert_eq!(
            refused(Key::FiveTuple {
                proto: 6,
                src: v4,
                src_port: 1,
                dst: v6,
                dst_port: 1
            }),
            KeyError::Families { src: v4, dst: v6 }
        );
        assert_eq!(
            refused(Key::Prefix { dst: v4, len: 33 }),
            KeyError::PrefixLength {
                dst: v4,
                len: 33,
                max: 32
            }
        );
        assert_eq!(
            refused(Key::Prefix { dst: v6, len: 129 }),
            KeyError::PrefixLength {
                dst: v6,
                len: 129,
                max: 128
            }
        );
        assert_eq!(refused(Key::EtherType(0x05ff)), KeyError::EtherType(0x05ff));
        assert!(TableKey::try_from(&Key::EtherType(0x0600)).is_ok());
        assert_eq!(refused(Key::Vlan(4096)), KeyError::Vlan(4096));
        assert!(TableKey::try_from(&Key::Vlan(4095)).is_ok());
    }
}
