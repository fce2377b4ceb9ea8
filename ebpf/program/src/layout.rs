//! Definitions that the program and its loader share: map capacities, keys, settings and counters.
//!
//! This file is compiled twice, into the BPF program and into the loader, so the two cannot
//! disagree. Addresses and ports are in network byte order: the program copies them out of the
//! frame without byte swaps. No key has padding. The alignment of keys is larger than their fields
//! need, so that they are written and compared in wide words.

/// Receive queues of one interface that may have sockets: queue ids 0 to 63.
pub const QUEUES_MAX: u32 = 64;
/// Places for sockets: two for each queue.
pub const SOCKETS_MAX: u32 = 2 * QUEUES_MAX;

/// Index of a queue's socket in the socket map: the one for link frames, or the one for all others.
/// For a queue from [`QUEUES_MAX`] on the index is beyond the map.
#[inline(always)]
pub const fn socket_place(queue: u32, link: bool) -> u32 {
    queue.saturating_mul(2).saturating_add(link as u32)
}

/// Five-tuple rules that fit.
pub const FIVE_TUPLES_MAX: u32 = 16_384;
/// Destination rules that fit.
pub const DESTINATIONS_MAX: u32 = 4_096;
/// Port rules that fit.
pub const PORTS_MAX: u32 = 4_096;
/// Prefix rules that fit, for each address family.
pub const PREFIXES_MAX: u32 = 4_096;
/// VLAN rules that fit: one for each VLAN id.
pub const VLANS_MAX: u32 = 4_096;
/// EtherType rules that fit.
pub const ETHERTYPES_MAX: u32 = 256;

/// Rule value: the kernel's network stack gets the frame.
pub const ACTION_KERNEL: u32 = 0;
/// Rule value: the dataplane gets the frame, if its queue has a socket.
pub const ACTION_DATAPLANE: u32 = 1;
/// Rule value: the frame is dropped.
pub const ACTION_DROP: u32 = 2;

/// Settings slot: EtherType of link frames in host byte order. 0, which is never an EtherType,
/// means none.
pub const SETTING_LINK_ETHERTYPE: u32 = 0;
/// Settings slot: action for a frame that no rule matches, one of the `ACTION_…` values.
pub const SETTING_DEFAULT_ACTION: u32 = 1;
/// Settings slot: the tables that have rules, as the sum of their `TABLE_…` bits. The program skips
/// the other tables, which saves more time than everything else it does.
pub const SETTING_TABLES: u32 = 2;
/// Number of settings slots.
pub const SETTING_SLOTS: u32 = 3;

/// Bit of the five-tuple rules in [`SETTING_TABLES`].
pub const TABLE_FIVE_TUPLES: u32 = 1 << 0;
/// Bit of the destination rules.
pub const TABLE_DESTINATIONS: u32 = 1 << 1;
/// Bit of the port rules.
pub const TABLE_PORTS: u32 = 1 << 2;
/// Bit of the IPv4 prefix rules.
pub const TABLE_PREFIXES_V4: u32 = 1 << 3;
/// Bit of the IPv6 prefix rules.
pub const TABLE_PREFIXES_V6: u32 = 1 << 4;
/// Bit of the EtherType rules.
pub const TABLE_ETHERTYPES: u32 = 1 << 5;
/// Bit of the VLAN rules.
pub const TABLE_VLANS: u32 = 1 << 6;
/// Number of rule tables.
pub const TABLES: usize = 7;

/// The bits of a tag's control information that are its VLAN id (IEEE 802.1Q, clause 9.6).
pub const VLAN_ID_MASK: u16 = 0x0fff;

/// The smallest EtherType (IEEE 802.3, clause 3.2.6). A smaller value is the length of an LLC
/// frame.
pub const ETHERTYPE_MIN: u16 = 0x0600;

/// [`FiveTupleKey::family`] and [`DestinationKey::family`] of IPv4.
pub const FAMILY_IPV4: u8 = 4;
/// [`FiveTupleKey::family`] and [`DestinationKey::family`] of IPv6.
pub const FAMILY_IPV6: u8 = 6;

/// Sixteen bits as they are on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Network16(u16);

impl Network16 {
    /// From a number in host byte order.
    pub const fn new(number: u16) -> Self {
        Self(number.to_be())
    }

