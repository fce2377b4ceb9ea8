//! The neighbor table: the nodes at the other ends of this node's links.
//!
//! The daemon's status fills it, and the daemon's events update it. It is empty while there is no
//! daemon.

use std::collections::{BTreeMap, BTreeSet};

use covalent_api::{
    control::{LinkBrief, Neighbor},
    event::{Event, EventKind},
    guid::Guid,
    status::{LinkStatus, NodeStatus},
};

/// Known state of this node's links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// The daemon's identity; `None` while there is no daemon.
    daemon: Option<Guid>,
    /// By the name of the port.
    links: BTreeMap<String, LinkBrief>,
    /// Ports with an event since the last status request to the daemon.
    reported: BTreeSet<String>,
    /// Ports that have no device.
    absent: BTreeSet<String>,
    /// How often a port was reported without a device.
    port_losses: u64,
}

impl Neighbors {
    /// The daemon introduced itself.
    pub fn connected(&mut self, guid: Guid) {
        self.links.clear();
        self.reported.clear();
        self.daemon = Some(guid);
    }

    /// The daemon is gone, and with it all that was known.
    pub fn disconnected(&mut self) {
        *self = Self::default();
    }

    /// The daemon's identity; `None` while there is no daemon.
    #[must_use]
    pub const fn daemon(&self) -> Option<Guid> {
        self.daemon
    }

    /// How often this daemon reported that a port has no device, no longer or not yet.
    #[must_use]
    pub const fn port_losses(&self) -> u64 {
        self.port_losses
    }

    /// A status request is sent to the daemon now.
    pub fn requested(&mut self) {
        self.reported.clear();
    }

    /// Applies the daemon's status. Keeps state that only events report, and all state from events
    /// since the status request. The daemon assembles a status lane by lane, so a lane's part may
    /// be older than an event received in the meantime.
    pub fn refresh(&mut self, status: &NodeStatus) {
        let mut before = std::mem::take(&mut self.links);
        for link in &status.links {
            let link = match before.remove(&link.port) {
                Some(seen) if self.reported.contains(&link.port) => seen,
                seen => brief(link, seen),
            };
            self.links.insert(link.port.clone(), link);
        }
        let ports = status.ports.iter().filter(|port| port.absent.is_some());
        let absent = ports.map(|port| port.name.clone()).collect();
        let before = std::mem::replace(&mut self.absent, absent);
        // The event of it may have been missed.
        self.port_losses += u64::from(!self.absent.is_subset(&before));
    }

    /// Applies an event. Events that do not concern links or devices of ports change nothing.
    pub fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::LinkUp {
                port,
                peer,
                peer_name,
                peer_port,
                epoch,
            } => {
                let link = self.link(port);
                link.up = true;
                link.peer = Some(*peer);
                link.peer_name = Some(peer_name.clone());
                link.peer_port = Some(*peer_port);
                link.epoch = *epoch;
                link.changed_realtime_ns = Some(event.realtime_ns);
            }
            EventKind::LinkDown { port, reason, .. } => {
                let link = self.link(port);
                link.up = false;
                link.last_failure = Some(reason.clone());
                link.changed_realtime_ns = Some(event.realtime_ns);
            }
            EventKind::PortAbsent { port, .. } => {
                self.absent.insert(port.clone());
                self.port_losses += 1;
            }
            EventKind::PortOpened { port } => {
                self.absent.remove(port);
            }
            EventKind::LinkRefused { .. }
            | EventKind::LinkRefusalOver { .. }
            | EventKind::Carrier { .. }
            | EventKind::NodeReachable { .. }
            | EventKind::NodeUnreachable { .. }
            | EventKind::FabricProblem { .. }
            | EventKind::Attached { .. }
            | EventKind::Detached { .. }
            | EventKind::JournalFailed { .. }
            | EventKind::Configured { .. }
            | EventKind::NotConfigured { .. }
            | EventKind::Stopping
            | EventKind::Unknown => {}
        }
    }

    /// Every link, sorted by port name.
    #[must_use]
    pub fn links(&self) -> Vec<LinkBrief> {
        self.links.values().cloned().collect()
    }

    /// Every known neighbor, sorted by GUID, with the present and former links to it.
    #[must_use]
    pub fn neighbors(&self) -> Vec<Neighbor> {
        let mut neighbors: BTreeMap<Guid, Neighbor> = BTreeMap::new();
        for link in self.links.values() {
            let Some(guid) = link.peer else { continue };
            let name = link.peer_name.clone().unwrap_or_default();
            let neighbor = neighbors.entry(guid).or_insert_with(|| Neighbor {
                guid,
                name,
                links: Vec::new(),
            });
            neighbor.links.push(link.clone());
        }
        neighbors.into_values().collect()
    }

    fn link(&mut self, port: &str) -> &mut LinkBrief {
        self.reported.insert(port.to_owned());
        self.links
            .entry(port.to_owned())
            .or_insert_with(|| LinkBrief {
                port: port.to_owned(),
                up: false,
                peer: None,
                peer_name: None,
                peer_port: None,
                epoch: 0,
                last_failure: None,
                changed_realtime_ns: None,
            })
    }
}

