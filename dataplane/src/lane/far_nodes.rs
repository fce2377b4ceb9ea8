//! Nodes beyond the neighbors, as reported to the host thread and in the status.
//!
//! Paths change repeatedly while trees are repaired, so the lane reports no intermediate state: it
//! checks the changes once at the end of the round. Lane 0 reports for the node. Every other lane
//! is joined to it and has the same information.

use std::collections::{BTreeMap, BTreeSet};

use covalent_api::{
    event::{EventKind, FABRIC_PROBLEMS},
    guid::Guid,
    status::{Causes, FabricStatus, FarNodeStatus, PathStatus},
};
use covalent_protocol::{
    Name, NodeEvent,
    tree::{Standing, TreeView},
};

use super::{Lane, command::Report};

/// The reported state of other nodes.
#[derive(Debug)]
pub struct FarNodes {
    /// Whether this lane speaks for the node.
    speaks: bool,
    /// GUIDs of the nodes whose path or name changed in this round.
    changed: BTreeSet<u64>,
    /// Nodes reported as reachable, with the reported names. The size of the trees bounds it: a
    /// node that they forget was unreachable before.
    reported: BTreeMap<u64, Name>,
}

impl FarNodes {
    /// Creates the state of lane `lane`, with nothing reported.
    pub const fn new(lane: u32) -> Self {
        Self {
            speaks: lane == 0,
            changed: BTreeSet::new(),
            reported: BTreeMap::new(),
        }
    }

    /// Handles an event of a tree. Returns the problem, if there is one. `ports` are the names of
    /// the lane's ports by number.
    pub fn on_tree_event(
        &mut self,
        event: NodeEvent,
        ports: &BTreeMap<u16, String>,
    ) -> Option<EventKind> {
        let [twin, too_many_nodes, too_many_links] = FABRIC_PROBLEMS;
        let (cause, reason, cure) = match event {
            NodeEvent::Attached { root, .. }
            | NodeEvent::Lost { root }
            | NodeEvent::Called { root, .. } => {
                if self.speaks {
                    self.changed.insert(root);
                }
                return None;
            }
            NodeEvent::Twin => (
                twin,
                "another reachable node has this node's GUID".to_owned(),
                "one machine's `node.state_dir` was copied from the other's: on one of them stop \
                 the daemon, remove the file `guid` in that directory, and start it again: it \
                 generates another",
            ),
            NodeEvent::Full { root } if self.speaks => (
                too_many_nodes,
                format!("there is no room for node {root:016x}, and perhaps for more"),
                "raise `fabric.roots_max`",
            ),
            // Lane 0 reports the same problem.
            NodeEvent::Full { .. } => return None,
            NodeEvent::NoNeighborIndex { port } => (
                too_many_links,
                format!(
                    "the link of port `{}` does not forward to nodes beyond it: the maximum number \
                     of links of its lane is up",
                    ports.get(&port).map_or("?", String::as_str)
                ),
                "move the port to another lane",
            ),
        };
        Some(EventKind::FabricProblem {
            cause: cause.to_owned(),
            reason,
            cure: cure.to_owned(),
        })
    }
}

impl Lane {
    /// Reports the nodes that have become reachable or unreachable.
    pub(super) fn report_far_nodes(&mut self) {
        while let Some(guid) = self.housekeeping.reports.far_nodes.changed.pop_first() {
            let Some(id) = Guid::new(guid).filter(|id| *id != self.settings.address) else {
                continue;
            };
            let tree = self.ports.node.tree(guid);
            let reported = &mut self.housekeeping.reports.far_nodes.reported;
            let event = match tree {
                Some(TreeView {
                    standing: Standing::Attached,
                    name: Some(name),
                    hops,
                    parent,
                    ..
                }) if reported.get(&guid) != Some(&name) => {
                    reported.insert(guid, name);
                    EventKind::NodeReachable {
                        guid: id,
                        name: name.to_string(),
                        hops,
                        port: self.port_of(parent).unwrap_or_default(),
                    }
                }
                None
                | Some(TreeView {
                    standing: Standing::Lost,
                    ..
                }) => {
                    let Some(name) = reported.remove(&guid) else {
                        continue;
                    };
                    EventKind::NodeUnreachable {
                        guid: id,
                        name: name.to_string(),
                    }
                }
                // Its name is still to come, or its way is being looked for, or nothing is new.
                Some(_) => continue,
            };
            self.housekeeping.reports.push(Report::Event(event));
        }
    }

    /// The name of the port at which a neighbor in a tree is.
    fn port_of(&self, neighbor_index: Option<u8>) -> Option<String> {
        let port = self.ports.node.port_at(neighbor_index?)?;
        self.housekeeping.reports.port_names.get(&port).cloned()
    }

    /// Returns the counters of trees and paths; `None` if this lane takes no part in them, or knows
    /// no node yet. The node counts exclude this lane's own address.
    pub(super) fn fabric_status(&self) -> Option<FabricStatus> {
        self.ports.node.trees().next()?;
        let own = self.settings.address.bits();
        let counters = self.ports.node.tree_counters();
        let paths = self.ports.node.channel_counters();
        let mut status = FabricStatus {
            paths: Causes::from([
                ("opened".to_owned(), paths.opened),
                ("refused".to_owned(), paths.refused),
                ("accepted".to_owned(), paths.accepted),
                ("joined".to_owned(), paths.joined),
                ("declined".to_owned(), paths.declined),
            ]),
            transits: self.ports.node.transits() as u64,
            passed_records: paths.passed_records,
            dropped_records: paths.dropped_records,
            repairs: Causes::from([
                ("at_once".to_owned(), counters.repaired_at_once),
                ("sought".to_owned(), counters.repaired_by_search),
                ("after_loss".to_owned(), counters.found_again),
            ]),
            losses: counters.lost,
            shortened: counters.shortened,
            waves: counters.waves,
            ..FabricStatus::default()
        };
        for tree in self.ports.node.trees().filter(|tree| tree.root != own) {
            match tree.standing {
                Standing::Attached => status.reached += 1,
                Standing::Lost => status.lost += 1,
                Standing::Searches => {}
            }
            status.hops_max = status.hops_max.max(tree.hops.into());
        }
        Some(status)
    }

    /// Its paths. Allocates.
    pub(super) fn path_status(&self) -> Vec<PathStatus> {
        let paths = self.ports.node.paths();
        paths
            .filter_map(|path| {
                Some(PathStatus {
                    lane: self.settings.lane,
                    far: Guid::new(path.far)?,
                    far_name: path.link.peer_name.map(ToString::to_string),
                    opener: path.opener,
                    state: path.link.state.as_str().to_owned(),
                    open_transactions: path.link.open_transactions,
                })
            })
            .collect()
    }

    /// Returns the other nodes that this lane knows, by GUID. Allocates: for a command, never on
    /// the packet path.
    pub(super) fn far_node_status(&self) -> Vec<FarNodeStatus> {
        let own = self.settings.address.bits();
        let others = self.ports.node.trees().filter(|tree| tree.root != own);
        others
            .filter_map(|tree| {
                let is_reached = tree.standing == Standing::Attached;
                Some(FarNodeStatus {
                    guid: Guid::new(tree.root)?,
                    name: tree.name.map(|name| name.to_string()),
                    standing: match tree.standing {
                        Standing::Attached => "reached",
                        Standing::Searches => "seeking",
                        Standing::Lost => "lost",
                    }
                    .to_owned(),
                    hops: is_reached.then_some(tree.hops),
                    port: self.port_of(tree.parent),
                })
            })
            .collect()
    }
}
