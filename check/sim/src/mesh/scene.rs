//! State of the mesh: context that checkers may inspect besides a fact. It is derived from facts
//! alone and inspects no node.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
};

use super::{
    book::{Book, Reported, Request},
    fact::MeshFact,
    fault::MeshFault,
    time::ROUND_TRIP_UNITS,
    truth::Truth,
};
use crate::shape::{Shape, Spot};

/// Round trips within which a node is attached again, if not all neighbors are its children and the
/// mesh had no repair before.
const REPAIR_RT: u64 = 2;

/// Trees whose repair messages to a neighbor fit the window of a link. A tree has one item of an
/// advert and one of a `Search`. 40 items take 23 records, and messages may take 192 of up to 250
/// records. So many trees take 115 records. If more trees fail with one cable, the rest may wait.
const TREES_PER_WINDOW: u64 = 100;

/// Round trips after which all nodes have learned of a changed route.
const SETTLED_RT: u64 = 4;

/// A node's route to a root, as it last reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// It never learned of the root.
    Unknown,
    /// It leads over this cable.
    Over(u16),
    /// It led over a cable that failed, or to a neighbor that has no route any more.
    Fallen,
    /// There is none.
    Lost,
}

/// A node that lost its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fall {
    /// When.
    pub at_units: u64,
    /// Units within which it must be attached again. Set if an attached neighbor is not behind it
    /// and nothing else is being repaired.
    pub bound_units: Option<u64>,
    /// It reported the root unreachable.
    pub lost: bool,
}

/// How the mesh stands when a fact has happened.
#[derive(Debug)]
pub struct MeshScene {
    /// Shape of the cabling.
    pub shape: Shape,
    /// Whether nodes reach others over paths.
    pub has_paths: bool,
    /// Roots that a node may know, in a world with a liar.
    pub lied_roots_max: Option<u64>,
    /// Units of a round trip of the slowest link.
    pub slowest_rt_units: u64,
    /// Units since the beginning.
    pub now_units: u64,
    /// All requests.
    pub book: Book,
    /// The ends of cables at each node, by port.
    ports: Vec<Vec<Spot>>,
    /// The epoch that each end of each cable holds while its link is up there.
    links: Vec<[Option<u32>; 2]>,
    /// Whether frames arrive, by cable and receiving end.
    whole: Vec<[bool; 2]>,
    /// Cables that lose some of their frames.
    lossy: Vec<bool>,
    /// Number of the current incarnation of each node.
    incarnations: Vec<u32>,
    on: Vec<bool>,
    /// Properties of the graph since the last fault, computed on demand.
    truth: OnceCell<Truth>,
    /// Outcomes reported to each node in its current incarnation: committed and restarted.
    reported: Vec<[u64; 2]>,
    /// Executions of each node in its current incarnation.
    executed: Vec<u64>,
    /// Ways, by root and node.
    routes: Vec<Route>,
    /// Nodes that lost their parent and are not attached again, by root and node.
    falls: HashMap<(u16, u16), Fall>,
    /// The fall that this fact ends.
    risen: Option<Fall>,
    /// Number of repairs by root: all, and those before the cable failed that [`Clean`] names.
    repairs: Vec<u64>,
    repairs_before: Vec<u64>,
    /// Events since the last rest.
    clean: Clean,
    /// Nodes that have another parent since then, by root and node.
    moved: HashSet<(u16, u16)>,
    /// When a way changed.
    routes_changed_units: u64,
    /// Time of the last change of something that must complete: a link, or an exchange.
    changed_units: u64,
}

