//! Parses the header fields that rules match: EtherType, addresses, ports.

use crate::{
    frame::{Frame, Wire},
    layout::{
        Address, ETHERTYPE_MIN, FAMILY_IPV4, FAMILY_IPV6, FiveTupleKey, Network16, VLAN_ID_MASK,
    },
};

/// Bytes of destination, source and EtherType.
pub const ETHERNET_BYTES: usize = 14;
/// Where the EtherType of an untagged frame stands.
pub const ETHERTYPE_OFFSET: usize = 12;

const VLAN_TAGS_MAX: u32 = 2;
const VLAN_TAG_BYTES: usize = 4;
const IPV6_EXTENSIONS_MAX: u32 = 8;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

const PROTOCOL_HOP_BY_HOP: u8 = 0;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ROUTING: u8 = 43;
const PROTOCOL_FRAGMENT: u8 = 44;
const PROTOCOL_AUTHENTICATION: u8 = 51;
const PROTOCOL_DESTINATION_OPTIONS: u8 = 60;

/// IPv4 header without options (RFC 791, section 3.1), in the order of the wire.
#[derive(Clone, Copy)]
#[repr(C)]
struct Ipv4Header {
    version_and_words: u8,
    _service: u8,
    total_bytes: Network16,
    _identification: Network16,
    flags_and_fragment_offset: Network16,
    _time_to_live: u8,
    protocol: u8,
    _checksum: Network16,
    src: [Network16; 2],
    dst: [Network16; 2],
}
// SAFETY: fields of one or two bytes without gaps.
unsafe impl Wire for Ipv4Header {}
const _: () = assert!(size_of::<Ipv4Header>() == 20);

/// Fixed IPv6 header without its addresses (RFC 8200, section 3).
#[derive(Clone, Copy)]
#[repr(C)]
struct Ipv6Header {
    version_and_class: u8,
    _class_and_label: [u8; 3],
    _payload_bytes: Network16,
    next: u8,
    _hop_limit: u8,
    src: Address,
    dst: Address,
}
// SAFETY: fields of one, two, three and sixteen bytes without gaps.
unsafe impl Wire for Ipv6Header {}
const _: () = assert!(size_of::<Ipv6Header>() == 40);

/// The first eight bytes of an IPv6 extension header: no such header is shorter.
#[derive(Clone, Copy)]
#[repr(C)]
struct ExtensionHeader {
    next: u8,
    length: u8,
    /// In a fragment header: offset in units of eight bytes in the upper thirteen bits.
    fragment_offset: Network16,
    _rest: [u8; 4],
}
// SAFETY: fields of one, two and four bytes without gaps.
unsafe impl Wire for ExtensionHeader {}
const _: () = assert!(size_of::<ExtensionHeader>() == 8);

/// How the length of an extension header follows from its length field.
#[derive(Clone, Copy)]
struct ExtensionLength {
    /// Bytes for each unit that the field counts.
    unit_bytes: u8,
    /// Bytes that it does not count; 0 for a protocol that is not such a header.
    fixed_bytes: u8,
}

impl ExtensionLength {
    #[inline(always)]
    fn bytes(self, field: u8) -> usize {
        // The mask changes nothing (at most 255 * 8 + 8 bytes) but proves the bound to the
        // verifier.
        (usize::from(self.fixed_bytes) + usize::from(field) * usize::from(self.unit_bytes)) & 0xfff
    }
}

/// Indexed by protocol number. The verifier follows every arm of a `match` through the rest of the
/// loop, and 4 arms in 8 rounds exceed its limit. There is an entry for every byte value: the
/// verifier of Linux 6.1 forgets a comparison with a smaller length and refuses the program.
static EXTENSIONS: [ExtensionLength; 256] = {
    let mut table = [ExtensionLength {
        unit_bytes: 0,
        fixed_bytes: 0,
    }; 256];
    // RFC 8200, section 4: in units of eight bytes, not counting the first.
    let ordinary = ExtensionLength {
        unit_bytes: 8,
        fixed_bytes: 8,
    };
    table[PROTOCOL_HOP_BY_HOP as usize] = ordinary;
    table[PROTOCOL_ROUTING as usize] = ordinary;
    table[PROTOCOL_DESTINATION_OPTIONS as usize] = ordinary;
    table[PROTOCOL_FRAGMENT as usize] = ExtensionLength {
        unit_bytes: 0,
        fixed_bytes: 8,
    };
    // RFC 4302, section 2.2: in words of four bytes, minus two.
    table[PROTOCOL_AUTHENTICATION as usize] = ExtensionLength {
        unit_bytes: 4,
        fixed_bytes: 8,
    };
    table
};

/// Source and destination port, where TCP and UDP have them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Ports {
    src: Network16,
    dst: Network16,
}
// SAFETY: two fields of two bytes.
unsafe impl Wire for Ports {}

/// A frame with an EtherType and complete headers.
pub struct Headers {
    /// EtherType behind the VLAN tags, not under [`ETHERTYPE_MIN`].
    pub ethertype: Network16,
    /// How much of the tuple the frame filled.
    pub depth: Depth,
}

/// How deep the headers of a frame go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Not IP.
    Ethernet,
    /// Addresses, no ports: another protocol, a later fragment, ports cut off.
    Addresses,
    /// Addresses and ports.
    Ports,
}

