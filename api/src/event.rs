//! What happened on a node, as pushed to subscribers.

use serde::{Deserialize, Serialize};

use crate::{guid::Guid, refusal::LinkRefusal};

/// One event, with the daemon's own count of events so that a reader sees when it missed some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts up by one for each event of this daemon since it started.
    pub sequence: u64,
    /// Nanoseconds of CLOCK_REALTIME when the daemon saw it. For people; no decision depends on it.
    pub realtime_ns: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Causes of [`EventKind::FabricProblem`]: another node says this node's GUID; more nodes than `fabric.roots_max`; more links of one lane than take
/// part.
pub const FABRIC_PROBLEMS: [&str; 3] = ["twin", "too_many_nodes", "too_many_links"];

/// The kinds of event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A link is up under a new epoch: both ends hold the same state.
    LinkUp {
        /// Name of the local port.
        port: String,
        /// Who is at the other end.
        peer: Guid,
        /// The peer's configured name.
        peer_name: String,
        /// The peer's number of its own port at the other end.
        peer_port: u16,
        /// The epoch that both ends hold.
        epoch: u32,
    },
    /// A link is down; its open transactions are being resolved.
    LinkDown {
        /// Name of the local port.
        port: String,
        /// What showed it: for example `carrier lost`, `sequence gap`, `peer silent`.
        reason: String,
        /// Transactions that were open here when it went down.
        open_transactions: u32,
    },
    /// A link does not come up although somebody answers, or does so for another reason than was told before.
    LinkRefused {
        /// Name of the local port.
        port: String,
        /// What is wrong, and what to do.
        refusal: LinkRefusal,
    },
    /// What kept a link from coming up is not found any more.
    LinkRefusalOver {
        /// Name of the local port.
        port: String,
    },
    /// A port's carrier changed.
    Carrier {
        /// Name of the port.
        port: String,
        /// Whether there is a carrier now.
        up: bool,
    },
    /// The device of a port has ceased to exist, for example a removed interface. Its pipes wait as with a pulled cable.
    PortAbsent {
        /// Name of the port.
        port: String,
        /// What ceased to exist, and what to do.
        reason: String,
    },
    /// A port was opened while the daemon runs: it came, returned, or was opened again.
    PortOpened {
        /// Name of the port.
        port: String,
    },
    /// Another node can be reached, directly or over others: for the first time, again, or under another name.
    NodeReachable {
        /// Its GUID.
        guid: Guid,
        /// Its name.
        name: String,
        /// Cables between this node and that one. A cable in memory between two lanes counts.
        hops: u16,
        /// Name of the port over which the way leads; `lane-0-N` for one of lane N.
        port: String,
    },
    /// Another node cannot be reached any more, as far as can be known here: every neighbour was asked. It may be taken back at once, where another
    /// node is still looking for a way.
    NodeUnreachable {
        /// Its GUID.
        guid: Guid,
        /// Its name.
        name: String,
    },
    /// Something keeps this node, or what it knows of others, from being whole.
    FabricProblem {
        /// What kind: one of [`FABRIC_PROBLEMS`].
        cause: String,
        /// What it is, with which object.
        reason: String,
        /// What to do.
        cure: String,
    },
    /// An application attached.
    Attached {
        /// The daemon's number for the session.
        session: u64,
        /// Process id of the application.
        pid: u32,
        /// What it calls itself.
        program: String,
    },
    /// An application is gone and everything that it held is reclaimed.
    Detached {
        /// The daemon's number for the session.
        session: u64,
        /// Why: `closed`, `process ended`, or what it did wrong.
        reason: String,
        /// Pipes reclaimed.
        pipes: u32,
        /// Regions reclaimed.
        regions: u32,
    },
    /// The journal of a lane has ended: from now on verbs on its durable regions are refused, and those that were executed and not told are
    /// never acknowledged by this daemon.
    JournalFailed {
        /// The lane.
        lane: u32,
        /// What happened, to which file, and what to do.
        reason: String,
    },
    /// Another configuration is in force: control and every lane hold the same epoch.
    Configured {
        /// The epoch.
        epoch: u64,
        /// Keys whose value is another one.
        changed: Vec<String>,
    },
    /// A configuration was refused; nothing has changed.
    NotConfigured {
        /// Why.
        reason: String,
    },
    /// The daemon ends in order. Whoever agreed with it on a configuration hears this too, subscribed or not.
    Stopping,
    /// Something that only a later version has a name for. Its fields are lost, its number and its time are not. No daemon raises it.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// What it is called in JSON, in metrics and in the schema of telemetry.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LinkUp { .. } => "link_up",
            Self::LinkDown { .. } => "link_down",
            Self::LinkRefused { .. } => "link_refused",
            Self::LinkRefusalOver { .. } => "link_refusal_over",
            Self::Carrier { .. } => "carrier",
            Self::PortAbsent { .. } => "port_absent",
            Self::PortOpened { .. } => "port_opened",
            Self::NodeReachable { .. } => "node_reachable",
            Self::NodeUnreachable { .. } => "node_unreachable",
            Self::FabricProblem { .. } => "fabric_problem",
            Self::Attached { .. } => "attached",
            Self::Detached { .. } => "detached",
            Self::JournalFailed { .. } => "journal_failed",
            Self::Configured { .. } => "configured",
            Self::NotConfigured { .. } => "not_configured",
            Self::Stopping => "stopping",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_json() {
        let carrier = EventKind::Carrier {
            port: "p0".into(),
            up: true,
        };
        let refused = EventKind::NotConfigured { reason: "x".into() };
        for kind in [carrier, refused, EventKind::Stopping] {
            let json = serde_json::to_value(&kind).expect("JSON");
            assert_eq!(json["event"], kind.name());
        }
    }
}