/// Events since the last rest.
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
            incarnations: vec![0; nodes],
            on: vec![true; nodes],
            truth: OnceCell::new(),
            reported: vec![[0; 2]; nodes],
            executed: vec![0; nodes],
            routes: vec![Route::Unknown; nodes * nodes],
            falls: HashMap::new(),
            risen: None,
            repairs: vec![0; nodes],
            repairs_before: vec![0; nodes],
            clean: Clean::No,
            moved: HashSet::new(),
            routes_changed_units: 0,
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

    /// Number of a node's current incarnation.
    #[must_use]
    pub fn incarnation(&self, node: u16) -> u32 {
        self.incarnations[usize::from(node)]
    }

    /// Number of "committed" and of "restarted" reports to a node in its current incarnation.
    #[must_use]
    pub fn reported(&self, node: u16) -> [u64; 2] {
        self.reported[usize::from(node)]
    }

    /// Number of executions of a node in its current incarnation.
    #[must_use]
    pub fn executed(&self, node: u16) -> u64 {
        self.executed[usize::from(node)]
    }

    /// Time of the last change of a link or of a reported outcome.
    #[must_use]
    pub const fn changed_units(&self) -> u64 {
        self.changed_units
    }

    /// Current properties of the graph.
    #[must_use]
    pub fn truth(&self) -> &Truth {
        let whole = |cable: usize| self.whole[cable] == [true; 2];
        self.truth
            .get_or_init(|| Truth::new(&self.shape, |node| self.on[node], whole))
    }

    /// Returns a node's route to a root, as it last reported it.
    #[must_use]
    pub fn route(&self, root: u16, node: u16) -> Route {
        self.routes[self.route_at(root, node)]
    }

    fn route_at(&self, root: u16, node: u16) -> usize {
        // Roots of one node are adjacent: a node that receives a tree message looks at many of
        // them.
        usize::from(node) * self.shape.nodes + usize::from(root)
    }

    /// The node at the other end of a cable of a node.
    #[must_use]
    pub fn other(&self, cable: u16, node: u16) -> u16 {
        let [a, b] = self.shape.cables[usize::from(cable)];
        if a == node { b } else { a }
    }

    /// Returns a node's parent in a tree, if the link to it is up at both ends in one epoch. The
    /// parent then receives the node's messages.
    #[must_use]
    pub fn live_parent(&self, root: u16, node: u16) -> Option<u16> {
        let Route::Over(cable) = self.route(root, node) else {
            return None;
        };
        let [a, b] = self.links[usize::from(cable)];
        (a.is_some() && a == b).then(|| self.other(cable, node))
    }

    /// Whether two nodes are neighbors, even if their cables carry nothing.
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

    /// Applies a fact.
    pub(super) fn record(&mut self, fact: &MeshFact<'_>) {
        self.risen = None;
        match *fact {
            MeshFact::Up { at, epoch } => self.set_link(at, Some(epoch)),
            MeshFact::Down { at, .. } => {
                self.set_link(at, None);
                self.fall(at);
            }
            MeshFact::Attached { at, root } => {
                let node = self.node_at(at);
                let route = self.route_at(root, node);
                let was = core::mem::replace(&mut self.routes[route], Route::Over(at.cable));
                // A node that had a route, or never learned of the root, did not fall.
                if matches!(was, Route::Fallen | Route::Lost) {
                    self.risen = self.falls.remove(&(root, node));
                }
                self.repairs[usize::from(root)] += u64::from(self.risen.is_some());
                self.changed_units = self.now_units;
                self.routes_changed_units = self.now_units;
                if matches!(self.clean, Clean::Failed(_)) {
                    self.moved.insert((root, node));
                }
            }
            MeshFact::Searches { node, root } => self.fall_from(root, node, None),
            MeshFact::Lost { node, root } => {
                let route = self.route_at(root, node);
                self.routes[route] = Route::Lost;
                if let Some(fall) = self.falls.get_mut(&(root, node)) {
                    fall.lost = true;
                }
                self.changed_units = self.now_units;
            }
            MeshFact::Requested {
                from,
                to,
                known_incarnation,
                errand,
                ..
            } => self.book.add(Request {
                from: (from, self.incarnation(from)),
                to: (to, known_incarnation),
                errand,
                requested_in: self.incarnation(to),
                executed: 0,
                answer: None,
                reported: None,
                reported_in: None,
                doubted: false,
                given_up: false,
            }),
            MeshFact::Executed { token, at, answer } => {
                self.executed[usize::from(at)] += 1;
                self.book.change(token, |request| {
                    request.executed += 1;
                    request.answer.get_or_insert(answer);
                });
            }
            MeshFact::Reported { token, by, how } => {
                let reported = &mut self.reported[usize::from(by)];
                match how {
                    Reported::Committed(_) => reported[0] += 1,
                    Reported::Restarted => reported[1] += 1,
                    Reported::Refused | Reported::NotExecuted => {}
                }
                let incarnations = &self.incarnations;
                self.book.change(token, |request| {
                    request.reported = Some(how);
                    request.reported_in = Some(incarnations[usize::from(request.to.0)]);
                });
                self.changed_units = self.now_units;
            }
            MeshFact::Doubted { token, .. } => {
                self.book.change(token, |request| request.doubted = true)
            }
            MeshFact::GaveUp { token } => {
                self.book.change(token, |request| request.given_up = true)
            }
            MeshFact::Fault(fault) => self.record_fault(fault),
            MeshFact::AtRest {
                unfinished: None, ..
            } => {
                self.falls.clear();
                // With a liar, more is in progress than the next fault.
                if self.lied_roots_max.is_none() {
                    self.clean = Clean::Settled;
                }
            }
            MeshFact::Sent { .. }
            | MeshFact::AtRest { .. }
            | MeshFact::Tree { .. }
            | MeshFact::Idle { .. }
            | MeshFact::Sampled(_)
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

    /// Handles the failed link of a node: routes over it lead nowhere.
    fn fall(&mut self, at: Spot) {
        let node = self.node_at(at);
        let fallen: Vec<u16> = (0..self.shape.nodes as u16)
            .filter(|root| self.route(*root, node) == Route::Over(at.cable))
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
        let route = self.route_at(root, node);
        self.routes[route] = Route::Fallen;
    }

    /// Whether a node that falls now has a neighbor that is attached as it was before the fault,
    /// and not behind this node.
    fn is_local(&self, root: u16, node: u16) -> bool {
        let Clean::Failed(failed) = self.clean else {
            return false;
        };
        let is_attached = |from: u16| {
            let mut at = from;
            for _ in 0..self.shape.nodes {
                if at == root {
                    return true;
                }
                match self.route(root, at) {
                    Route::Over(cable)
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
            .any(|cable| is_attached(self.other(cable, node)))
    }

    /// A cut after rest that both ends detect at once changes nothing in the mesh but its cable.
    /// Any other fault, or the end of one, changes more.
    fn update_clean(&mut self, fault: &MeshFault) {
        self.moved.clear();
        // Some nodes may not have received a recent change.
        let is_old = self.now_units - self.routes_changed_units >= SETTLED_RT * ROUND_TRIP_UNITS;
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

    fn record_fault(&mut self, fault: &MeshFault) {
        self.truth.take();
        self.update_clean(fault);
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
                self.incarnations[node] += 1;
                self.reported[node] = [0; 2];
                self.executed[node] = 0;
                for root in 0..self.shape.nodes {
                    let route = self.route_at(root as u16, node as u16);
                    self.routes[route] = Route::Unknown;
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
