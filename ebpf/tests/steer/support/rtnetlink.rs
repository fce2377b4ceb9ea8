//! Interfaces, made and changed over rtnetlink.

use std::{io, net::Ipv4Addr, os::fd::RawFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressMessage},
    link::{
        InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp,
    },
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::net::if_::if_nametoindex;

/// A pair of interfaces: each receives the frames that the other sends.
pub struct Pair {
    /// Index of interface `a`.
    pub a: u32,
    /// Index of interface `b`.
    pub b: u32,
}

/// MAC address of interface `a`.
pub const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
/// MAC address of interface `b`.
pub const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

/// Makes the veth pair `a`, `b` with so many queues in the thread's namespace and sets both up.
pub fn veth_pair(queues: u32) -> Pair {
    let end = |name: &str, mac: [u8; 6]| {
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::Address(mac.to_vec()),
            LinkAttribute::NumTxQueues(queues),
            LinkAttribute::NumRxQueues(queues),
        ];
        link
    };
    let mut link = end("a", MAC_A);
    let peer = InfoData::Veth(InfoVeth::Peer(end("b", MAC_B)));
    link.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(peer),
    ]));
    request(
        RouteNetlinkMessage::NewLink(link),
        NLM_F_CREATE | NLM_F_EXCL,
    )
    .expect("make a veth pair");
    let pair = Pair {
        a: if_nametoindex("a").unwrap(),
        b: if_nametoindex("b").unwrap(),
    };
    for ifindex in [pair.a, pair.b] {
        set_up(ifindex);
    }
    pair
}

/// Sets the interface up.
pub fn set_up(ifindex: u32) {
    let mut link = LinkMessage::default();
    link.header.index = ifindex;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    request(RouteNetlinkMessage::SetLink(link), 0).expect("set an interface up");
}

/// Changes the interface's MTU.
pub fn set_mtu(ifindex: u32, mtu_bytes: u32) {
    set_attribute(ifindex, LinkAttribute::Mtu(mtu_bytes)).expect("set an MTU");
}

/// Attaches the XDP program to the interface's driver without a `bpf_link`, as `ip link set …
/// xdpdrv` does.
pub fn attach_without_link(ifindex: u32, program: RawFd) {
    const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    let xdp = vec![LinkXdp::Fd(program), LinkXdp::Flags(XDP_FLAGS_DRV_MODE)];
    set_attribute(ifindex, LinkAttribute::Xdp(xdp)).expect("attach over rtnetlink");
}

/// Removes the interface.
pub fn remove(ifindex: u32) {
    let mut link = LinkMessage::default();
    link.header.index = ifindex;
    request(RouteNetlinkMessage::DelLink(link), 0).expect("remove an interface");
}

/// Gives the interface an address with a prefix of 24 bits.
pub fn add_address(ifindex: u32, address: Ipv4Addr) {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = 24;
    message.header.index = ifindex;
    message.attributes = vec![
        AddressAttribute::Local(address.into()),
        AddressAttribute::Address(address.into()),
    ];
    request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE).expect("add an address");
}

fn set_attribute(ifindex: u32, attribute: LinkAttribute) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = ifindex;
    link.attributes = vec![attribute];
    request(RouteNetlinkMessage::SetLink(link), 0)
}

fn request(message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(io::Error::other)?
        .payload
    {
        NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        other => Err(io::Error::other(format!("unexpected answer {other:?}"))),
    }
}
