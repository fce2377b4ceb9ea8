//! Waiting until everything has come to its end, and what has not.

use covalent_protocol::{LinkState, Node};

use super::MeshWorld;
use crate::mesh::{
    content::{Content, FrameKind},
    fact::{Counts, MeshFact},
    fault::MeshFault,
    program,
    scene::Way,
    time::FRAME_UNITS,
    truth::NO_WAY,
    wire::{Cable, Frame},
};

/// Paces in which everything stays as it is when everything has come to its end.
const IDLE_PACES: u32 = 2;
/// Paces within which a path that nobody uses is given back.
const PATH_PACES_MAX: u32 = 60;

impl MeshWorld {
    /// Lets nobody ask any more, waits until nobody stands still, mends cables that lose some frames, behind which nothing can rest, and waits
    /// until everything has come to its end.
    pub fn rest(&mut self) {
        if self.is_broken() {
            return;
        }
        self.set_load(false);
        let stalls = self.stations.iter().map(|station| station.stalled_until);
        let end = stalls.max().unwrap_or(0).max(self.now_units());
        self.run_until(end);
        for cable in 0..self.cables.len() {
            if self.scene().is_lossy(cable) {
                self.fault(MeshFault::Mend {
                    cable: cable as u16,
                });
            }
        }
        let mut paces = 0;
        let unfinished = loop {
            self.run_until(self.now_units() + self.options.pace_units());
            if self.is_broken() {
                return;
            }
            paces += 1;
            self.drain();
            let unfinished = self.unfinished();
            if unfinished.is_none() || paces == self.room.paces_to_rest {
                break unfinished;
            }
        };
        self.rested(paces, unfinished.as_deref());
    }

    /// Lets what is being said come to its end, for half a pace at most.
    fn drain(&mut self) {
        let end = self.now_units() + self.options.pace_units() / 2;
        let is_said = |frame: &Frame| frame.content.kind > FrameKind::Ball;
        while self.now_units() < end
            && !self.is_broken()
            && self.cables.iter().flat_map(Cable::under_way).any(is_said)
        {
            self.run_until(self.now_units() + FRAME_UNITS);
        }
    }

    /// Waits until every way is a shortest one, which paces bring about, and then sees that nothing happens any more. Everything must be whole
    /// and at rest.
    pub fn shorten(&mut self) {
        let paces_max = self.paces_to_shorten();
        let mut paces = 0;
        while !self.is_broken()
            && let Some(longer) = self.longer_way()
        {
            if paces == paces_max {
                self.rested(paces, Some(&longer));
                return;
            }
            self.run_until(self.now_units() + self.options.pace_units());
            self.drain();
            paces += 1;
        }
        if !self.is_broken() {
            // What was said last is heard.
            self.run_until(self.now_units() + self.options.pace_units());
            self.drain();
            self.give_back_paths();
            let counts = self.all_counts();
            self.witness.see(&MeshFact::Idle { counts: &counts });
            let end = self.now_units() + u64::from(IDLE_PACES) * self.options.pace_units();
            self.run_until(end);
            for root in 0..self.stations.len() {
                self.show_tree(root, true);
            }
        }
    }

    /// Waits until every path that nobody uses is given back, or should be.
    fn give_back_paths(&mut self) {
        let holds = |counts: &Counts| counts.channels > 0;
        for _ in 0..PATH_PACES_MAX {
            if self.is_broken() || !self.all_counts().iter().any(holds) {
                return;
            }
            self.run_until(self.now_units() + self.options.pace_units());
            self.drain();
        }
    }

    /// What each node that is on counted, and holds.
    fn all_counts(&self) -> Vec<Counts> {
        let nodes = 0..self.stations.len();
        nodes.filter_map(|at| self.counts(at)).collect()
    }

    /// A way that is longer than need be, or that is counted wrong.
    fn longer_way(&self) -> Option<String> {
        let truth = self.scene().truth();
        (0..self.stations.len()).find_map(|root| {
            let shortest = truth.hops_to(root);
            let views = self.views(root);
            let mut both = views.iter().zip(shortest).enumerate();
            both.find_map(|(node, (view, shortest))| {
                let hops = view.as_ref()?.hops;
                (shortest != NO_WAY && hops != shortest).then(|| {
                    format!("{node} counts {hops} hops to {root}; the shortest way has {shortest}")
                })
            })
        })
    }

    /// Shows that everything has come to rest, or has not.
    fn rested(&mut self, paces: u32, unfinished: Option<&str>) {
        for at in 0..self.stations.len() {
            self.take_messages(at);
        }
        let counts = self.all_counts();
        self.witness.see(&MeshFact::AtRest {
            paces,
            paces_max: self.room.paces_to_rest,
            unfinished,
            counts: &counts,
        });
        if unfinished.is_none() {
            self.show_settled_trees();
        }
    }

