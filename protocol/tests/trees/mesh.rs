//! Nodes that run trees only, and the control messages in flight between them.

use std::collections::{BTreeMap, VecDeque};

use covalent_protocol::{
    Name,
    tree::{
        Label, NEIGHBORS_MAX, NeighborSet, Standing, TreeEvent, TreeView, Trees, TreesConfig,
        note::{CONTROL_MESSAGE_BYTES_MAX, ControlMessage},
    },
};
use fastrand::Rng;

/// One end of a cable.
#[derive(Clone, Copy)]
pub struct End {
    pub node: usize,
    /// Where the node has it, while its link is up.
    pub neighbor: Option<u8>,
}

/// A cable: control messages arrive once and in order while both ends are up, or the link fails at
/// both.
pub struct Cable {
    pub ends: [End; 2],
    /// Control messages in flight, by the receiving end.
    pub in_flight: [VecDeque<Vec<u8>>; 2],
}

pub struct Mesh {
    pub nodes: Vec<Trees>,
    pub cables: Vec<Cable>,
    pub events: Vec<Vec<TreeEvent>>,
    /// The nearest label that each node had in each tree: it never has a further one.
    nearest: Vec<BTreeMap<u64, Label>>,
    /// For each node and neighbor index: the cable and its end.
    at_neighbor: Vec<[Option<(usize, usize)>; NEIGHBORS_MAX]>,
    /// Number of times that everything in flight was delivered.
    pub flights: u32,
    /// Notes that were written, but for digests.
    pub news: u32,
    /// Whether it must hold now that there is no loop.
    pub is_checked: bool,
    /// Messages of lying cable ends, by cable and side, in place of those of their nodes.
    pub lies: BTreeMap<(usize, usize), VecDeque<Vec<u8>>>,
}

/// Nodes up to which everything is checked behind each note; with more it is behind each flight.
const CHECKED_CLOSELY_MAX: usize = 12;

/// GUID of the node with this number.
pub const fn guid(node: usize) -> u64 {
    (node as u64 + 1) << 8
}

pub fn config(node: usize, incarnation: u16) -> TreesConfig {
    TreesConfig {
        guid: guid(node),
        incarnation,
        name: Name::new(&format!("n{node}.{incarnation}")).unwrap(),
        roots: true,
        roots_max: 64,
    }
}

fn machine(config: &TreesConfig, neighbors: usize) -> Trees {
    let mut trees = Trees::new(config);
    for neighbor in 0..neighbors {
        assert_eq!(trees.add_neighbor(), Some(neighbor as u8));
    }
    trees
}

impl Mesh {
    /// All links down.
    pub fn new(nodes: usize, cables: &[(usize, usize)]) -> Self {
        Self {
            nodes: (0..nodes)
                .map(|node| machine(&config(node, 1), 16))
                .collect(),
            cables: cables
                .iter()
                .map(|&(a, b)| Cable {
                    ends: [a, b].map(|node| End {
                        node,
                        neighbor: None,
                    }),
                    in_flight: [VecDeque::new(), VecDeque::new()],
                })
                .collect(),
            events: vec![vec![]; nodes],
            nearest: vec![BTreeMap::new(); nodes],
            at_neighbor: vec![[None; NEIGHBORS_MAX]; nodes],
            flights: 0,
            news: 0,
            is_checked: true,
            lies: BTreeMap::new(),
        }
    }

    /// All links up, and everything settled.
    pub fn settled(nodes: usize, cables: &[(usize, usize)]) -> Self {
        let mut mesh = Self::new(nodes, cables);
        for cable in 0..cables.len() {
            mesh.mend(cable);
        }
        mesh.settle();
        mesh.truth();
        mesh.clear_events();
        mesh
    }

    pub fn clear_events(&mut self) {
        self.events.iter_mut().for_each(Vec::clear);
        self.flights = 0;
    }

    /// The cable between two nodes.
    pub fn cable(&self, a: usize, b: usize) -> usize {
        let joins = |cable: &Cable| {
            let [x, y] = cable.ends.map(|end| end.node);
            (x, y) == (a, b) || (y, x) == (a, b)
        };
        self.cables.iter().position(joins).unwrap()
    }

    pub fn is_up(&self, cable: usize) -> bool {
        self.cables[cable]
            .ends
            .iter()
            .all(|end| end.neighbor.is_some())
    }

    /// The link fails at one end. Earlier messages of that end may still arrive at the other one.
    pub fn fail_at(&mut self, cable: usize, side: usize) {
        let Cable { ends, in_flight } = &mut self.cables[cable];
        in_flight[side].clear();
        if let Some(neighbor) = ends[side].neighbor.take() {
            let node = ends[side].node;
            let events = &mut self.events[node];
            self.at_neighbor[node][usize::from(neighbor)] = None;
            self.nodes[node].on_down(neighbor, &mut |event| events.push(event));
        }
        self.check();
    }

