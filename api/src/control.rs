//! What `covalent-control` is asked on its own socket and what it answers.
//!
//! The socket is a Unix `SOCK_SEQPACKET` one ([`crate::config::Config::control_socket_path`]); each datagram is one JSON
//! message ([`crate::datagram`]). There is no greeting: [`ControlRequest::Version`] is answered in every version, and says which are spoken.

use serde::{Deserialize, Serialize};

use crate::{
    agreement::HeldBrief,
    config::KeyChange,
    guid::Guid,
    rule::{Match, Rule},
    versions::Versions,
};

/// What a client asks the control process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Who answers, and whether it has a daemon.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Version,
    /// The nodes at the other ends of this node's links.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Neighbours,
    /// The links, one for each port that runs the link protocol.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Links,
    /// The network interfaces of the AF_XDP ports.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Interfaces,
    /// Has the configuration file read again and put in force, whole or not at all. Needs root or control's own user.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Reload,
    /// What control and the daemon hold.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Agreed,
    /// The steering rules in force. Needs root or control's own user, as the file may.
    Rules {
        /// How many of them were told before.
        from: u32,
    },
    /// Has the steering rules in force changed, all or none, until the file is put in force again. Needs root or control's own user.
    Steer {
        /// Whose rules are taken away.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remove: Vec<Match>,
        /// Rules that are added.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        add: Vec<Rule>,
    },
}

/// What the control process answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum ControlReply {
    /// To [`ControlRequest::Version`].
    Version(ControlVersion),
    /// To [`ControlRequest::Neighbours`], in order of their GUIDs.
    Neighbours {
        /// Whether the daemon is there. If not, nothing is known and the list is empty.
        daemon_connected: bool,
        /// Each neighbour that this daemon has met since it started.
        neighbours: Vec<Neighbour>,
    },
    /// To [`ControlRequest::Links`], in order of their ports' names.
    Links {
        /// Whether the daemon is there. If not, nothing is known and the list is empty.
        daemon_connected: bool,
        /// Each link.
        links: Vec<LinkBrief>,
    },
    /// To [`ControlRequest::Interfaces`], in order of the configuration.
    Interfaces {
        /// Each interface.
        interfaces: Vec<InterfaceStatus>,
    },
    /// To [`ControlRequest::Reload`] and [`ControlRequest::Steer`]: the file is in force, or the rules are.
    Reloaded {
        /// The epoch that control and every lane hold.
        epoch: u64,
        /// Keys whose value is another one; empty: the file said what was in force.
        changed: Vec<KeyChange>,
        /// Who is affected and may not know, for people: pipes whose port went or was opened again.
        #[serde(default)]
        beware: Vec<String>,
    },
    /// To [`ControlRequest::Reload`] and [`ControlRequest::Steer`]: nothing was changed.
    NotReloaded {
        /// Everything that stands in the way, each with file, line, column and key where it has them.
        problems: Vec<String>,
    },
    /// To [`ControlRequest::Agreed`].
    Agreed {
        /// What control holds; `None`: it has had no daemon yet.
        agreed: Option<HeldBrief>,
        /// Whether the daemon holds it too and nothing is under way.
        is_shared: bool,
    },
    /// To [`ControlRequest::Rules`].
    Rules {
        /// The configuration that they are from. Begin anew if it is not what was told with the first of them.
        held: HeldBrief,
        /// At most [`RULES_TOLD_MAX`] of them.
        rules: Vec<RuleBrief>,
        /// How many were told so far, if there are more.
        next: Option<u32>,
    },
    /// The request was refused; nothing changed.
    Refused {
        /// What happened and what to do.
        reason: String,
    },
}

/// Most steering rules of one answer: the longest have two IPv6 addresses.
pub const RULES_TOLD_MAX: usize = 200;

/// A steering rule in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleBrief {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// Whether the file has it too, so that it outlives a reload; `None`: the file cannot be read.
    pub in_file: Option<bool>,
}

