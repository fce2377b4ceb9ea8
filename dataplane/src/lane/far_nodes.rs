//! Nodes beyond the neighbours, as the host thread and whoever asks for the status hear of them.
//!
//! Ways change one after the other while trees are repaired, so nothing is told in the midst of it: what changed is looked at once at the end of the round.
//! Lane 0 speaks for the node; each other lane is joined with it and knows the same.

use std::collections::{BTreeMap, BTreeSet};

use covalent_api::{
    event::{EventKind, FABRIC_PROBLEMS},
    guid::Guid,
    status::{Causes, FabricStatus, FarNodeStatus},
};
use covalent_protocol::{
    Name, NodeEvent,
    tree::{Standing, TreeView},
};

use super::{Lane, command::Report};

/// What was told of other nodes.
#[derive(Debug)]
pub struct FarNodes {
    /// Whether this lane speaks for the node.
    speaks: bool,
    /// GUIDs of those whose way or name changed in this round.
    changed: BTreeSet<u64>,
    /// Those that were told to be reached, and by which name. No more than trees have room for: who is forgotten there was lost before.
    told: BTreeMap<u64, Name>,
}

impl FarNodes {
    /// Nothing was told by the lane `lane`.
    pub const fn new(lane: u32) -> Self {
        Self {
            speaks: lane == 0,
            changed: BTreeSet::new(),
            told: BTreeMap::new(),
        }
    }

    /// Hears what happened to a tree. Returns what is wrong, if something is; `ports` are the names of the lane's ports by their numbers.
    pub fn hear(&mut self, event: NodeEvent, ports: &BTreeMap<u16, String>) -> Option<EventKind> {
        let [twin, too_many_nodes, too_many_links] = FABRIC_PROBLEMS;
        let (cause, reason, cure) = match event {
            NodeEvent::Hangs { root, .. }
            | NodeEvent::Lost { root }
            | NodeEvent::Called { root, .. } => {
                if self.speaks {
                    self.changed.insert(root);
                }
                return None;
            }
            NodeEvent::Twin => (
                twin,
                "another node that can be reached says this node's GUID".to_owned(),
                "one machine's `node.state_dir` was copied from the other's: on one of them end the daemon, remove the file `guid` in that \
                 directory, and start it again: it draws another",
            ),
            NodeEvent::Full { root } if self.speaks => (
                too_many_nodes,
                format!("there is no room for node {root:016x}, and perhaps for more"),
                "raise `fabric.roots_max`",
            ),
            // Lane 0 tells the same.
            NodeEvent::Full { .. } => return None,
            NodeEvent::NoBerth { port } => (
                too_many_links,
                format!(
                    "the link of port `{}` passes on nothing of nodes beyond it: as many links of its lane are up as can",
                    ports.get(&port).map_or("?", String::as_str)
                ),
                "give the port to another lane",
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
    /// Tells which nodes can be reached now and could not before, or the other way round.
    pub(super) fn tell_far_nodes(&mut self) {
        while let Some(guid) = self.core.far_nodes.changed.pop_first() {
            let Some(id) = Guid::new(guid).filter(|id| *id != self.settings.address) else {
                continue;
            };
            let tree = self.node.tree(guid);
            let told = &mut self.core.far_nodes.told;
            let event = match tree {
                Some(TreeView {
                    standing: Standing::Hangs,
                    name: Some(name),
                    hops,
                    parent,
                    ..
                }) if told.get(&guid) != Some(&name) => {
                    told.insert(guid, name);
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
                    let Some(name) = told.remove(&guid) else {
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
            self.core.outbox.push(Report::Event(event));
        }
    }

    /// The name of the port at which a neighbour in a tree is.
    fn port_of(&self, berth: Option<u8>) -> Option<String> {
        let port = self.node.port_at(berth?)?;
        self.core.port_names.get(&port).cloned()
    }

    /// What trees counted; `None` where this lane takes no part in them.
    pub(super) fn fabric_status(&self) -> Option<FabricStatus> {
        let own = self.settings.address.bits();
        self.node.tree(own)?;
        let counters = self.node.tree_counters();
        let mut status = FabricStatus {
            repairs: Causes::from([
                ("at_once".to_owned(), counters.repaired_at_once),
                ("sought".to_owned(), counters.repaired_by_seeking),
                ("after_loss".to_owned(), counters.found_again),
            ]),
            losses: counters.lost,
            shortened: counters.shortened,
            waves: counters.waves,
            ..FabricStatus::default()
        };
        for tree in self.node.trees().filter(|tree| tree.root != own) {
            match tree.standing {
                Standing::Hangs => status.reached += 1,
                Standing::Lost => status.lost += 1,
                Standing::Seeks => {}
            }
            status.hops_max = status.hops_max.max(tree.hops.into());
        }
        Some(status)
    }

    /// The other nodes that this lane knows, by their GUIDs. Allocates: for a command, never on the way of a packet.
    pub(super) fn far_node_status(&self) -> Vec<FarNodeStatus> {
        let own = self.settings.address.bits();
        let others = self.node.trees().filter(|tree| tree.root != own);
        others
            .filter_map(|tree| {
                let is_reached = tree.standing == Standing::Hangs;
                Some(FarNodeStatus {
                    guid: Guid::new(tree.root)?,
                    name: tree.name.map(|name| name.to_string()),
                    standing: match tree.standing {
                        Standing::Hangs => "reached",
                        Standing::Seeks => "seeking",
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