    pub fn fail(&mut self, cable: usize) {
        self.fail_at(cable, 0);
        self.fail_at(cable, 1);
    }

    /// The link comes up at both ends, after it failed at both.
    pub fn mend(&mut self, cable: usize) {
        self.fail(cable);
        for side in [0, 1] {
            let end = &mut self.cables[cable].ends[side];
            let events = &mut self.events[end.node];
            let trees = &mut self.nodes[end.node];
            end.neighbor = trees.free_neighbor_index();
            self.at_neighbor[end.node][usize::from(end.neighbor.unwrap())] = Some((cable, side));
            trees.on_up(end.neighbor.unwrap(), &mut |event| events.push(event));
            self.update_bundle(cable, side);
        }
    }

    /// The node at this end knows which of its cables lead to the same neighbor.
    fn update_bundle(&mut self, cable: usize, side: usize) {
        let [node, neighbor_node] = [side, 1 - side].map(|at| self.cables[cable].ends[at].node);
        let leads_there = |at: &Option<(usize, usize)>| {
            at.is_some_and(|(cable, side)| self.cables[cable].ends[1 - side].node == neighbor_node)
        };
        let neighbors = (0..).zip(&self.at_neighbor[node]);
        let its = neighbors.filter(|(_, at)| leads_there(at));
        self.nodes[node].set_bundle(its.map(|(neighbor, _)| neighbor).collect());
    }

    /// A node loses its memory. Its links fail at both ends.
    pub fn restart(&mut self, node: usize, incarnation: u16) {
        self.restart_with(node, &config(node, incarnation));
    }

    /// The same, with another identity.
    pub fn restart_with(&mut self, node: usize, config: &TreesConfig) {
        for cable in self.cables_of(node) {
            self.fail(cable);
        }
        self.nodes[node] = machine(config, 16);
        self.nearest[node].clear();
    }

    pub fn cables_of(&self, node: usize) -> Vec<usize> {
        (0..self.cables.len())
            .filter(|&cable| self.cables[cable].ends.iter().any(|end| end.node == node))
            .collect()
    }

    /// The end at `side` writes its next note, of `space` bytes at most.
    pub fn write(&mut self, cable: usize, side: usize, space: usize) -> bool {
        let Cable { ends, in_flight } = &mut self.cables[cable];
        let Some(neighbor) = ends[side].neighbor else {
            return false;
        };
        if let Some(lies) = self.lies.get_mut(&(cable, side)) {
            let lie = lies.pop_front();
            let sends = lie.is_some();
            in_flight[1 - side].extend(lie);
            return sends;
        }
        let trees = &mut self.nodes[ends[side].node];
        let mut buffer = vec![0xee; space];
        let Some(len) = trees
            .next_message_bytes(neighbor)
            .filter(|&bytes| bytes <= space)
            .and_then(|_| trees.take_control_message(neighbor, &mut buffer))
        else {
            return false;
        };
        buffer.truncate(len);
        self.news += u32::from(!matches!(
            ControlMessage::read(&buffer),
            Ok(ControlMessage::Digest(_))
        ));
        in_flight[1 - side].push_back(buffer);
        true
    }

    /// The end at `side` receives the next control message.
    pub fn deliver(&mut self, cable: usize, side: usize) -> bool {
        let Cable { ends, in_flight } = &mut self.cables[cable];
        let (Some(note), Some(neighbor)) = (in_flight[side].pop_front(), ends[side].neighbor)
        else {
            return false;
        };
        let node = ends[side].node;
        let events = &mut self.events[node];
        self.nodes[node]
            .on_control_message(neighbor, &note, &mut |event| events.push(event))
            .unwrap();
        if self.nodes.len() <= CHECKED_CLOSELY_MAX {
            self.check();
        }
        true
    }

    /// All nodes write all their messages, then receive all of them. Returns whether there were
    /// any.
    pub fn fly(&mut self) -> bool {
        let mut moved = false;
        for cable in 0..self.cables.len() {
            for side in [0, 1] {
                while self.write(cable, side, CONTROL_MESSAGE_BYTES_MAX) {
                    moved = true;
                }
            }
        }
        for cable in 0..self.cables.len() {
            for side in [0, 1] {
                while self.deliver(cable, side) {}
            }
        }
        self.check();
        self.flights += u32::from(moved);
        moved
    }

    /// Flies until no message is left.
    pub fn settle(&mut self) {
        for _ in 0..1_000 {
            if !self.fly() {
                return;
            }
        }
        panic!(
            "the mesh never becomes quiescent; in the next flights:\n{}",
            self.overheard(3)
        );
    }

