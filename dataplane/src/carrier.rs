//! Watches the carriers of network interfaces through netlink.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkFlags, LinkMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;

/// `RTMGRP_LINK` of rtnetlink(7): membership by bit mask at bind.
const GROUP_LINK: u32 = 1;
/// The kernel sends link messages of a few kilobytes; it never splits one.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Messages handled per call, so that a storm of them does not monopolize the host thread.
const MESSAGES_PER_CALL: usize = 256;

/// A change of an interface that the kernel reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceChange {
    /// Its state now: administratively up and with a carrier, or not.
    Carrier {
        /// Name of the interface.
        interface: String,
        /// Whether frames can pass.
        up: bool,
    },
    /// It is gone from this network namespace.
    Removed {
        /// Name of the interface.
        interface: String,
        /// Index that it had: another one of that name has another.
        index: u32,
    },
}

/// A subscription to link changes in the network namespace of the opening thread. Non-blocking.
#[derive(Debug)]
pub struct CarrierWatch {
    socket: Socket,
    buffer: Vec<u8>,
}

impl CarrierWatch {
    /// Subscribes to link changes and requests the state of every interface. The states arrive like
    /// changes.
    ///
    /// # Errors
    /// The netlink socket cannot be opened.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, GROUP_LINK))?;
        socket.set_non_blocking(true)?;
        let mut watch = Self {
            socket,
            buffer: Vec::with_capacity(MESSAGE_BYTES_MAX),
        };
        watch.request_all()?;
        Ok(watch)
    }

    /// Requests the state of every interface again.
    ///
    /// # Errors
    /// The socket failed.
    pub fn recheck(&mut self) -> io::Result<()> {
        self.request_all()
    }

    /// Reads received messages and passes each change to `visit`.
    ///
    /// # Errors
    /// The socket failed permanently. An overflow is no error: the watch requests all states again.
    pub fn read(&mut self, mut visit: impl FnMut(InterfaceChange)) -> io::Result<()> {
        for _ in 0..MESSAGES_PER_CALL {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Ok(_) => each_change(&self.buffer, &mut visit),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                    self.request_all()?
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn request_all(&mut self) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_DUMP | NLM_F_REQUEST;
        let mut message = NetlinkMessage::new(
            header,
            NetlinkPayload::from(RouteNetlinkMessage::GetLink(LinkMessage::default())),
        );
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
        Ok(())
    }
}

impl AsFd for CarrierWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Walks the messages of one datagram. A damaged rest is left out: the kernel does not send any.
fn each_change(mut bytes: &[u8], visit: &mut impl FnMut(InterfaceChange)) {
    while let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes) {
        let length = (message.header.length as usize).next_multiple_of(4);
        if let NetlinkPayload::InnerMessage(inner) = message.payload
            && let Some(change) = change(inner)
        {
            visit(change);
        }
        match bytes.get(length..) {
            Some(rest) if length > 0 && !rest.is_empty() => bytes = rest,
            _ => return,
        }
    }
}

fn change(message: RouteNetlinkMessage) -> Option<InterfaceChange> {
    match message {
        RouteNetlinkMessage::NewLink(link) => {
            let up = link
                .header
                .flags
                .contains(LinkFlags::Up | LinkFlags::LowerUp);
            Some(InterfaceChange::Carrier {
                interface: interface_name(link)?,
                up,
            })
        }
        RouteNetlinkMessage::DelLink(link) => Some(InterfaceChange::Removed {
            index: link.header.index,
            interface: interface_name(link)?,
        }),
        _ => None,
    }
}

fn interface_name(link: LinkMessage) -> Option<String> {
    link.attributes
        .into_iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        })
}
