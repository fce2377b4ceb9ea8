//! The interfaces of AF_XDP ports.

use std::fs;

use anyhow::Result;
use covalent_config::{Config, PortKind, other_node::OtherNode};
use covalent_ebpf::{AttachedProgram, Holder, attached_programs};

use crate::{
    netlink::{self, Interface},
    nic::{self, Nic},
};

/// The interface of one AF_XDP port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedInterface {
    /// The port's name.
    pub port: String,
    /// The interface's configured name.
    pub interface: String,
    /// The kernel's description of it; `None` if the interface does not exist.
    pub found: Option<Interface>,
    /// Existing names that are similar, if the interface does not exist.
    pub similar: Vec<String>,
    /// Its driver, for example `ice` or `veth`, where known.
    pub driver: Option<String>,
    /// The driver's description of it.
    pub nic: Nic,
    /// The XDP programs attached to it.
    pub programs: Vec<HeldProgram>,
    /// The kernel's own addresses on it, with their prefixes.
    pub addresses: Vec<String>,
    /// The other end of a veth, if it is in the same network namespace.
    pub other_end: Option<OtherEnd>,
}

/// The other end of a veth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtherEnd {
    /// Its name.
    pub interface: String,
    /// The driver's description of it.
    pub nic: Nic,
}

/// An XDP program on an interface, and its owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldProgram {
    /// The program.
    pub program: AttachedProgram,
    /// The processes that hold it.
    pub holders: Vec<Holder>,
    /// The first of them that is a `covalentd`, in case it is not this node's.
    pub node: Option<OtherNode>,
}

/// Looks at the interfaces that `config` names.
///
/// # Errors
/// When netlink refuses.
pub fn gather(config: &Config) -> Result<Vec<NamedInterface>> {
    let named: Vec<(&str, &str)> = config
        .port
        .iter()
        .filter_map(|port| match &port.kind {
            PortKind::AfXdp { interface, .. } => Some((port.name.as_str(), interface.as_str())),
            PortKind::Cable { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => None,
        })
        .collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let known = netlink::interfaces()?;
    let addresses = netlink::addresses()?;
    let found = |name: &str| known.iter().find(|it| it.name == name);
    let tied_to = |index: u32| known.iter().find(|it| it.index == index);
    // A kernel without ethtool's netlink family reports nothing about drivers. Report the rest
    // anyway.
    let nics_of =
        |names: &[&str]| nic::query(names).unwrap_or_else(|_| vec![Nic::default(); names.len()]);
    let names: Vec<&str> = named.iter().map(|(_, interface)| *interface).collect();
    named
        .iter()
        .zip(nics_of(&names))
        .map(|(&(port, name), nic)| -> Result<NamedInterface> {
            let found = found(name).cloned();
            let index = found.as_ref().map(|found| found.index);
            let other_end = found.as_ref().and_then(|found| {
                let end = tied_to(
                    found
                        .tied_to
                        .filter(|_| found.kind.as_deref() == Some("veth"))?,
                )?;
                Some(OtherEnd {
                    interface: end.name.clone(),
                    nic: nics_of(&[&end.name]).remove(0),
                })
            });
            Ok(NamedInterface {
                port: port.to_owned(),
                interface: name.to_owned(),
                similar: match found {
                    Some(_) => Vec::new(),
                    None => netlink::similar_names(name, &known),
                },
                driver: found
                    .as_ref()
                    .and_then(|found| found.kind.clone())
                    .or_else(|| driver(name)),
                nic,
                programs: index.map(programs).transpose()?.unwrap_or_default(),
                addresses: addresses
                    .iter()
                    .filter(|(of, _)| Some(*of) == index)
                    .map(|(_, address)| address.clone())
                    .collect(),
                other_end,
                found,
            })
        })
        .collect()
}

fn programs(interface: u32) -> Result<Vec<HeldProgram>> {
    let programs = attached_programs(interface)?;
    Ok(programs
        .into_iter()
        .map(|program| {
            let holders = covalent_ebpf::holders(program.id);
            let daemon = holders.iter().find(|holder| holder.is_daemon());
            let node = daemon.map(|it| OtherNode::of(it.pid, it.config().as_deref()));
            HeldProgram {
                program,
                holders,
                node,
            }
        })
        .collect())
}

fn driver(interface: &str) -> Option<String> {
    let link = fs::read_link(format!("/sys/class/net/{interface}/device/driver")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}
