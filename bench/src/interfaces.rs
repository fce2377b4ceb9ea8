//! Taking a network interface down and up again, as `ip link set` does, without a process for it.

use std::io;

use anyhow::{Context, Result, bail};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkFlags, LinkHeader, LinkMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::net::if_::if_nametoindex;

use crate::stage::Namespace;

/// An answer has the request in it and little more.
const ANSWER_BYTES_MAX: usize = 4096;

/// Interfaces of one namespace.
#[derive(Debug)]
pub struct Interfaces {
    socket: Socket,
    indices: Vec<u32>,
}

impl Interfaces {
    /// Those called `names`, in that order.
    pub fn open(namespace: &Namespace, names: &[&str]) -> Result<Self> {
        namespace.within(|| {
            let mut socket = Socket::new(NETLINK_ROUTE).context("opening a netlink socket")?;
            socket
                .bind(&SocketAddr::new(0, 0))
                .context("binding a netlink socket")?;
            let indices = names
                .iter()
                .map(|name| {
                    if_nametoindex(*name).with_context(|| format!("looking for interface {name}"))
                })
                .collect::<Result<_>>()?;
            Ok(Self { socket, indices })
        })
    }

    /// Takes the interface at `at` up or down. It is when this returns.
    pub fn set(&self, at: usize, up: bool) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header = LinkHeader {
            index: self.indices[at],
            flags: if up {
                LinkFlags::Up
            } else {
                LinkFlags::empty()
            },
            change_mask: LinkFlags::Up,
            ..LinkHeader::default()
        };
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK;
        let mut request = NetlinkMessage::new(
            header,
            NetlinkPayload::from(RouteNetlinkMessage::SetLink(link)),
        );
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket
            .send_to(&bytes, &SocketAddr::new(0, 0), 0)
            .context("asking the kernel for an interface")?;
        self.acknowledged()
    }

    fn acknowledged(&self) -> Result<()> {
        let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
        loop {
            answer.clear();
            match self.socket.recv(&mut answer, 0) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("hearing about an interface"),
            }
        }
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
            .context("reading the kernel's answer about an interface")?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io()).context("changing an interface"),
            other => bail!("the kernel answers {other:?} when an interface is changed"),
        }
    }
}
