//! Requests to `covalent-control` on its own socket, and its replies.
//!
//! The socket is a Unix `SOCK_SEQPACKET` socket, `control.sock` in `node.runtime_dir`. Each
//! datagram is one JSON message ([`datagram`](crate::datagram)). There is no greeting:
//! [`ControlRequest::Version`] is answered in every version, and the reply lists the supported
//! versions.

use serde::{Deserialize, Serialize};

use crate::{
    agreement::HeldBrief,
    guid::Guid,
    key_change::KeyChange,
    rule::{Match, Rule},
    versions::Versions,
};

/// Control's refusal of a program that greets it as covalentd. The client library detects the wrong
/// path by this text.
pub const NOT_FOR_APPLICATIONS: &str = "covalent-control listens there, not covalentd";

/// Requests of a client to the control process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Queries the control process's version, and whether it has a daemon.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Version,
    /// The nodes at the other ends of this node's links.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Neighbors,
    /// The links, one for each port that runs the link protocol.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Links,
    /// The network interfaces of the AF_XDP ports.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Interfaces,
    /// Rereads the configuration file and puts it in force, completely or not at all. Needs root or
    /// control's own user.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Reload,
    /// Queries the configurations that control and the daemon hold.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Agreed,
    /// The steering rules in force. Needs root or control's own user, as the file may.
    Rules {
        /// Number of rules returned by earlier replies.
        from: u32,
    },
    /// Changes the steering rules in force, all or none. The change lasts until the file is put in
    /// force again. Needs root or control's own user.
    Steer {
        /// Matches whose rules are removed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remove: Vec<Match>,
        /// Rules that are added.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        add: Vec<Rule>,
    },
}

/// Replies of the control process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum ControlReply {
    /// To [`ControlRequest::Version`].
    Version(ControlVersion),
    /// To [`ControlRequest::Neighbors`], sorted by GUID.
    Neighbors {
        /// Whether the daemon is there. If not, nothing is known and the list is empty.
        daemon_connected: bool,
        /// Each neighbor that this daemon has met since it started.
        neighbors: Vec<Neighbor>,
    },
    /// To [`ControlRequest::Links`], sorted by port name.
    Links {
        /// Whether the daemon is there. If not, nothing is known and the list is empty.
        daemon_connected: bool,
        /// Each link.
        links: Vec<LinkBrief>,
    },
    /// To [`ControlRequest::Interfaces`], in configuration order.
    Interfaces {
        /// Each interface.
        interfaces: Vec<InterfaceStatus>,
    },
    /// To [`ControlRequest::Reload`] and [`ControlRequest::Steer`]: the file or the rules are in
    /// force.
    Reloaded {
        /// The revision that control and every lane hold.
        epoch: u64,
        /// Keys whose value changed. Empty: the file equals the configuration in force.
        changed: Vec<KeyChange>,
        /// Side effects that may be unexpected, human-readable: pipes whose port was closed or
        /// reopened.
        #[serde(default)]
        beware: Vec<String>,
    },
    /// To [`ControlRequest::Reload`] and [`ControlRequest::Steer`]: nothing was changed.
    NotReloaded {
        /// All problems, each with file, line, column and key if known.
        problems: Vec<String>,
    },
    /// To [`ControlRequest::Agreed`].
    Agreed {
        /// The configuration that control holds. `None`: it has had no daemon yet.
        agreed: Option<HeldBrief>,
        /// Whether the daemon holds it too and no exchange is in flight.
        is_shared: bool,
    },
    /// To [`ControlRequest::Rules`].
    Rules {
        /// The configuration that contains the rules. If it differs from that of the first reply,
        /// start again from the first rule.
        held: HeldBrief,
        /// At most [`RULES_PER_REPLY_MAX`] of them.
        rules: Vec<RuleBrief>,
        /// Number of rules returned so far, if there are more.
        next: Option<u32>,
    },
    /// The request was refused; nothing changed.
    Refused {
        /// The problem, and how to resolve it.
        reason: String,
    },
}

/// Most steering rules of one answer: the longest have two IPv6 addresses.
pub const RULES_PER_REPLY_MAX: usize = 200;

/// A steering rule in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleBrief {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// Whether the file has the rule too, so that it persists across a reload. `None`: the file
    /// cannot be read.
    pub in_file: Option<bool>,
}

/// Identity and versions of the process on the control socket.
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
    /// The identity that the daemon reported. `None` while there is no daemon.
    pub guid: Option<Guid>,
    /// Absolute path of the file that [`ControlRequest::Reload`] rereads. Absent from a control
    /// that does not report it, and without a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl ControlVersion {
    /// The versions that it supports.
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
pub struct Neighbor {
    /// Its identity.
    pub guid: Guid,
    /// Its configured name.
    pub name: String,
    /// The links to that node, sorted by port name.
    pub links: Vec<LinkBrief>,
}

/// One link as the control process knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkBrief {
    /// Name of the local port.
    pub port: String,
    /// Whether it is up: both ends hold the same epoch.
    pub up: bool,
    /// The neighbor, once known.
    pub peer: Option<Guid>,
    /// The neighbor's name, once known.
    pub peer_name: Option<String>,
    /// The neighbor's index of its own port, once known.
    pub peer_port: Option<u16>,
    /// The last epoch known.
    pub epoch: u32,
    /// Why it went down last, if that was seen.
    pub last_failure: Option<String>,
    /// Time of the last observed change, in nanoseconds of CLOCK_REALTIME. `None` if it has not
    /// changed since control connected.
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
    /// Its hardware address, for example `02:00:00:00:00:01`. This field and those below are absent
    /// while the interface does not exist, if the kernel does not report them, and from older
    /// control processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its driver, for example `ice` or `veth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The XDP programs attached to it. The kernel sends no notification when one is attached or
    /// detached. The list is therefore as of the last query: when the interface changed, or on
    /// request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<XdpProgram>,
    /// Its channels: queues of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// The enabled features among those that matter to a port, by the kernel's names:
    /// `rx-vlan-hw-parse` (VLAN tags are removed from frames), `rx-lro` and `rx-gro-hw` (frames are
    /// merged).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
}

impl InterfaceStatus {
    /// The status of an interface that does not exist or has not been seen.
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

/// Queues of a device, as `ethtool -l` shows them. A device has combined queues, or separate ones
/// for each direction.
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
