//! How the mesh stands: what checkers may look at beside a fact. It is made of facts alone, and looks into no node.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
};

use super::{
    book::{Ask, Book, Told},
    fact::MeshFact,
    fault::MeshFault,
    time::ROUND_TRIP_UNITS,
    truth::Truth,
};
use crate::shape::{Shape, Spot};

/// Round trips within which a node whose neighbours are not all its children hangs again, in a mesh that was not repaired before.
const REPAIR_RT: u64 = 2;

/// Trees of which all that a repair says to a neighbour fits the window of a link: a tree has an item
/// of an advert and one of a seek, 40 items take 23 records, and messages may take 192 of up to 250
/// records. 115 are taken by so many trees; of more that fall with one cable the rest may wait.
const TREES_PER_WINDOW: u64 = 100;

/// Round trips after which everybody has heard of a way that changed.
const SETTLED_RT: u64 = 4;

/// A node's way to a root, as it told of it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It never heard of the root.
    Unknown,
    /// It leads over this cable.
    Over(u16),
    /// It led over a cable that failed, or to a neighbour that has none any more.
    Fallen,
    /// There is none.
    Lost,
}

/// A node that lost its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fall {
    /// When.
    pub at_units: u64,
    /// Units within which it must hang again: it has a neighbour that hangs and is not behind it, and nothing else is being repaired.
    pub bound_units: Option<u64>,
    /// It told that there is no way.
    pub lost: bool,
}

/// How the mesh stands when a fact has happened.
#[derive(Debug)]
pub struct MeshScene {
    /// What is cabled to what.
    pub shape: Shape,
    /// Whether nodes reach others over paths.
    pub has_paths: bool,
    /// Roots that a node may know, where somebody lies.
    pub lied_roots_max: Option<u64>,
    /// Units of a round trip of the slowest link.
    pub slowest_rt_units: u64,
    /// Units since the beginning.
    pub now_units: u64,
    /// Everything asked for.
    pub book: Book,
    /// The ends of cables at each node, by port.
    ports: Vec<Vec<Spot>>,
    /// The epoch that each end of each cable holds while its link is up there.
    links: Vec<[Option<u32>; 2]>,
    /// Whether what is sent arrives, by cable and hearing end.
    whole: Vec<[bool; 2]>,
    /// Cables that lose some of their frames.
    lossy: Vec<bool>,
    /// Lives that each node has begun; the present one is the last of them.
    lives: Vec<u32>,
    on: Vec<bool>,
    /// What the graph says since the last fault, once somebody asked.
    truth: OnceCell<Truth>,
    /// What each node was told in its present life: committed and restarted.
    told: Vec<[u64; 2]>,
    /// What each node executed in its present life.
    executed: Vec<u64>,
    /// Ways, by root and node.
    ways: Vec<Way>,
    /// Those that fell and do not hang again, by root and node.
    falls: HashMap<(u16, u16), Fall>,
    /// The fall that this fact ends.
    risen: Option<Fall>,
    /// How often somebody found another parent, by root: in all, and before the cable failed that [`Clean`] names.
    repairs: Vec<u64>,
    repairs_before: Vec<u64>,
    /// What happened since the last rest.
    clean: Clean,
    /// Who hangs on another since that, by root and node.
    moved: HashSet<(u16, u16)>,
    /// When a way changed.
    ways_changed_units: u64,
    /// When something changed that is to come to an end: a link, or an exchange.
    changed_units: u64,
}

/// What happened since the last rest.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Clean {
    /// Nothing.
    Settled,
    /// This cable failed, and both ends saw it.
    Failed(u16),
    /// Anything else.
    No,
}

