//! A state: nodes, links, control messages in flight.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
    sync::Arc,
};

use covalent_protocol::{
    Name,
    tree::{
        NeighborSet, Standing, TreeEvent, TreeView, Trees, TreesConfig,
        note::{CONTROL_MESSAGE_BYTES_MAX, ControlMessage, Item},
    },
};

use super::{
    mutant::Mutant,
    scenario::{Budget, Scenario},
};
use crate::check::is_same;

/// Control messages in flight in one direction before the next one is written.
const IN_FLIGHT_MAX: usize = 2;

/// One end of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct End {
    /// The epoch in which it is up here; `None` while it is down.
    pub up: Option<u8>,
    /// Control messages in flight to this end.
    pub coming: VecDeque<Arc<[u8]>>,
    /// The item of the tree that was received last, for mutants.
    last: Option<ReceivedItem>,
}

/// A received item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReceivedItem(Item);

impl Hash for ReceivedItem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Item {
            root,
            label,
            hops,
            incarnation,
            attached,
            child,
            nameless,
        } = self.0;
        (root, label, hops, incarnation, attached, child, nameless).hash(state);
    }
}

/// A state of the search.
#[derive(Clone)]
pub struct World {
    /// The production state machines. Shared with the states before and after in which nothing
    /// happens to them.
    pub nodes: Vec<Arc<Trees>>,
    /// Both ends of each cable.
    pub links: Vec<[End; 2]>,
    /// The epoch that each cable had last.
    pub epochs: Vec<u8>,
    /// Of each cable: one end of it begins an epoch, and the other one will; it did not fail there.
    pub is_coming_up: Vec<bool>,
    /// The faults so far.
    pub spent: Budget,
    /// Ticks of each node.
    pub ticks: Vec<u8>,
    /// A label went back.
    pub went_backward: bool,
    mutant: Mutant,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.nodes, &self.links, &self.epochs, &self.is_coming_up).hash(state);
        (self.spent, &self.ticks, self.went_backward).hash(state);
    }
}

/// As the search does, which knows a state by its hash alone.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        is_same(self, other)
    }
}

/// The GUID of a node.
const fn guid(node: usize) -> u64 {
    0xa00 + 0x100 * node as u64
}

/// The root that is followed.
pub const ROOT: u64 = guid(0);

/// Returns the neighbor index of an end at its node: its position among the cables of the node.
fn neighbor_index(scenario: &Scenario, cable: usize, end: usize) -> u8 {
    let node = scenario.cables[cable][end];
    let before = scenario.cables[..cable].iter();
    before.filter(|ends| ends.contains(&node)).count() as u8
}

fn trees(scenario: &Scenario, node: usize) -> Trees {
    let mut trees = Trees::new(&TreesConfig {
        guid: guid(node),
        incarnation: 1,
        name: Name::new("n").unwrap_or_else(|_| unreachable!("it is one")),
        roots: node == 0,
        roots_max: 4,
    });
    for _ in scenario.cables.iter().filter(|ends| ends.contains(&node)) {
        trees.add_neighbor();
    }
    trees
}

impl World {
    /// The starts of a scenario: everything is settled, or one table holds something else.
    #[must_use]
    pub fn starts(scenario: &Scenario) -> Vec<Self> {
        let mut world = Self {
            nodes: (0..scenario.nodes())
                .map(|node| Arc::new(trees(scenario, node)))
                .collect(),
            links: vec![<[End; 2]>::default(); scenario.cables.len()],
            epochs: vec![0; scenario.cables.len()],
            is_coming_up: vec![false; scenario.cables.len()],
            spent: Budget::default(),
            ticks: vec![0; scenario.nodes()],
            went_backward: false,
            mutant: Mutant::None,
        };
        for cable in 0..scenario.cables.len() {
            world.come_up(scenario, cable, 0);
            world.come_up(scenario, cable, 1);
        }
        // Settling takes the steps in one order here. The search takes them in all orders later.
        while let Some((cable, end)) = world.any_message(scenario) {
            if world.links[cable][end].coming.is_empty() {
                world.send(scenario, cable, 1 - end);
            } else {
                world.receive(scenario, cable, end);
            }
        }
        // Of a mutant that is no mistake of settling.
        world.mutant = scenario.mutant;
        world.went_backward = false;
        let Some((node, variants)) = scenario.garbage else {
            return vec![world];
        };
        (0..variants)
            .map(|seed| {
                let mut start = world.clone();
                Arc::make_mut(&mut start.nodes[node]).scramble(seed);
                start
            })
            .collect()
    }

    /// Returns an end to which a control message is in flight, or would be.
    fn any_message(&self, scenario: &Scenario) -> Option<(usize, usize)> {
        let ends = (0..self.links.len()).flat_map(|cable| [(cable, 0), (cable, 1)]);
        let mut ends = ends;
        ends.find(|&(cable, end)| {
            self.can_receive(cable, end) || self.can_send(scenario, cable, 1 - end)
        })
    }

    /// Whether a note can be taken at an end.
    #[must_use]
    pub fn can_receive(&self, cable: usize, end: usize) -> bool {
        let end = &self.links[cable][end];
        end.up.is_some() && !end.coming.is_empty()
    }

    /// Whether the node at an end has a control message to send there, and there is space for it.
    #[must_use]
    pub fn can_send(&self, scenario: &Scenario, cable: usize, end: usize) -> bool {
        let [here, there] = [&self.links[cable][end], &self.links[cable][1 - end]];
        let node = scenario.cables[cable][end];
        let waits = || self.nodes[node].next_message_bytes(neighbor_index(scenario, cable, end));
        here.up.is_some() && there.coming.len() < IN_FLIGHT_MAX && waits().is_some()
    }

