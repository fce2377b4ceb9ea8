//! Queries to the kernel about network interfaces, over rtnetlink.
//!
//! Netlink replies for the network namespace of the calling thread. `/sys/class/net` shows the
//! namespace in which it was mounted.

use std::{cmp::Reverse, future::Future, net::IpAddr};

use anyhow::{Context, Result};
use futures::TryStreamExt;
use rtnetlink::{
    Handle,
    packet_route::{
        address::{AddressAttribute, AddressMessage},
        link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
    },
};

/// The kernel's description of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has a carrier: the cable is connected to an active peer.
    pub carrier: bool,
    /// Largest packet without the Ethernet header, in bytes.
    pub mtu_bytes: u32,
    /// Receive queues that it was made with; a driver may use fewer.
    pub rx_queues: u32,
    /// Its hardware address, for example `02:00:00:00:00:01`; `None` if the kernel does not report
    /// one.
    pub address: Option<String>,
    /// The kind of a virtual interface, for example `veth`; `None` for hardware.
    pub kind: Option<String>,
    /// Index of the interface that it is tied to, if that one is in the same network namespace. For
    /// a veth: the other end.
    pub tied_to: Option<u32>,
}

/// Runs `work` with a netlink connection in the calling thread's network namespace, and waits for
/// it.
///
/// # Errors
/// Returns the errors of `work`, or fails if netlink is not available.
pub fn with_netlink<T, F>(work: impl FnOnce(Handle) -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(async {
        let (connection, handle, _) =
            rtnetlink::new_connection().context("cannot open a netlink socket")?;
        let connection = tokio::spawn(connection);
        let outcome = work(handle).await;
        connection.abort();
        outcome
    })
}

/// All interfaces of the calling thread's network namespace.
///
/// # Errors
/// When netlink refuses.
pub fn interfaces() -> Result<Vec<Interface>> {
    with_netlink(|handle| async move {
        let messages: Vec<LinkMessage> = handle
            .link()
            .get()
            .execute()
            .try_collect()
            .await
            .context("cannot list the interfaces")?;
        Ok(messages.iter().map(describe).collect())
    })
}

/// Returns the kernel's addresses in the calling thread's network namespace, each with the index of
/// its interface, in the format of `ip address`.
///
/// # Errors
/// Fails if netlink refuses.
pub fn addresses() -> Result<Vec<(u32, String)>> {
    with_netlink(|handle| async move {
        let messages: Vec<AddressMessage> = handle
            .address()
            .get()
            .execute()
            .try_collect()
            .await
            .context("cannot list the addresses")?;
        Ok(messages.iter().filter_map(address).collect())
    })
}

/// Returns an address with its prefix, or `None` for addresses that the kernel assigns to every
/// interface by itself (`fe80::/10`).
fn address(message: &AddressMessage) -> Option<(u32, String)> {
    let of = |local: bool| {
        message.attributes.iter().find_map(|it| match it {
            AddressAttribute::Local(address) if local => Some(*address),
            AddressAttribute::Address(address) if !local => Some(*address),
            _ => None,
        })
    };
    let address = of(true).or_else(|| of(false))?;
    let is_link_local = matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
    let header = &message.header;
    (!is_link_local).then(|| (header.index, format!("{address}/{}", header.prefix_len)))
}

/// At most this many names are suggested.
const SUGGESTIONS_MAX: usize = 4;

/// Returns the names in `known` that begin most like `wanted`, without loopback.
pub fn similar_names(wanted: &str, known: &[Interface]) -> Vec<String> {
    let shared = |name: &str| {
        let pairs = name.chars().zip(wanted.chars());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let names = known.iter().map(|it| it.name.as_str());
    let mut names: Vec<&str> = names.filter(|name| *name != "lo").collect();
    names.sort_by_key(|name| (Reverse(shared(name)), *name));
    names.truncate(SUGGESTIONS_MAX);
    names.into_iter().map(str::to_owned).collect()
}

/// The end of a message on a missing interface: `; there are `eth0`, `eth1``, or nothing.
pub fn suggestion(similar: &[String]) -> String {
    let names: Vec<String> = similar.iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; there is {one}"),
        several => format!("; there are {}", several.join(", ")),
    }
}

fn describe(message: &LinkMessage) -> Interface {
    let mut interface = Interface {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        carrier: message.header.flags.contains(LinkFlags::LowerUp),
        ..Interface::default()
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => interface.mtu_bytes = *mtu,
            LinkAttribute::Address(bytes) => interface.address = Some(in_hex(bytes)),
            LinkAttribute::NumRxQueues(queues) => interface.rx_queues = *queues,
            LinkAttribute::LinkInfo(info) => interface.kind = info.iter().find_map(kind_name),
            LinkAttribute::Link(index) => interface.tied_to = Some(*index),
            _ => {}
        }
    }
    let is_elsewhere =
        |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::LinkNetNsId(_));
    if message.attributes.iter().any(is_elsewhere) {
        interface.tied_to = None;
    }
    interface
}

/// Bytes as `ip link` shows them.
fn in_hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn kind_name(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(InfoKind::Other(name)) => Some(name.clone()),
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_alike_are_suggested_first_and_loopback_never() {
        let known = ["lo", "docker0", "eth1", "eth0", "enp3s0", "wlan0"].map(|name| Interface {
            name: name.to_owned(),
            ..Interface::default()
        });
        let similar = similar_names("eth9", &known);
        assert_eq!(similar, ["eth0", "eth1", "enp3s0", "docker0"]);
        assert_eq!(suggestion(&similar[..2]), "; there are `eth0`, `eth1`");
        assert_eq!(suggestion(&similar_names("eth9", &known[..1])), "");
    }

    #[test]
    fn loopback_is_found_with_its_mtu() {
        let interfaces = interfaces().expect("netlink needs no privilege");
        let loopback = interfaces
            .iter()
            .find(|interface| interface.name == "lo")
            .expect("every namespace has lo");
        assert_eq!(loopback.index, 1);
        assert!(loopback.mtu_bytes >= 1280);
        assert_eq!(loopback.address.as_deref(), Some("00:00:00:00:00:00"));
        assert_eq!(loopback.tied_to, None);
    }

    #[test]
    fn loopbacks_address_is_found_where_it_is_up() {
        let up = interfaces()
            .expect("netlink")
            .iter()
            .any(|it| it.index == 1 && it.up);
        let found = addresses().expect("netlink needs no privilege");
        assert_eq!(found.contains(&(1, "127.0.0.1/8".into())), up, "{found:?}");
    }
}