fn brief(link: &LinkStatus, seen: Option<LinkBrief>) -> LinkBrief {
    let (last_failure, changed_realtime_ns) = seen.map_or((None, None), |seen| {
        (seen.last_failure, seen.changed_realtime_ns)
    });
    LinkBrief {
        port: link.port.clone(),
        up: link.state == "up",
        peer: link.peer,
        peer_name: link.peer_name.clone(),
        peer_port: link.peer_port,
        epoch: link.epoch,
        last_failure,
        changed_realtime_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guid(bits: u64) -> Guid {
        Guid::new(bits).expect("not zero")
    }

    fn up(port: &str, peer: u64, epoch: u32) -> Event {
        let kind = EventKind::LinkUp {
            port: port.into(),
            peer: guid(peer),
            peer_name: format!("n{peer}"),
            peer_port: 0,
            epoch,
        };
        Event {
            sequence: 0,
            realtime_ns: 7,
            kind,
        }
    }

    #[test]
    fn two_links_to_one_node_are_one_neighbor() {
        let mut table = Neighbors::default();
        table.connected(guid(1));
        for event in [up("p1", 9, 1), up("p0", 9, 2), up("p2", 5, 1)] {
            table.apply(&event);
        }
        let neighbors = table.neighbors();
        let names: Vec<&str> = neighbors
            .iter()
            .map(|neighbor| neighbor.name.as_str())
            .collect();
        assert_eq!(names, ["n5", "n9"]);
        let ports: Vec<&str> = neighbors[1]
            .links
            .iter()
            .map(|link| link.port.as_str())
            .collect();
        assert_eq!(ports, ["p0", "p1"]);
    }

    #[test]
    fn a_failed_link_keeps_its_peer_and_its_reason() {
        let mut table = Neighbors::default();
        table.apply(&up("p0", 9, 3));
        let kind = EventKind::LinkDown {
            port: "p0".into(),
            reason: "carrier lost".into(),
            open_transactions: 2,
        };
        table.apply(&Event {
            sequence: 1,
            realtime_ns: 8,
            kind,
        });
        let link = &table.links()[0];
        assert!(!link.up);
        assert_eq!(link.peer, Some(guid(9)));
        assert_eq!(link.last_failure.as_deref(), Some("carrier lost"));
        assert_eq!(link.changed_realtime_ns, Some(8));
    }

    #[test]
    fn nothing_is_known_without_a_daemon() {
        let mut table = Neighbors::default();
        table.connected(guid(1));
        table.apply(&up("p0", 9, 1));
        table.disconnected();
        assert_eq!(table, Neighbors::default());
    }
}