    /// The node at an end writes its next note there.
    pub fn send(&mut self, scenario: &Scenario, cable: usize, end: usize) {
        let node = scenario.cables[cable][end];
        let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
        let trees = Arc::make_mut(&mut self.nodes[node]);
        let Some(len) =
            trees.take_control_message(neighbor_index(scenario, cable, end), &mut space)
        else {
            return;
        };
        let [here, there] = [end, 1 - end].map(|end| self.links[cable][end].up);
        // A control message of an epoch that the other end has left is lost.
        if there.is_none_or(|there| Some(there) == here) && here == Some(self.epochs[cable]) {
            let note = space[..len].into();
            self.links[cable][1 - end].coming.push_back(note);
        }
    }

    /// The node at an end takes the next note.
    pub fn receive(&mut self, scenario: &Scenario, cable: usize, end: usize) {
        let node = scenario.cables[cable][end];
        let place = &mut self.links[cable][end];
        let Some(note) = place.coming.pop_front() else {
            return;
        };
        let last = place.last.map(|received| received.0);
        let received = self.mutant.receive(&self.nodes[node], last, &note);
        if self.mutant != Mutant::None
            && let Ok(ControlMessage::Advert(items)) = ControlMessage::read(&received)
        {
            place.last = items.last().map(ReceivedItem);
        }
        if !received.is_empty() {
            self.input(node, |trees| {
                // An honest node sends nothing unreadable.
                let neighbor_index = neighbor_index(scenario, cable, end);
                let _ = trees.on_control_message(neighbor_index, &received, &mut |_: TreeEvent| {});
            });
        }
    }

    /// A link fails at an end, and the control messages in flight to it are lost.
    pub fn fail(&mut self, scenario: &Scenario, cable: usize, end: usize) {
        self.links[cable][end] = End::default();
        let node = scenario.cables[cable][end];
        let neighbor_index = neighbor_index(scenario, cable, end);
        self.input(node, |trees| {
            trees.on_down(neighbor_index, &mut |_: TreeEvent| {})
        });
    }

    /// A link comes up at an end: the first one begins an epoch.
    pub fn come_up(&mut self, scenario: &Scenario, cable: usize, end: usize) {
        self.is_coming_up[cable] = self.links[cable][1 - end].up.is_none();
        if self.is_coming_up[cable] {
            self.epochs[cable] += 1;
            for end in &mut self.links[cable] {
                end.coming.clear();
            }
        }
        self.links[cable][end].up = Some(self.epochs[cable]);
        let node = scenario.cables[cable][end];
        let neighbor_index = neighbor_index(scenario, cable, end);
        self.input(node, |trees| {
            trees.on_up(neighbor_index, &mut |_: TreeEvent| {})
        });
    }

    /// A tick of a node, while nothing is in flight.
    pub fn tick(&mut self, node: usize) {
        self.ticks[node] += 1;
        self.input(node, |trees| {
            let received: NeighborSet = trees.up();
            trees.on_tick(received, &mut |_: TreeEvent| {});
        });
    }

    fn input(&mut self, node: usize, happens: impl FnOnce(&mut Trees)) {
        let trees = Arc::make_mut(&mut self.nodes[node]);
        let before = trees.tree(ROOT).map(|tree| tree.label);
        happens(trees);
        let after = trees.tree(ROOT).map(|tree| tree.label);
        if let (Some(before), Some(after)) = (before, after) {
            self.went_backward |= before.is_nearer(after);
        }
    }

    /// How a node sees the tree.
    #[must_use]
    pub fn view(&self, node: usize) -> Option<TreeView> {
        self.nodes[node].tree(ROOT)
    }

    /// Whether a node is attached.
    #[must_use]
    pub fn attached(&self, node: usize) -> bool {
        let view = self.view(node);
        view.is_some_and(|view| view.standing == Standing::Attached)
    }

    /// Whether a cable is up at both ends in one epoch.
    #[must_use]
    pub fn is_whole(&self, cable: usize) -> bool {
        let [a, b] = &self.links[cable];
        a.up.is_some() && a.up == b.up
    }

    /// The parent of a node, if the link to it is up at both ends.
    #[must_use]
    pub fn live_parent(&self, scenario: &Scenario, node: usize) -> Option<usize> {
        let parent = self.view(node)?.parent?;
        let mut neighbors = self.live_neighbors(scenario, node);
        let (_, parent) = neighbors.find(|(neighbor_index, _)| *neighbor_index == parent)?;
        Some(parent)
    }

    /// Returns the neighbors that a node keeps as its children, in order, among those whose link is
    /// up at both ends.
    #[must_use]
    pub fn live_children(&self, scenario: &Scenario, node: usize) -> Vec<usize> {
        let Some(view) = self.view(node) else {
            return Vec::new();
        };
        let neighbors = self.live_neighbors(scenario, node);
        let children =
            neighbors.filter(|(neighbor_index, _)| view.children.contains(*neighbor_index));
        let mut children: Vec<usize> = children.map(|(_, neighbor)| neighbor).collect();
        children.sort_unstable();
        children
    }

    /// Returns the neighbors of a node whose link is up at both ends, with their neighbor indices.
    fn live_neighbors<'a>(
        &'a self,
        scenario: &'a Scenario,
        node: usize,
    ) -> impl Iterator<Item = (u8, usize)> + 'a {
        let cables = (0..scenario.cables.len()).filter(|&cable| self.is_whole(cable));
        cables.filter_map(move |cable| {
            let ends = &scenario.cables[cable];
            let end = ends.iter().position(|at| *at == node)?;
            Some((neighbor_index(scenario, cable, end), ends[1 - end]))
        })
    }
}