impl MeshScene {
    pub(super) fn new(shape: Shape, has_paths: bool, slowest_rt_units: u64) -> Self {
        let (nodes, cables) = (shape.nodes, shape.cables.len());
        Self {
            ports: shape.ports(),
            shape,
            has_paths,
            lied_roots_max: None,
            slowest_rt_units,
            now_units: 0,
            book: Book::default(),
            links: vec![[None; 2]; cables],
            whole: vec![[true; 2]; cables],
            lossy: vec![false; cables],
            lives: vec![0; nodes],
            on: vec![true; nodes],
            truth: OnceCell::new(),
            told: vec![[0; 2]; nodes],
            executed: vec![0; nodes],
            ways: vec![Way::Unknown; nodes * nodes],
            falls: HashMap::new(),
            risen: None,
            repairs: vec![0; nodes],
            repairs_before: vec![0; nodes],
            clean: Clean::No,
            moved: HashSet::new(),
            ways_changed_units: 0,
            changed_units: 0,
        }
    }

    /// The epoch that each end of a cable holds while its link is up there.
    #[must_use]
    pub fn link(&self, cable: usize) -> [Option<u32>; 2] {
        self.links[cable]
    }

    /// The ends of cables at a node, by port.
    #[must_use]
    pub fn ports(&self, node: u16) -> &[Spot] {
        &self.ports[usize::from(node)]
    }

    /// Whether a cable loses nothing, and nodes are on at both of its ends.
    #[must_use]
    pub fn carries(&self, cable: usize) -> bool {
        let ends = self.shape.cables[cable].map(usize::from);
        self.whole[cable] == [true; 2] && ends.iter().all(|node| self.on[*node])
    }

    /// Whether a cable loses some of its frames, and not all.
    #[must_use]
    pub fn is_lossy(&self, cable: usize) -> bool {
        self.lossy[cable]
    }

    /// Whether a node is on.
    #[must_use]
    pub fn is_on(&self, node: usize) -> bool {
        self.on[node]
    }

    /// The number of a node's present life.
    #[must_use]
    pub fn life(&self, node: u16) -> u32 {
        self.lives[usize::from(node)]
    }

    /// How often a node in its present life was told "committed", and "restarted".
    #[must_use]
    pub fn told(&self, node: u16) -> [u64; 2] {
        self.told[usize::from(node)]
    }

    /// What a node executed in its present life.
    #[must_use]
    pub fn executed(&self, node: u16) -> u64 {
        self.executed[usize::from(node)]
    }

    /// When a link, or what somebody is told, changed last.
    #[must_use]
    pub const fn changed_units(&self) -> u64 {
        self.changed_units
    }

    /// What the graph says now.
    #[must_use]
    pub fn truth(&self) -> &Truth {
        let whole = |cable: usize| self.whole[cable] == [true; 2];
        self.truth
            .get_or_init(|| Truth::new(&self.shape, |node| self.on[node], whole))
    }

    /// A node's way to a root, as it told of it last.
    #[must_use]
    pub fn way(&self, root: u16, node: u16) -> Way {
        self.ways[self.way_at(root, node)]
    }

    fn way_at(&self, root: u16, node: u16) -> usize {
        // A node that hears a note looks at many roots.
        usize::from(node) * self.shape.nodes + usize::from(root)
    }

    /// The node at the other end of a cable of a node.
    #[must_use]
    pub fn other(&self, cable: u16, node: u16) -> u16 {
        let [a, b] = self.shape.cables[usize::from(cable)];
        if a == node { b } else { a }
    }

    /// A node's parent in a tree, if the link to it is up at both ends in one epoch: what it says along it is heard.
    #[must_use]
    pub fn live_parent(&self, root: u16, node: u16) -> Option<u16> {
        let Way::Over(cable) = self.way(root, node) else {
            return None;
        };
        let [a, b] = self.links[usize::from(cable)];
        (a.is_some() && a == b).then(|| self.other(cable, node))
    }

    /// Whether two nodes are neighbours, whatever their cables carry.
    #[must_use]
    pub fn are_cabled(&self, a: u16, b: u16) -> bool {
        let mut cables = self.ports(a).iter().map(|spot| spot.cable);
        cables.any(|cable| self.other(cable, a) == b)
    }

    /// The fall that the last fact ended, if it did end one.
    #[must_use]
    pub const fn risen(&self) -> Option<&Fall> {
        self.risen.as_ref()
    }

