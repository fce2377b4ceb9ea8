//! Events of a node, as pushed to subscribers.

use serde::{Deserialize, Serialize};

use crate::{guid::Guid, refusal::LinkRefusal};

/// One event, with the daemon's own event count so that a reader detects missed events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct Event {
    /// Counts up by one for each event of this daemon since it started.
    pub sequence: u64,
    /// Nanoseconds of CLOCK_REALTIME when the daemon saw it. For people; no decision depends on it.
    pub realtime_ns: u64,
    /// The event that occurred.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Causes of [`EventKind::FabricProblem`]: another node uses this node's GUID, there are more nodes
/// than `fabric.roots_max`, or one lane has more links than can take part.
pub const FABRIC_PROBLEMS: [&str; 3] = ["twin", "too_many_nodes", "too_many_links"];

/// The kinds of event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum EventKind {
    /// A link is up under a new epoch: both ends hold the same state.
    LinkUp {
        /// Name of the local port.
        port: String,
        /// The node at the other end.
        peer: Guid,
        /// The peer's configured name.
        peer_name: String,
        /// The peer's number of its own port at the other end.
        peer_port: u16,
        /// The epoch that both ends hold.
        epoch: u32,
    },
    /// A link is down; its open exchanges are being resolved.
    LinkDown {
        /// Name of the local port.
        port: String,
        /// The evidence, for example `carrier lost`, `sequence gap`, `peer silent`.
        reason: String,
        /// Exchanges that were open here when it went down.
        open_transactions: u32,
    },
    /// A link does not come up although the other end answers, or the reason for it has changed
    /// since the last event.
    LinkRefused {
        /// Name of the local port.
        port: String,
        /// The problem, and how to resolve it.
        refusal: LinkRefusal,
    },
    /// The problem that kept a link down is no longer detected.
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
    /// The device of a port no longer exists, for example because the interface was removed. Its
    /// pipes wait as after a loss of carrier.
    PortAbsent {
        /// Name of the port.
        port: String,
        /// The device that no longer exists, and how to resolve it.
        reason: String,
    },
    /// A port was opened while the daemon runs: its device appeared or returned, or the port was
    /// reopened.
    PortOpened {
        /// Name of the port.
        port: String,
    },
    /// Another node is reachable, directly or through others: for the first time, again, or under
    /// another name.
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
    /// Another node is no longer reachable, as far as this node knows: it queried every neighbor.
    /// The event may be reversed at once if another node is still searching for a path.
    NodeUnreachable {
        /// Its GUID.
        guid: Guid,
        /// Its name.
        name: String,
    },
    /// A problem makes this node's presence, or its knowledge of others, incomplete.
    FabricProblem {
        /// The kind of problem: one of [`FABRIC_PROBLEMS`].
        cause: String,
        /// The problem, with the affected object.
        reason: String,
        /// How to resolve it.
        cure: String,
    },
    /// An application attached.
    Attached {
        /// The daemon's number for the session.
        session: u64,
        /// Process id of the application.
        pid: u32,
        /// The name that it gave itself.
        program: String,
    },
    /// An application is gone and everything that it held is reclaimed.
    Detached {
        /// The daemon's number for the session.
        session: u64,
        /// The reason: `closed`, `process ended`, or its violation.
        reason: String,
        /// Pipes reclaimed.
        pipes: u32,
        /// Regions reclaimed.
        regions: u32,
    },
    /// The journal of a lane has failed. From now on the lane refuses verbs on its durable regions.
    /// This daemon never acknowledges verbs that were executed but not yet reported.
    JournalFailed {
        /// The lane.
        lane: u32,
        /// The error, the affected file, and how to resolve it.
        reason: String,
    },
    /// Another configuration is in force: control and every lane hold the same revision.
    Configured {
        /// The revision.
        epoch: u64,
        /// Keys whose value changed.
        changed: Vec<String>,
    },
    /// A configuration was refused; nothing has changed.
    NotConfigured {
        /// Why.
        reason: String,
    },
    /// The daemon shuts down gracefully. A client that agreed with it on a configuration receives
    /// this event even without a subscription.
    Stopping,
    /// An event that only a later version defines. Its fields are lost. Its number and its time are
    /// kept. No daemon raises it.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// The name in JSON, in metrics and in the telemetry schema.
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