    /// The messages of `flights` flights, as text.
    fn overheard(&mut self, flights: usize) -> String {
        let mut text = String::new();
        for _ in 0..flights {
            for cable in 0..self.cables.len() {
                for side in [0, 1] {
                    while self.write(cable, side, CONTROL_MESSAGE_BYTES_MAX) {}
                    for note in &self.cables[cable].in_flight[1 - side] {
                        let [from, to] =
                            [side, 1 - side].map(|at| self.cables[cable].ends[at].node);
                        let described = match ControlMessage::read(note).unwrap() {
                            ControlMessage::Advert(items) => {
                                format!("{:?}", items.collect::<Vec<_>>())
                            }
                            ControlMessage::Search(items) => {
                                format!("search {:?}", items.collect::<Vec<_>>())
                            }
                            ControlMessage::Denied(roots) => {
                                format!("denied {:x?}", roots.collect::<Vec<_>>())
                            }
                            other => format!("{other:?}"),
                        };
                        text += &format!("{from} -> {to}: {described}\n");
                    }
                }
            }
            self.fly();
        }
        text
    }

    /// Flies until `is`, and returns how often.
    pub fn flights_until(&mut self, is: impl Fn(&Self) -> bool) -> u32 {
        for flights in 0..1000 {
            if is(self) {
                return flights;
            }
            assert!(self.fly(), "at rest, and it is not so");
        }
        panic!("it is not so after 1000 flights");
    }

    /// Writes or receives one random message.
    pub fn jog(&mut self, rng: &mut Rng) {
        if self.cables.is_empty() {
            return;
        }
        let (cable, side) = (rng.usize(..self.cables.len()), rng.usize(..2));
        if rng.bool() {
            let space = [28, 42, 100, CONTROL_MESSAGE_BYTES_MAX][rng.usize(..4)];
            self.write(cable, side, space);
        } else {
            self.deliver(cable, side);
        }
    }

    /// Indices of the neighbors that received everything from a node.
    fn all_confirmed(&self, node: usize) -> NeighborSet {
        let confirmed = |cable: &usize| {
            let Cable { ends, in_flight } = &self.cables[*cable];
            let side = usize::from(ends[1].node == node);
            (in_flight[1 - side].is_empty() && ends[1 - side].neighbor.is_some())
                .then_some(ends[side].neighbor)?
        };
        self.cables_of(node).iter().filter_map(confirmed).collect()
    }

    pub fn tick_at(&mut self, node: usize) {
        let all_confirmed = self.all_confirmed(node);
        let events = &mut self.events[node];
        self.nodes[node].on_tick(all_confirmed, &mut |event| events.push(event));
        self.check();
    }

    /// Passes `ticks` ticks at all nodes, each with everything delivered after it.
    pub fn run(&mut self, ticks: usize) {
        for _ in 0..ticks {
            for node in 0..self.nodes.len() {
                self.tick_at(node);
            }
            self.settle();
        }
    }

    pub fn tree(&self, node: usize, root: usize) -> Option<TreeView> {
        self.nodes[node].tree(guid(root))
    }

    pub fn standing(&self, node: usize, root: usize) -> Option<Standing> {
        self.nodes[node].standing(guid(root))
    }

    /// The node at the other end of a neighbor index, if both ends hold the same epoch.
    fn neighbor_node(&self, node: usize, neighbor: u8) -> Option<usize> {
        let (cable, side) = self.at_neighbor[node][usize::from(neighbor)]?;
        let other = self.cables[cable].ends[1 - side];
        other.neighbor.map(|_| other.node)
    }

    /// The parent of a node, over a link that is up at both ends.
    pub fn parent(&self, node: usize, root: usize) -> Option<usize> {
        self.neighbor_node(node, self.tree(node, root)?.parent?)
    }

    pub fn attached(&self, node: usize, root: usize) -> bool {
        self.standing(node, root) == Some(Standing::Attached)
    }

    /// The invariants at every instant: labels get nearer along parents, so there is no loop, and
    /// no label gets further.
    fn check(&mut self) {
        if !self.is_checked {
            return;
        }
        for node in 0..self.nodes.len() {
            let trees = &self.nodes[node];
            // A node that forgot a tree starts over.
            self.nearest[node].retain(|&root, _| trees.standing(root).is_some());
            for tree in self.nodes[node].trees() {
                let nearest = self.nearest[node].entry(tree.root).or_insert(tree.label);
                assert!(
                    !nearest.is_nearer(tree.label),
                    "node {node}, tree {:#x}: {:?} after {nearest:?}",
                    tree.root,
                    tree.label
                );
                *nearest = tree.label;
            }
        }
        for root in 0..self.nodes.len() {
            self.check_parents(root);
        }
    }