    /// The node at an end of a cable.
    #[must_use]
    pub fn node_at(&self, at: Spot) -> u16 {
        self.shape.cables[usize::from(at.cable)][usize::from(at.end)]
    }

    /// Takes in what happened.
    pub(super) fn note(&mut self, fact: &MeshFact<'_>) {
        self.risen = None;
        match *fact {
            MeshFact::Up { at, epoch } => self.set_link(at, Some(epoch)),
            MeshFact::Down { at, .. } => {
                self.set_link(at, None);
                self.fall(at);
            }
            MeshFact::Hangs { at, root } => {
                let node = self.node_at(at);
                let way = self.way_at(root, node);
                let was = core::mem::replace(&mut self.ways[way], Way::Over(at.cable));
                // Whoever had a way, or never heard of the root, did not fall.
                if matches!(was, Way::Fallen | Way::Lost) {
                    self.risen = self.falls.remove(&(root, node));
                }
                self.repairs[usize::from(root)] += u64::from(self.risen.is_some());
                self.changed_units = self.now_units;
                self.ways_changed_units = self.now_units;
                if matches!(self.clean, Clean::Failed(_)) {
                    self.moved.insert((root, node));
                }
            }
            MeshFact::Seeks { node, root } => self.fall_from(root, node, None),
            MeshFact::Lost { node, root } => {
                let way = self.way_at(root, node);
                self.ways[way] = Way::Lost;
                if let Some(fall) = self.falls.get_mut(&(root, node)) {
                    fall.lost = true;
                }
                self.changed_units = self.now_units;
            }
            MeshFact::Asked {
                from,
                to,
                known_life,
                errand,
                ..
            } => self.book.add(Ask {
                from: (from, self.life(from)),
                to: (to, known_life),
                errand,
                asked_in: self.life(to),
                executed: 0,
                answer: None,
                told: None,
                told_in: None,
                doubted: false,
                given_up: false,
            }),
            MeshFact::Executed { token, at, answer } => {
                self.executed[usize::from(at)] += 1;
                self.book.change(token, |ask| {
                    ask.executed += 1;
                    ask.answer.get_or_insert(answer);
                });
            }
            MeshFact::Told { token, by, how } => {
                let told = &mut self.told[usize::from(by)];
                match how {
                    Told::Committed(_) => told[0] += 1,
                    Told::Restarted => told[1] += 1,
                    Told::Refused | Told::NotExecuted => {}
                }
                let lives = &self.lives;
                self.book.change(token, |ask| {
                    ask.told = Some(how);
                    ask.told_in = Some(lives[usize::from(ask.to.0)]);
                });
                self.changed_units = self.now_units;
            }
            MeshFact::Doubted { token, .. } => self.book.change(token, |ask| ask.doubted = true),
            MeshFact::GaveUp { token } => self.book.change(token, |ask| ask.given_up = true),
            MeshFact::Fault(fault) => self.note_fault(fault),
            MeshFact::AtRest {
                unfinished: None, ..
            } => {
                self.falls.clear();
                // Where somebody lies more is going on than the next fault.
                if self.lied_roots_max.is_none() {
                    self.clean = Clean::Settled;
                }
            }
            MeshFact::Sent { .. }
            | MeshFact::AtRest { .. }
            | MeshFact::Tree { .. }
            | MeshFact::Idle { .. }
            | MeshFact::Looked(_)
            | MeshFact::Took { .. }
            | MeshFact::PathUp { .. }
            | MeshFact::PathDown { .. }
            | MeshFact::Complained { .. } => {}
        }
    }

    fn set_link(&mut self, at: Spot, epoch: Option<u32>) {
        self.links[usize::from(at.cable)][usize::from(at.end)] = epoch;
        self.changed_units = self.now_units;
    }

