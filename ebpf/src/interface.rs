//! State of an interface as reported by the kernel: name, MTU and its XDP programs.
//!
//! It takes one rtnetlink request. Only three attributes are parsed, one by one, so that unknown
//! attributes of a newer kernel or an unusual driver are no obstacle.

use std::io;

use netlink_packet_core::{
    DecodeError, NLM_F_REQUEST, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NlaBuffer, NlasIterator, Parseable, parse_string, parse_u32,
};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkMessage, LinkXdp},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::mode::AttachPoint;

// include/uapi/linux/if_link.h and rtnetlink.h.
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_XDP: u16 = 43;
const RTM_NEWLINK: u16 = 16;
/// `struct ifinfomsg`, which precedes the attributes.
const INTERFACE_HEADER_BYTES: usize = 16;
const SEQUENCE: u32 = 1;
/// The kernel answers a request for one interface with one message.
const MESSAGES_MAX: usize = 4;

/// State of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Interface {
    pub name: String,
    pub mtu_bytes: u32,
    /// Where which program (by its id) is attached.
    pub programs: Vec<(AttachPoint, u32)>,
}

/// Queries the interface with this index in the caller's network namespace. Returns `None` if there
/// is none.
pub(crate) fn query(ifindex: u32) -> io::Result<Option<Interface>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // The reply is queued before `send` returns. If there is none, fail instead of blocking.
    socket.set_non_blocking(true)?;
    socket.send(&request(ifindex), 0)?;
    for _ in 0..MESSAGES_MAX {
        let (bytes, _) = socket.recv_from_full()?;
        match answer(&bytes).map_err(io::Error::other)? {
            Answer::Interface(interface) => return Ok(Some(interface)),
            Answer::Refused(libc::ENODEV) => return Ok(None),
            Answer::Refused(errno) => return Err(io::Error::from_raw_os_error(errno)),
            Answer::Other => {}
        }
    }
    Err(io::Error::other("rtnetlink did not answer RTM_GETLINK"))
}

fn request(ifindex: u32) -> Vec<u8> {
    let mut link = LinkMessage::default();
    link.header.index = ifindex;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    header.sequence_number = SEQUENCE;
    let mut message = NetlinkMessage::new(
        header,
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::GetLink(link)),
    );
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

enum Answer {
    Interface(Interface),
    Refused(i32),
    Other,
}

fn answer(bytes: &[u8]) -> Result<Answer, DecodeError> {
    let message = NetlinkBuffer::new_checked(bytes)?;
    if message.sequence_number() != SEQUENCE {
        return Ok(Answer::Other);
    }
    Ok(match message.message_type() {
        RTM_NEWLINK => {
            let attributes = message
                .payload()
                .get(INTERFACE_HEADER_BYTES..)
                .unwrap_or(&[]);
            Answer::Interface(interface(attributes)?)
        }
        // The error number, negated, is the first field of `struct nlmsgerr`.
        NLMSG_ERROR => match message.payload().first_chunk() {
            Some(code) => Answer::Refused(i32::from_ne_bytes(*code).wrapping_neg()),
            None => Answer::Other,
        },
        _ => Answer::Other,
    })
}

fn interface(attributes: &[u8]) -> Result<Interface, DecodeError> {
    let mut interface = Interface::default();
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute?;
        match attribute.kind() {
            IFLA_IFNAME => interface.name = parse_string(attribute.value())?,
            IFLA_MTU => interface.mtu_bytes = parse_u32(attribute.value())?,
            IFLA_XDP => interface.programs = programs(&attribute)?,
            _ => {}
        }
    }
    Ok(interface)
}

fn programs(xdp: &NlaBuffer<&[u8]>) -> Result<Vec<(AttachPoint, u32)>, DecodeError> {
    let mut programs = Vec::new();
    for attribute in NlasIterator::new(xdp.value()) {
        match LinkXdp::parse(&attribute?)? {
            LinkXdp::DrvProgId(id) => programs.push((AttachPoint::Native, id)),
            LinkXdp::SkbProgId(id) => programs.push((AttachPoint::Generic, id)),
            LinkXdp::HwProgId(id) => programs.push((AttachPoint::Hardware, id)),
            _ => {}
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn loopback_is_found_by_its_index() {
        let interface = query(1).unwrap().unwrap();
        assert_eq!(interface.name, "lo");
        assert!(interface.mtu_bytes > 0);
    }

    #[test]
    fn an_index_of_nothing_is_none() {
        assert_eq!(query(0x7fff_fff0).unwrap(), None);
    }

    #[test]
    fn arbitrary_answers_are_errors_or_nothing() {
        let mut bytes = vec![0; 64];
        for seed in 0..20_000u32 {
            for (index, byte) in bytes.iter_mut().enumerate() {
                let mixed = (seed ^ (index as u32) << 16)
                    .wrapping_mul(0x9e37_79b1)
                    .rotate_left(11)
                    .wrapping_mul(0x85eb_ca6b);
                *byte = (mixed >> 24) as u8;
            }
            // A plausible header, so that the parser reaches the attributes.
            bytes[..4].copy_from_slice(&64u32.to_ne_bytes());
            bytes[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
            bytes[8..12].copy_from_slice(&SEQUENCE.to_ne_bytes());
            bytes[34..36].copy_from_slice(&IFLA_XDP.to_ne_bytes());
            let _ = answer(&bytes);
        }
    }
}