/// Why a frame has no headers to match.
pub enum NoHeaders {
    /// LLC: the field holds a length, so there is no EtherType.
    NoEtherType,
    /// A header is cut short or contradicts itself.
    Unparsable,
}

/// Parses the headers of a frame whose untagged EtherType field is `ethertype`. Fills `tuple` with
/// the fields that are present.
///
/// `tuple` must be all zero.
#[inline(always)]
pub fn parse(
    frame: &Frame,
    ethertype: Network16,
    tuple: &mut FiveTupleKey,
) -> Result<Headers, NoHeaders> {
    let (ethertype, offset) = skip_vlan_tags(frame, ethertype)?;
    let depth = match ethertype.get() {
        ETHERTYPE_IPV4 => parse_ipv4(frame, offset, tuple)?,
        ETHERTYPE_IPV6 => parse_ipv6(frame, offset, tuple)?,
        number if number < ETHERTYPE_MIN => return Err(NoHeaders::NoEtherType),
        _ => Depth::Ethernet,
    };
    Ok(Headers { ethertype, depth })
}

/// IEEE 802.1Q customer tag, 802.1ad service tag, and the service tag of older switches.
#[inline(always)]
fn is_vlan_tag(ethertype: Network16) -> bool {
    matches!(ethertype.get(), 0x8100 | 0x88a8 | 0x9100)
}

/// Returns the VLAN id of the frame's first tag, regardless of the contents after the tag. `outer`
/// is the field at the position of an untagged frame's EtherType. Returns `None` if there is no
/// tag, or if it is truncated.
#[inline(always)]
pub fn outermost_vlan(frame: &Frame, outer: Network16) -> Option<Network16> {
    if !is_vlan_tag(outer) || !frame.reaches(ETHERNET_BYTES + VLAN_TAG_BYTES) {
        return None;
    }
    let control: Network16 = frame.read(ETHERNET_BYTES)?;
    Some(Network16::new(control.get() & VLAN_ID_MASK))
}

/// Looks through up to two tags; a third tag's identifier is the EtherType then.
#[inline(always)]
fn skip_vlan_tags(frame: &Frame, outer: Network16) -> Result<(Network16, usize), NoHeaders> {
    let mut ethertype = outer;
    let mut offset = ETHERNET_BYTES;
    for _ in 0..VLAN_TAGS_MAX {
        if !is_vlan_tag(ethertype) {
            break;
        }
        ethertype = frame.read(offset + 2).ok_or(NoHeaders::Unparsable)?;
        offset += VLAN_TAG_BYTES;
    }
    Ok((ethertype, offset))
}

#[inline(always)]
fn parse_ipv4(frame: &Frame, offset: usize, tuple: &mut FiveTupleKey) -> Result<Depth, NoHeaders> {
    let header: Ipv4Header = frame.read(offset).ok_or(NoHeaders::Unparsable)?;
    let header_bytes = usize::from(header.version_and_words & 0x0f) * 4;
    let ports_offset = offset + header_bytes;
    if header.version_and_words >> 4 != 4
        || header_bytes < size_of::<Ipv4Header>()
        || usize::from(header.total_bytes.get()) < header_bytes
        || !frame.reaches(ports_offset)
    {
        return Err(NoHeaders::Unparsable);
    }
    tuple.family = FAMILY_IPV4;
    tuple.src = Address::from_v4(header.src);
    tuple.dst = Address::from_v4(header.dst);
    if header.flags_and_fragment_offset.get() & 0x1fff != 0 {
        return Ok(Depth::Addresses);
    }
    Ok(parse_ports(frame, ports_offset, header.protocol, tuple))
}

#[inline(always)]
fn parse_ipv6(frame: &Frame, offset: usize, tuple: &mut FiveTupleKey) -> Result<Depth, NoHeaders> {
    let header: Ipv6Header = frame.read(offset).ok_or(NoHeaders::Unparsable)?;
    if header.version_and_class >> 4 != 6 {
        return Err(NoHeaders::Unparsable);
    }
    tuple.family = FAMILY_IPV6;
    tuple.src = header.src;
    tuple.dst = header.dst;
    let mut next = header.next;
    let mut offset = offset + size_of::<Ipv6Header>();
    for _ in 0..IPV6_EXTENSIONS_MAX {
        let length = EXTENSIONS[usize::from(next)];
        if length.fixed_bytes == 0 {
            break;
        }
        let extension: ExtensionHeader = frame.read(offset).ok_or(NoHeaders::Unparsable)?;
        offset += length.bytes(extension.length);
        if !frame.reaches(offset) {
            return Err(NoHeaders::Unparsable);
        }
        if next == PROTOCOL_FRAGMENT && extension.fragment_offset.get() & 0xfff8 != 0 {
            // The rest is data: the ports were in the first fragment.
            return Ok(Depth::Addresses);
        }
        next = extension.next;
    }
    Ok(parse_ports(frame, offset, next, tuple))
}

/// Rules see no ports if the protocol has none, if too many extension headers precede them, or if
/// they are beyond the end of the frame.
#[inline(always)]
fn parse_ports(frame: &Frame, offset: usize, protocol: u8, tuple: &mut FiveTupleKey) -> Depth {
    if protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP {
        return Depth::Addresses;
    }
    let Some(ports) = frame.read::<Ports>(offset) else {
        return Depth::Addresses;
    };
    tuple.protocol = protocol;
    tuple.src_port = ports.src;
    tuple.dst_port = ports.dst;
    Depth::Ports
}