    /// The link of a node failed: whatever way led over it leads nowhere.
    fn fall(&mut self, at: Spot) {
        let node = self.node_at(at);
        let fallen: Vec<u16> = (0..self.shape.nodes as u16)
            .filter(|root| self.way(*root, node) == Way::Over(at.cable))
            .collect();
        let windows = fallen.len() as u64 / TREES_PER_WINDOW;
        for root in fallen {
            let bound_units = self.is_local(root, node).then(|| {
                let round_trips = REPAIR_RT + windows + self.repairs_before[usize::from(root)];
                round_trips * self.slowest_rt_units
            });
            self.fall_from(root, node, bound_units);
        }
    }

    fn fall_from(&mut self, root: u16, node: u16, bound_units: Option<u64>) {
        let fall = Fall {
            at_units: self.now_units,
            bound_units,
            lost: false,
        };
        self.falls.insert((root, node), fall);
        let way = self.way_at(root, node);
        self.ways[way] = Way::Fallen;
    }

    /// Whether a node that falls now has a neighbour that hangs as it did before the fault, and not behind this one.
    fn is_local(&self, root: u16, node: u16) -> bool {
        let Clean::Failed(failed) = self.clean else {
            return false;
        };
        let hangs = |from: u16| {
            let mut at = from;
            for _ in 0..self.shape.nodes {
                if at == root {
                    return true;
                }
                match self.way(root, at) {
                    Way::Over(cable)
                        if at != node && cable != failed && !self.moved.contains(&(root, at)) =>
                    {
                        at = self.other(cable, at);
                    }
                    _ => return false,
                }
            }
            false
        };
        let cables = self.ports(node).iter().map(|spot| spot.cable);
        cables
            .filter(|cable| {
                let [a, b] = self.links[usize::from(*cable)];
                a.is_some() && a == b && *cable != failed
            })
            .any(|cable| hangs(self.other(cable, node)))
    }

    /// A cut after rest that both ends see at once leaves the mesh as it was but for its cable. Any other fault, and the end of one, does
    /// not.
    fn note_clean(&mut self, fault: &MeshFault) {
        self.moved.clear();
        // What changed a moment ago may not have been heard by everybody.
        let is_old = self.now_units - self.ways_changed_units >= SETTLED_RT * ROUND_TRIP_UNITS;
        let clean = match &self.clean {
            Clean::Settled if is_old => Clean::Settled,
            _ => Clean::No,
        };
        self.clean = match (clean, *fault) {
            (
                Clean::Settled,
                MeshFault::Cut {
                    cable,
                    towards: [true, true],
                    noticed: [true, true],
                },
            ) => {
                self.repairs_before.clone_from(&self.repairs);
                Clean::Failed(cable)
            }
            _ => {
                for fall in self.falls.values_mut() {
                    fall.bound_units = None;
                }
                Clean::No
            }
        };
    }

    fn note_fault(&mut self, fault: &MeshFault) {
        self.truth.take();
        self.note_clean(fault);
        match *fault {
            MeshFault::Cut { cable, towards, .. } => {
                for (whole, cut) in self.whole[usize::from(cable)].iter_mut().zip(towards) {
                    *whole &= !cut;
                }
            }
            MeshFault::Loss { cable, .. } => self.lossy[usize::from(cable)] = true,
            MeshFault::Mend { cable } => {
                self.whole[usize::from(cable)] = [true; 2];
                self.lossy[usize::from(cable)] = false;
            }
            MeshFault::Crash { node, .. } => {
                let node = usize::from(node);
                self.on[node] = false;
                self.lives[node] += 1;
                self.told[node] = [0; 2];
                self.executed[node] = 0;
                for root in 0..self.shape.nodes {
                    let way = self.way_at(root as u16, node as u16);
                    self.ways[way] = Way::Unknown;
                    self.falls.remove(&(root as u16, node as u16));
                }
                for (cable, ends) in self.shape.cables.iter().enumerate() {
                    for (end, at) in ends.iter().enumerate() {
                        if usize::from(*at) == node {
                            self.links[cable][end] = None;
                        }
                    }
                }
                self.book.forget(node as u16);
            }
            MeshFault::Start { node } => self.on[usize::from(node)] = true,
            MeshFault::Stall { .. } => {}
        }
    }
}