/// Who answers on the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlVersion {
    /// The newest version of the messages that it speaks.
    pub api: u32,
    /// The oldest; absent from one of version 5, which speaks no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<u32>,
    /// Version of the program, for people.
    pub program: String,
    /// Process id.
    pub pid: u32,
    /// Nanoseconds since it started.
    pub uptime_ns: u64,
    /// The node's configured name.
    pub node: String,
    /// The identity that the daemon told; `None` while there is no daemon.
    pub guid: Option<Guid>,
}

impl ControlVersion {
    /// What it speaks.
    #[must_use]
    pub fn speaks(&self) -> Versions {
        Versions {
            oldest: self.oldest.unwrap_or(self.api),
            newest: self.api,
        }
    }
}

/// A node at the other end of at least one link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its identity.
    pub guid: Guid,
    /// Its configured name.
    pub name: String,
    /// The links that lead there, in order of their ports' names.
    pub links: Vec<LinkBrief>,
}

/// One link as the control process knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBrief {
    /// Name of the local port.
    pub port: String,
    /// Whether it is up: both ends hold the same epoch.
    pub up: bool,
    /// The neighbour, once known.
    pub peer: Option<Guid>,
    /// The neighbour's name, once known.
    pub peer_name: Option<String>,
    /// The neighbour's index of its own port, once known.
    pub peer_port: Option<u16>,
    /// The last epoch known.
    pub epoch: u32,
    /// Why it went down last, if that was seen.
    pub last_failure: Option<String>,
    /// Nanoseconds of CLOCK_REALTIME of the last change that was seen; `None` if it has not changed since control connected.
    pub changed_realtime_ns: Option<u64>,
}

/// The network interface of an AF_XDP port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// Name of the port.
    pub port: String,
    /// Name of the interface.
    pub interface: String,
    /// Its index in this network namespace; `None` while it does not exist.
    pub index: Option<u32>,
    /// Whether it is set up by the administrator (`ip link set … up`).
    pub admin_up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Its MTU in bytes; 0 while it does not exist.
    pub mtu_bytes: u32,
    /// Whether control set it up.
    pub brought_up: bool,
    /// Its hardware address, for example `02:00:00:00:00:01`. From here on absent while it does not exist, where the kernel does not tell, and from a
    /// control process that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its driver, for example `ice` or `veth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The XDP programs attached to it. The kernel tells nobody when one is attached or detached, so they are those of the last look: when the interface
    /// changed, or somebody asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<XdpProgram>,
    /// Its channels: queues of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// Of the features that matter to a port those that are on, by the kernel's names: `rx-vlan-hw-parse` (VLAN tags are taken off frames), `rx-lro` and
    /// `rx-gro-hw` (frames are joined).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
}

impl InterfaceStatus {
    /// That of an interface that does not exist, or has not been seen.
    #[must_use]
    pub fn absent(port: &str, interface: &str) -> Self {
        Self {
            port: port.to_owned(),
            interface: interface.to_owned(),
            index: None,
            admin_up: false,
            carrier: false,
            mtu_bytes: 0,
            brought_up: false,
            address: None,
            driver: None,
            programs: Vec::new(),
            channels: None,
            features: None,
        }
    }
}

/// An XDP program on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpProgram {
    /// `native`, `generic` or `offloaded`.
    pub mode: String,
    /// Its number in the kernel (`bpftool prog`).
    pub id: u32,
}

/// Queues of a device, as `ethtool -l` shows them. A device has combined ones, or some for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Channels {
    /// That only receive.
    pub rx: u32,
    /// That only send.
    pub tx: u32,
    /// That do both.
    pub combined: u32,
    /// Most of the first.
    pub rx_max: u32,
    /// Most of the second.
    pub tx_max: u32,
    /// Most of the third.
    pub combined_max: u32,
}

impl Channels {
    /// Queues that receive.
    #[must_use]
    pub const fn receiving(&self) -> u32 {
        self.rx + self.combined
    }
}
