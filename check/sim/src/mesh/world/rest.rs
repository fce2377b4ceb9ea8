//! Waits until everything has completed, and reports what has not.

use covalent_protocol::{LinkState, Node};

use super::MeshWorld;
use crate::mesh::{
    content::{Content, FrameKind},
    fact::{Counts, MeshFact},
    fault::MeshFault,
    program,
    scene::Route,
    time::FRAME_UNITS,
    truth::UNREACHABLE,
    wire::{Cable, Frame},
};

/// Ticks in which nothing changes after everything has completed.
const IDLE_TICKS: u32 = 2;
/// Ticks within which an unused path is released.
const PATH_TICKS_MAX: u32 = 60;

impl MeshWorld {
    /// Stops the load, waits until no node is stalled, and mends lossy cables, which would prevent
    /// rest. Then waits until everything has completed.
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
        let mut ticks = 0;
        let unfinished = loop {
            self.run_until(self.now_units() + self.options.tick_units());
            if self.is_broken() {
                return;
            }
            ticks += 1;
            self.drain();
            let unfinished = self.unfinished();
            if unfinished.is_none() || ticks == self.room.ticks_to_rest {
                break unfinished;
            }
        };
        self.rested(ticks, unfinished.as_deref());
    }

    /// Waits until only keepalives are in flight, for half a tick interval at most.
    fn drain(&mut self) {
        let end = self.now_units() + self.options.tick_units() / 2;
        let is_message = |frame: &Frame| frame.content.kind > FrameKind::Keepalive;
        while self.now_units() < end
            && !self.is_broken()
            && self
                .cables
                .iter()
                .flat_map(Cable::in_flight)
                .any(is_message)
        {
            self.run_until(self.now_units() + FRAME_UNITS);
        }
    }

    /// Waits until every route is shortest, which takes ticks, and then checks that nothing happens
    /// any more. Everything must be whole and at rest.
    pub fn shorten(&mut self) {
        let ticks_max = self.ticks_to_shorten();
        let mut ticks = 0;
        while !self.is_broken()
            && let Some(longer) = self.longer_route()
        {
            if ticks == ticks_max {
                self.rested(ticks, Some(&longer));
                return;
            }
            self.run_until(self.now_units() + self.options.tick_units());
            self.drain();
            ticks += 1;
        }
        if !self.is_broken() {
            // The last frames arrive.
            self.run_until(self.now_units() + self.options.tick_units());
            self.drain();
            self.give_back_paths();
            let counts = self.all_counts();
            self.witness.see(&MeshFact::Idle { counts: &counts });
            let end = self.now_units() + u64::from(IDLE_TICKS) * self.options.tick_units();
            self.run_until(end);
            for root in 0..self.stations.len() {
                self.show_tree(root, true);
            }
        }
    }

    /// Waits until every unused path is released, or should be.
    fn give_back_paths(&mut self) {
        let holds = |counts: &Counts| counts.channels > 0;
        for _ in 0..PATH_TICKS_MAX {
            if self.is_broken() || !self.all_counts().iter().any(holds) {
                return;
            }
            self.run_until(self.now_units() + self.options.tick_units());
            self.drain();
        }
    }

    /// Returns the counters and resources of each node that is on.
    fn all_counts(&self) -> Vec<Counts> {
        let nodes = 0..self.stations.len();
        nodes.filter_map(|at| self.counts(at)).collect()
    }

    /// A way that is longer than need be, or that is counted wrong.
    fn longer_route(&self) -> Option<String> {
        let truth = self.scene().truth();
        (0..self.stations.len()).find_map(|root| {
            let shortest = truth.hops_to(root);
            let views = self.views(root);
            let mut both = views.iter().zip(shortest).enumerate();
            both.find_map(|(node, (view, shortest))| {
                let hops = view.as_ref()?.hops;
                (shortest != UNREACHABLE && hops != shortest).then(|| {
                    format!("{node} counts {hops} hops to {root}; the shortest way has {shortest}")
                })
            })
        })
    }

    /// Shows whether everything has come to rest.
    fn rested(&mut self, ticks: u32, unfinished: Option<&str>) {
        for at in 0..self.stations.len() {
            self.take_messages(at);
        }
        let counts = self.all_counts();
        self.witness.see(&MeshFact::AtRest {
            ticks,
            unfinished,
            counts: &counts,
        });
        if unfinished.is_none() {
            self.show_settled_trees();
        }
    }

    /// Shows each tree at rest as soon as none of its messages is in flight or pending. Routes may
    /// still become shorter with each tick. A node that leaves its parent for a nearer one reports
    /// that by an advert. Until the advert arrives, the parent correctly forwards messages to the
    /// node.
    fn show_settled_trees(&mut self) {
        let mut left: Vec<usize> = (0..self.stations.len()).collect();
        let begin = self.now_units();
        loop {
            let announced = self.announced_roots();
            left.retain(|&root| {
                if !announced[root] {
                    self.show_tree(root, true);
                }
                announced[root]
            });
            let Some(&root) = left.first().filter(|_| !self.is_broken()) else {
                return;
            };
            let ticks = ((self.now_units() - begin) / self.options.tick_units()) as u32;
            let ticks_max = self.ticks_to_shorten();
            if ticks >= ticks_max {
                let root = self.scene().shape.node_name(root);
                let unfinished = format!("the tree of {root} is being spoken of all the time");
                let counts = self.all_counts();
                self.witness.see(&MeshFact::AtRest {
                    ticks,
                    unfinished: Some(&unfinished),
                    counts: &counts,
                });
                return;
            }
            self.run_until(self.now_units() + FRAME_UNITS);
        }
    }

    /// Returns, by root, whether a message about its tree is in flight or pending.
    fn announced_roots(&self) -> Vec<bool> {
        let mut announced = vec![false; self.stations.len()];
        let nodes = self.stations.len();
        // Ignore invented roots.
        let mut mark = |guid| {
            if let Some(root) = program::node_of_mesh(guid, nodes) {
                announced[usize::from(root)] = true;
            }
        };
        for frame in self.cables.iter().flat_map(Cable::in_flight) {
            Content::each_root(&frame.bytes, &mut mark);
        }
        let nodes = self.stations.iter().flat_map(|station| &station.node);
        nodes.flat_map(Node::waiting_roots).for_each(mark);
        announced
    }

    /// Ticks within which every route is shortest, if everything else is at rest.
    fn ticks_to_shorten(&self) -> u32 {
        2 * u32::from(self.scene().truth().diameter()) + self.room.ticks_to_rest
    }

    /// Returns what has not completed.
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
        for (token, request) in scene.book.open() {
            let (from, to) = (request.from.0, request.to.0);
            let is_near = (scene.ports(from).iter()).any(|spot| {
                scene.other(spot.cable, from) == to && scene.carries(usize::from(spot.cable))
            });
            let is_far = self.room.paths > 0
                && truth.hops_to(usize::from(from))[usize::from(to)] != UNREACHABLE;
            if is_near || is_far {
                let [from, to] = [from, to].map(name);
                return Some(format!("exchange {token} of {from} with {to} is open"));
            }
        }
        if let Some((root, node)) = self.unsettled_route() {
            let route = scene.route(root, node);
            let [root, node] = [root, node].map(name);
            return Some(format!("{node} in the tree of {root}: {route:?}"));
        }
        for (at, station) in self.stations.iter().enumerate() {
            let Some(node) = &station.node else { continue };
            let busy = node
                .links()
                .find(|link| link.state == LinkState::Up && node.has_work(link.port));
            if let Some(link) = busy {
                let port = link.port;
                return Some(format!(
                    "{} has something to send at port {port}",
                    name(at as u16)
                ));
            }
        }
        None
    }

    /// Returns a root and a node that is connected but not attached in its tree, or that is cut off
    /// and does not know.
    fn unsettled_route(&self) -> Option<(u16, u16)> {
        let scene = self.scene();
        let truth = scene.truth();
        (0..self.stations.len()).find_map(|at| {
            let root = at as u16;
            let hops = truth.hops_to(at);
            let mut nodes = (0..).zip(hops);
            let unsettled = nodes.find(|&(node, hops)| {
                node != root
                    && scene.is_on(usize::from(node))
                    && match scene.route(root, node) {
                        Route::Over(_) => {
                            hops == UNREACHABLE || scene.live_parent(root, node).is_none()
                        }
                        Route::Fallen => true,
                        Route::Lost | Route::Unknown => hops != UNREACHABLE,
                    }
            });
            unsettled.map(|(node, _)| (root, node))
        })
    }
}