    fn check_parents(&self, root: usize) {
        let trees: Vec<_> = (0..self.nodes.len())
            .map(|node| self.tree(node, root))
            .collect();
        let parents: Vec<_> = trees
            .iter()
            .enumerate()
            .map(|(node, tree)| self.neighbor_node(node, (*tree)?.parent?))
            .collect();
        for (node, parent) in parents.iter().enumerate() {
            let Some(parent) = *parent else {
                continue;
            };
            let labels = [parent, node].map(|node| trees[node].map(|tree| tree.label));
            let in_order = matches!(labels, [Some(parent), Some(child)] if parent.is_nearer(child));
            assert!(
                in_order,
                "tree {root}: {node} is attached to {parent}: {labels:?}"
            );
        }
        // For each node, the start of the walk that reached it.
        let mut met = vec![usize::MAX; parents.len()];
        for node in 0..parents.len() {
            let mut at = node;
            while met[at] == usize::MAX {
                met[at] = node;
                match parents[at] {
                    Some(parent) => at = parent,
                    None => break,
                }
            }
            assert!(
                met[at] != node || parents[at].is_none(),
                "tree {root}: a loop from {node} over {at}"
            );
        }
    }

    /// Labels may be anything up to now.
    pub fn forget_nearest(&mut self) {
        self.nearest.iter_mut().for_each(BTreeMap::clear);
    }

    /// Hops of every node to a root over links that are up.
    pub fn distances(&self, root: usize) -> Vec<Option<u16>> {
        let mut distances = vec![None; self.nodes.len()];
        distances[root] = Some(0);
        let mut next = VecDeque::from([root]);
        while let Some(node) = next.pop_front() {
            for cable in self.cables_of(node) {
                let other = self.cables[cable]
                    .ends
                    .iter()
                    .find(|end| end.node != node)
                    .unwrap()
                    .node;
                if self.is_up(cable) && distances[other].is_none() {
                    distances[other] = distances[node].map(|hops| hops + 1);
                    next.push_back(other);
                }
            }
        }
        distances
    }

    /// The invariants at rest: a connected node is attached over parents that lead to the root and
    /// know it, and a disconnected node knows that it is.
    pub fn truth(&self) {
        if let Some(fault) = self.find_fault() {
            panic!("{fault}");
        }
    }

    /// The first violation of them.
    pub fn find_fault(&self) -> Option<String> {
        (0..self.nodes.len()).find_map(|root| self.find_fault_of(root))
    }

    fn find_fault_of(&self, root: usize) -> Option<String> {
        for (node, hops) in self.distances(root).into_iter().enumerate() {
            let standing = self.standing(node, root);
            if hops.is_none() {
                if !matches!(standing, None | Some(Standing::Lost)) {
                    return Some(format!("{node} is cut off from {root} and is {standing:?}"));
                }
                continue;
            }
            if standing != Some(Standing::Attached) {
                return Some(format!("{node} is connected to {root} and is {standing:?}"));
            }
            let mut at = node;
            for _ in 0..self.nodes.len() {
                at = self.parent(at, root).unwrap_or(at);
            }
            if at != root {
                return Some(format!("the way of {node} to {root} ends at {at}"));
            }
            let mask = self.nodes[node].children(guid(root));
            for child in 0..self.nodes.len() {
                let sends = self.parent(child, root) == Some(node);
                let knows = mask
                    .iter()
                    .any(|neighbor| self.neighbor_node(node, neighbor) == Some(child));
                if sends != knows {
                    return Some(format!(
                        "tree {root}: {child} is a child of {node}: {sends}, and {node} knows it: \
                         {knows}"
                    ));
                }
            }
        }
        None
    }

    /// The invariants after some ticks of rest: paths are shortest, and all names are known.
    pub fn is_shortest(&self) -> bool {
        (0..self.nodes.len()).all(|root| {
            self.distances(root)
                .into_iter()
                .enumerate()
                .filter_map(|(node, hops)| Some((node, hops?)))
                .all(|(node, hops)| self.tree(node, root).is_some_and(|tree| tree.hops == hops))
        })
    }
}

/// A grid: the node at column x and row y has the number y · width + x.
pub fn grid(width: usize, height: usize) -> Vec<(usize, usize)> {
    let mut cables = vec![];
    for y in 0..height {
        for x in 0..width {
            let node = y * width + x;
            if x + 1 < width {
                cables.push((node, node + 1));
            }
            if y + 1 < height {
                cables.push((node, node + width));
            }
        }
    }
    cables
}

pub fn torus(width: usize, height: usize) -> Vec<(usize, usize)> {
    (0..width * height)
        .flat_map(|node| {
            let (x, y) = (node % width, node / width);
            [
                (node, y * width + (x + 1) % width),
                (node, (y + 1) % height * width + x),
            ]
        })
        .collect()
}
