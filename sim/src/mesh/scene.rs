//! How the mesh stands: what checkers may look at beside a fact. It is made of facts alone, and looks into no node.

use super::{
    book::{Ask, Book},
    fact::MeshFact,
    fault::MeshFault,
    truth::Truth,
};
use crate::shape::{Shape, Spot};

/// How the mesh stands when a fact has happened.
#[derive(Debug)]
pub struct MeshScene {
    /// What is cabled to what.
    pub shape: Shape,
    /// Units since the beginning.
    pub now_units: u64,
    /// Everything asked for.
    pub book: Book,
    /// The epoch that each end of each cable holds while its link is up there.
    links: Vec<[Option<u32>; 2]>,
    /// Whether what is sent arrives, by cable and hearing end.
    whole: Vec<[bool; 2]>,
    /// Cables that lose some of their frames.
    lossy: Vec<bool>,
    /// Lives that each node has begun; the present one is the last of them.
    lives: Vec<u32>,
    on: Vec<bool>,
    /// What each node was told in its present life: committed and restarted.
    told: Vec<[u64; 2]>,
    /// What each node executed in its present life.
    executed: Vec<u64>,
    /// When something changed that is to come to an end: a link, or an exchange.
    changed_units: u64,
}

impl MeshScene {
    pub(super) fn new(shape: Shape) -> Self {
        let (nodes, cables) = (shape.nodes, shape.cables.len());
        Self {
            shape,
            now_units: 0,
            book: Book::default(),
            links: vec![[None; 2]; cables],
            whole: vec![[true; 2]; cables],
            lossy: vec![false; cables],
            lives: vec![0; nodes],
            on: vec![true; nodes],
            told: vec![[0; 2]; nodes],
            executed: vec![0; nodes],
            changed_units: 0,
        }
    }

    /// The epoch that each end of a cable holds while its link is up there.
    #[must_use]
    pub fn link(&self, cable: usize) -> [Option<u32>; 2] {
        self.links[cable]
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
    pub fn truth(&self) -> Truth {
        let whole = |cable: usize| self.whole[cable] == [true; 2];
        Truth::new(&self.shape, |node| self.on[node], whole)
    }

    /// The node at an end of a cable.
    #[must_use]
    pub fn node_at(&self, at: Spot) -> u16 {
        self.shape.cables[usize::from(at.cable)][usize::from(at.end)]
    }

    /// Takes in what happened.
    pub(super) fn note(&mut self, fact: &MeshFact<'_>) {
        match *fact {
            MeshFact::Up { at, epoch } => self.set_link(at, Some(epoch)),
            MeshFact::Down { at, .. } => self.set_link(at, None),
            MeshFact::Asked {
                from,
                to,
                known_life,
                ..
            } => self.book.add(Ask {
                from: (from, self.life(from)),
                to: (to, known_life),
                executed: 0,
                reply: 0,
                told: None,
                doubted: false,
            }),
            MeshFact::Executed { token, at, reply } => {
                self.executed[usize::from(at)] += 1;
                self.book.change(token, |ask| {
                    ask.executed += 1;
                    if ask.executed == 1 {
                        ask.reply = reply;
                    }
                });
            }
            MeshFact::Told { token, by, how } => {
                let told = &mut self.told[usize::from(by)];
                match how {
                    super::book::Told::Committed(_) => told[0] += 1,
                    super::book::Told::Restarted => told[1] += 1,
                    super::book::Told::Refused => {}
                }
                self.book.change(token, |ask| ask.told = Some(how));
                self.changed_units = self.now_units;
            }
            MeshFact::Doubted { token, .. } => self.book.change(token, |ask| ask.doubted = true),
            MeshFact::Fault(fault) => self.note_fault(fault),
            MeshFact::Sent { .. } | MeshFact::AtRest { .. } => {}
        }
    }

    fn set_link(&mut self, at: Spot, epoch: Option<u32>) {
        self.links[usize::from(at.cable)][usize::from(at.end)] = epoch;
        self.changed_units = self.now_units;
    }

    fn note_fault(&mut self, fault: &MeshFault) {
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
                for (cable, ends) in self.shape.cables.iter().enumerate() {
                    for (end, at) in ends.iter().enumerate() {
                        if usize::from(*at) == node {
                            self.links[cable][end] = None;
                        }
                    }
                }
                let lives = &self.lives;
                self.book.tidy(|node| lives[usize::from(node)]);
            }
            MeshFault::Start { node } => self.on[usize::from(node)] = true,
            MeshFault::Stall { .. } => {}
        }
    }
}
