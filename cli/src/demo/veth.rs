//! The two cables of the demonstration: multi-queue veth pairs between its two namespaces.

use std::{
    net::{IpAddr, Ipv4Addr},
    os::fd::{AsFd, AsRawFd},
};

use anyhow::{Context, Result};
use futures::TryStreamExt;
use rtnetlink::{
    Handle, LinkMessageBuilder, LinkUnspec,
    packet_route::{
        link::{InfoData, InfoKind, InfoVeth, LinkAttribute},
        neighbour::NeighbourState,
    },
};

use super::namespace::Namespace;
use crate::netlink::with_netlink;

/// Queues of each interface, in each direction.
pub const QUEUES: u32 = 2;

/// The kernel's network on one of the pairs: part of the range for benchmarks between two hosts
/// (RFC 2544).
pub const KERNEL_NETWORK: &str = "198.18.55.0/24";

/// One end of a pair.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// The namespace that contains it.
    pub namespace: &'a Namespace,
    /// Its name there.
    pub interface: &'a str,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// Makes a pair, both ends set up.
///
/// # Errors
/// Names the step that the kernel refused.
pub fn join(a: End<'_>, b: End<'_>) -> Result<()> {
    let peer = LinkMessageBuilder::<LinkUnspec>::new()
        .name(b.interface)
        .address(b.mac.to_vec())
        .setns_by_fd(b.namespace.as_fd().as_raw_fd())
        .append_extra_attribute(LinkAttribute::NumTxQueues(QUEUES))
        .append_extra_attribute(LinkAttribute::NumRxQueues(QUEUES))
        .build();
    let pair = LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(InfoKind::Veth)
        .name(a.interface)
        .address(a.mac.to_vec())
        .append_extra_attribute(LinkAttribute::NumTxQueues(QUEUES))
        .append_extra_attribute(LinkAttribute::NumRxQueues(QUEUES))
        .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
        .build();
    a.namespace.run(|| {
        with_netlink(|handle| async move {
            handle
                .link()
                .add(pair)
                .execute()
                .await
                .context("cannot make a veth pair (is veth in this kernel?)")
        })
    })?;
    for end in [a, b] {
        set_up(end.namespace, end.interface, true)?;
    }
    Ok(())
}

/// Sets an interface up or down: `ip link set INTERFACE up|down`.
///
/// # Errors
/// When there is no such interface or the kernel refuses.
pub fn set_up(namespace: &Namespace, interface: &str, up: bool) -> Result<()> {
    namespace.run(|| {
        with_netlink(|handle| async move {
            let index = index_of(&handle, interface).await?;
            let message = LinkUnspec::new_with_index(index);
            let message = if up { message.up() } else { message.down() };
            let wanted = if up { "up" } else { "down" };
            handle
                .link()
                .change(message.build())
                .execute()
                .await
                .with_context(|| format!("cannot set {interface} {wanted}"))
        })
    })
}

/// Lets an interface receive frames for every address, as a NIC that carries other hosts' frames
/// must.
///
/// # Errors
/// Fails if the interface does not exist, or if the kernel refuses.
pub fn set_promiscuous(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.run(|| {
        with_netlink(|handle| async move {
            let index = index_of(&handle, interface).await?;
            let message = LinkUnspec::new_with_index(index).promiscuous(true).build();
            handle
                .link()
                .change(message)
                .execute()
                .await
                .with_context(|| format!("cannot set {interface} to promiscuous mode"))
        })
    })
}

/// Gives `end` the kernel address `own` and a static neighbor entry for `peer`. The kernel then
/// never sends an ARP request: broadcasts on these ports belong to the dataplane.
///
/// # Errors
/// Fails if the kernel refuses.
pub fn address(
    end: End<'_>,
    own: Ipv4Addr,
    prefix_bits: u8,
    peer: Ipv4Addr,
    peer_mac: [u8; 6],
) -> Result<()> {
    end.namespace.run(|| {
        with_netlink(|handle| async move {
            let index = index_of(&handle, end.interface).await?;
            handle
                .address()
                .add(index, IpAddr::V4(own), prefix_bits)
                .execute()
                .await
                .with_context(|| format!("cannot give {} the address {own}", end.interface))?;
            handle
                .neighbours()
                .add(index, IpAddr::V4(peer))
                .link_layer_address(&peer_mac)
                .state(NeighbourState::Permanent)
                .execute()
                .await
                .with_context(|| format!("cannot add neighbor {peer} to {}", end.interface))
        })
    })
}

async fn index_of(handle: &Handle, interface: &str) -> Result<u32> {
    let message = handle
        .link()
        .get()
        .match_name(interface)
        .execute()
        .try_next()
        .await
        .with_context(|| format!("cannot find the interface {interface}"))?;
    message
        .map(|message| message.header.index)
        .with_context(|| format!("there is no interface {interface}"))
}

#[cfg(test)]
mod tests {
    use nix::unistd::geteuid;

    use super::*;
    use crate::netlink::interfaces;

    #[test]
    fn a_pair_has_its_queues_and_vanishes_with_its_namespaces() {
        if !geteuid().is_root() {
            eprintln!("skipped: making network namespaces needs root");
            return;
        }
        let (a, b) = (
            Namespace::create().expect("namespace"),
            Namespace::create().expect("namespace"),
        );
        let end = |namespace, interface, last| End {
            namespace,
            interface,
            mac: [2, 0, 0, 0, 0, last],
        };
        join(end(&a, "left", 1), end(&b, "right", 2)).expect("the pair is made");

        for (namespace, name) in [(&a, "left"), (&b, "right")] {
            let found = namespace.run(interfaces).expect("netlink");
            let interface = found
                .iter()
                .find(|interface| interface.name == name)
                .expect("the end is there");
            assert!(interface.up);
            assert_eq!(interface.rx_queues, QUEUES);
            assert_eq!(interface.kind.as_deref(), Some("veth"));
        }
        set_up(&a, "left", false).expect("set down");
        assert!(
            !a.run(interfaces)
                .expect("netlink")
                .iter()
                .any(|interface| interface.name == "left" && interface.up)
        );
        assert!(set_up(&a, "absent", true).is_err());
        assert!(
            interfaces()
                .expect("netlink")
                .iter()
                .all(|interface| interface.name != "left" && interface.name != "right"),
            "nothing leaks into the machine's own namespace"
        );
    }
}