    /// Shows each tree at rest as soon as nothing of it is being said. Ways may still become shorter, with each pace, and who leaves a parent for a
    /// nearer one tells it so by an advert: until that is heard the parent passes on to it, and rightly so.
    fn show_settled_trees(&mut self) {
        let mut left: Vec<usize> = (0..self.stations.len()).collect();
        let begin = self.now_units();
        loop {
            let said = self.roots_being_said();
            left.retain(|&root| {
                if !said[root] {
                    self.show_tree(root, true);
                }
                said[root]
            });
            let Some(&root) = left.first().filter(|_| !self.is_broken()) else {
                return;
            };
            let paces = ((self.now_units() - begin) / self.options.pace_units()) as u32;
            let paces_max = self.paces_to_shorten();
            if paces >= paces_max {
                let root = self.scene().shape.node_name(root);
                let unfinished = format!("the tree of {root} is being spoken of all the time");
                let counts = self.all_counts();
                self.witness.see(&MeshFact::AtRest {
                    paces,
                    paces_max,
                    unfinished: Some(&unfinished),
                    counts: &counts,
                });
                return;
            }
            self.run_until(self.now_units() + FRAME_UNITS);
        }
    }

    /// By root, whether something of its tree is under way to somebody or waits to be said.
    fn roots_being_said(&self) -> Vec<bool> {
        let mut said = vec![false; self.stations.len()];
        let nodes = self.stations.len();
        // Of roots that were invented nobody asks.
        let mut note = |guid| {
            if let Some(root) = program::node_of_mesh(guid, nodes) {
                said[usize::from(root)] = true;
            }
        };
        for frame in self.cables.iter().flat_map(Cable::under_way) {
            Content::each_root(&frame.bytes, &mut note);
        }
        let nodes = self.stations.iter().flat_map(|station| &station.node);
        nodes.flat_map(Node::waiting_roots).for_each(note);
        said
    }

    /// Paces within which every way is a shortest one, when everything is at rest but for that.
    fn paces_to_shorten(&self) -> u32 {
        2 * u32::from(self.scene().truth().diameter()) + self.room.paces_to_rest
    }

    /// What has not come to its end.
    fn unfinished(&self) -> Option<String> {
        let scene = self.scene();
        let name = |node: u16| scene.shape.node_name(usize::from(node));
        for (cable, ends) in scene.shape.cables.iter().enumerate() {
            let [a, b] = ends.map(name);
            let ended = match scene.link(cable) {
                [Some(a), Some(b)] => scene.carries(cable) && a == b,
                [None, None] => !scene.carries(cable),
                _ => false,
            };
            if !ended {
                let link = scene.link(cable);
                return Some(format!("the link {a}-{b} is not settled: {link:?}"));
            }
        }
        let truth = scene.truth();
        for (token, ask) in scene.book.open() {
            let (from, to) = (ask.from.0, ask.to.0);
            let is_near = (scene.ports(from).iter()).any(|spot| {
                scene.other(spot.cable, from) == to && scene.carries(usize::from(spot.cable))
            });
            let is_far =
                self.room.paths > 0 && truth.hops_to(usize::from(from))[usize::from(to)] != NO_WAY;
            if is_near || is_far {
                let [from, to] = [from, to].map(name);
                return Some(format!("exchange {token} of {from} with {to} is open"));
            }
        }
        if let Some((root, node)) = self.unsettled_way() {
            let way = scene.way(root, node);
            let [root, node] = [root, node].map(name);
            return Some(format!("{node} in the tree of {root}: {way:?}"));
        }
        for (at, station) in self.stations.iter().enumerate() {
            let Some(node) = &station.node else { continue };
            let busy = node
                .links()
                .find(|link| link.state == LinkState::Up && node.has_work(link.port));
            if let Some(link) = busy {
                let port = link.port;
                return Some(format!(
                    "{} has something to say at port {port}",
                    name(at as u16)
                ));
            }
        }
        None
    }

    /// A root and a node that does not hang in its tree though it is connected, or that is cut off and does not know.
    fn unsettled_way(&self) -> Option<(u16, u16)> {
        let scene = self.scene();
        let truth = scene.truth();
        (0..self.stations.len()).find_map(|at| {
            let root = at as u16;
            let hops = truth.hops_to(at);
            let mut nodes = (0..).zip(hops);
            let unsettled = nodes.find(|&(node, hops)| {
                node != root
                    && scene.is_on(usize::from(node))
                    && match scene.way(root, node) {
                        Way::Over(_) => hops == NO_WAY || scene.live_parent(root, node).is_none(),
                        Way::Fallen => true,
                        Way::Lost | Way::Unknown => hops != NO_WAY,
                    }
            });
            unsettled.map(|(node, _)| (root, node))
        })
    }
}
