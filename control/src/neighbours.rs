//! The neighbour table: which nodes are at the other ends of this node's links.
//!
//! It is filled by the daemon's status and kept by its events; it holds nothing while there is no daemon.

use std::collections::{BTreeMap, BTreeSet};

use covalent_api::{
    control::{LinkBrief, Neighbour},
    event::{Event, EventKind},
    guid::Guid,
    status::{LinkStatus, NodeStatus},
};

/// What is known of this node's links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The daemon's identity; `None` while there is no daemon.
    daemon: Option<Guid>,
    /// By the name of the port.
    links: BTreeMap<String, LinkBrief>,
    /// Ports of which an event told since the daemon was last asked for its status.
    told: BTreeSet<String>,
    /// Ports that have no device.
    absent: BTreeSet<String>,
    /// How often one was heard to have none.
    port_losses: u64,
}

impl Neighbours {
    /// The daemon introduced itself.
    pub fn connected(&mut self, guid: Guid) {
        self.links.clear();
        self.told.clear();
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

    /// How often this daemon was heard to have no device for a port any more, or not yet.
    #[must_use]
    pub const fn port_losses(&self) -> u64 {
        self.port_losses
    }

    /// The daemon is asked for its status now.
    pub fn asked(&mut self) {
        self.told.clear();
    }

    /// Takes over what the daemon says now. What only events tell is kept, and so is all that one told since the daemon was asked: a status
    /// is put together lane by lane, so a lane's part may be older than an event that came meanwhile.
    pub fn refresh(&mut self, status: &NodeStatus) {
        let mut before = std::mem::take(&mut self.links);
        for link in &status.links {
            let link = match before.remove(&link.port) {
                Some(seen) if self.told.contains(&link.port) => seen,
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

    /// Takes over what an event says. Those that are not about links or devices of ports change nothing.
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

    /// Every link, in order of the ports' names.
    #[must_use]
    pub fn links(&self) -> Vec<LinkBrief> {
        self.links.values().cloned().collect()
    }

    /// Every node that was met, in order of the GUIDs, with the links that lead or led there.
    #[must_use]
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let mut neighbours: BTreeMap<Guid, Neighbour> = BTreeMap::new();
        for link in self.links.values() {
            let Some(guid) = link.peer else { continue };
            let name = link.peer_name.clone().unwrap_or_default();
            let neighbour = neighbours.entry(guid).or_insert_with(|| Neighbour {
                guid,
                name,
                links: Vec::new(),
            });
            neighbour.links.push(link.clone());
        }
        neighbours.into_values().collect()
    }

    fn link(&mut self, port: &str) -> &mut LinkBrief {
        self.told.insert(port.to_owned());
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
    fn two_links_to_one_node_are_one_neighbour() {
        let mut table = Neighbours::default();
        table.connected(guid(1));
        for event in [up("p1", 9, 1), up("p0", 9, 2), up("p2", 5, 1)] {
            table.apply(&event);
        }
        let neighbours = table.neighbours();
        let names: Vec<&str> = neighbours
            .iter()
            .map(|neighbour| neighbour.name.as_str())
            .collect();
        assert_eq!(names, ["n5", "n9"]);
        let ports: Vec<&str> = neighbours[1]
            .links
            .iter()
            .map(|link| link.port.as_str())
            .collect();
        assert_eq!(ports, ["p0", "p1"]);
    }

    #[test]
    fn a_link_that_fails_keeps_its_peer_and_says_why() {
        let mut table = Neighbours::default();
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
        let mut table = Neighbours::default();
        table.connected(guid(1));
        table.apply(&up("p0", 9, 1));
        table.disconnected();
        assert_eq!(table, Neighbours::default());
    }
}