    /// The number in host byte order.
    #[inline(always)]
    pub const fn get(self) -> u16 {
        u16::from_be(self.0)
    }
}

/// An IP address in network byte order. IPv4 uses the first four bytes and leaves the others zero.
///
/// It consists of two-byte words, the alignment of everything in an Ethernet frame. A copy takes
/// eight loads instead of sixteen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Address([Network16; 8]);

impl Address {
    /// From the first two words of an address that has no more.
    #[inline(always)]
    pub const fn from_v4([high, low]: [Network16; 2]) -> Self {
        const ZERO: Network16 = Network16(0);
        Self([high, low, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO])
    }

    /// From the bytes in the order of the wire.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let mut words = [Network16(0); 8];
        let mut index = 0;
        while index < words.len() {
            words[index] = Network16(u16::from_ne_bytes([bytes[2 * index], bytes[2 * index + 1]]));
            index += 1;
        }
        Self(words)
    }

    /// The bytes in the order of the wire.
    #[inline(always)]
    pub const fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut index = 0;
        while index < self.0.len() {
            [bytes[2 * index], bytes[2 * index + 1]] = self.0[index].0.to_ne_bytes();
            index += 1;
        }
        bytes
    }
}

/// Key of a five-tuple rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C, align(8))]
pub struct FiveTupleKey {
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Source port.
    pub src_port: Network16,
    /// Destination port.
    pub dst_port: Network16,
    /// IP protocol number, 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// [`FAMILY_IPV4`] or [`FAMILY_IPV6`]: 1.2.3.4 and 102:304:: have the same address bytes.
    pub family: u8,
    /// Always zero; makes the key a multiple of four bytes, which the kernel hashes faster.
    pub zero: [u8; 2],
}

/// Key of a destination rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C, align(4))]
pub struct DestinationKey {
    /// Destination address.
    pub dst: Address,
    /// Destination port.
    pub dst_port: Network16,
    /// IP protocol number, 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// [`FAMILY_IPV4`] or [`FAMILY_IPV6`].
    pub family: u8,
}

/// Key of a port rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C, align(4))]
pub struct PortKey {
    /// Destination port.
    pub dst_port: Network16,
    /// IP protocol number, 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// Always zero.
    pub zero: u8,
}

const _: () = assert!(
    size_of::<FiveTupleKey>() == 40
        && size_of::<DestinationKey>() == 20
        && size_of::<PortKey>() == 4
);

/// Why a frame went where it went. Each frame is counted once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Cause {
    /// It is a link frame.
    Link = 0,
    /// A five-tuple rule matched.
    FiveTuple = 1,
    /// A destination rule matched.
    Destination = 2,
    /// A port rule matched.
    Port = 3,
    /// A prefix rule matched.
    Prefix = 4,
    /// A VLAN rule matched.
    Vlan = 5,
    /// An EtherType rule matched.
    EtherType = 6,
    /// No rule matched.
    Default = 7,
    /// It is shorter than an Ethernet header.
    Runt = 8,
    /// A header that it announces is missing or contradicts itself, and no VLAN rule matched.
    Unparsable = 9,
}

/// Number of [`Cause`]s.
pub const CAUSES: u32 = 10;

/// Counter of frames that `cause` gave to the dataplane.
#[inline(always)]
pub const fn to_dataplane(cause: Cause) -> u32 {
    cause as u32 * 3
}

/// Counter of frames that `cause` gave to the kernel.
#[inline(always)]
pub const fn to_kernel(cause: Cause) -> u32 {
    cause as u32 * 3 + 1
}

/// Counter of frames that `cause` dropped.
#[inline(always)]
pub const fn dropped(cause: Cause) -> u32 {
    cause as u32 * 3 + 2
}

/// Counter of frames for the dataplane that went to the kernel because their queue has no socket.
pub const COUNTER_NO_SOCKET: u32 = CAUSES * 3;
/// Counter of frames for the dataplane that went to the kernel because the kernel refused the
/// redirect itself.
pub const COUNTER_REDIRECT_REFUSED: u32 = CAUSES * 3 + 1;
/// Number of counters.
pub const COUNTERS: usize = CAUSES as usize * 3 + 2;

/// One CPU's counters.
pub type CounterBlock = [u64; COUNTERS];
