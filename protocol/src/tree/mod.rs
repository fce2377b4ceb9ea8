//! Trees: each node roots one, and all others know over which neighbour the way to it leads.
//!
//! [`Trees`] is what one node knows. It hears [notes](note) of its neighbours and writes notes to them; links carry these once and in order
//! or fail. It has no clock: paces only audit, and make ways shorter.
//!
//! | file | what |
//! |---|---|
//! | `label` | how near a node is to a root |
//! | `note` | what neighbours say to each other, as bytes |
//! | `berths`, `waiting` | sets of neighbours; what waits to be said |
//! | `table` | the known trees, and what the neighbours said of them |
//! | `settle` | the one function that decides where a node hangs |
//! | `seek` | to ask a neighbour to come nearer, to pass that on, to deny it |
//! | `share` | which trees give way when there are more than there is room for |
//! | `root` | waves, which only the root begins |
//! | `say` | the next note |
//! | `pace` | what is done with each pace |
//! | `audit` | comparing notes with each neighbour; the own table |
//! | `view` | what may be seen of it |
//!
//! # Why there is no loop
//! A node's [`Label`] only ever comes nearer, and the node takes or keeps as its parent only a neighbour whose label, as that neighbour
//! said it last, is nearer than its own. What was said earlier is the label of now or one further. So along parents labels come nearer
//! at every instant, whatever is under way, late or lost, and no way leads back to where it began. Between two labels there nearly always
//! is room for another: a node whose parent is gone asks a neighbour to come nearer than it, and nobody behind it has to know.
//!
//! # How a parent is replaced
//! Where another neighbour is nearer, it is taken at once. Else the node [seeks](Standing::Seeks): it asks every neighbour that is not its
//! child. Who is asked comes nearer, or asks its own parent first, so the question climbs to a node that can. Only when all have denied
//! it, the node is [lost](Standing::Lost) and tells its neighbours; its children then do the same for themselves. Whoever denied says so
//! again when it hangs anew or its parent moved, and that wakes those who gave up.

#[cfg(feature = "arbitrary-state")]
mod arbitrary;
mod audit;
mod berths;
mod label;
mod neighbors;
pub mod note;
mod pace;
mod root;
mod say;
mod seek;
mod settle;
mod share;
mod table;
mod view;
mod waiting;

use alloc::vec::Vec;

pub(crate) use self::neighbors::Neighbors;
pub use self::{
    berths::{BERTHS_MAX, Berths},
    label::Label,
    view::{TreeCounters, TreeView, Way},
};
use self::{
    note::{BadNote, Item, Note},
    root::Waves,
    share::Shares,
    table::{Berth, Said, Table},
};
use crate::Name;

/// What the trees of a node are told about it.
#[derive(Debug, Clone, Copy)]
pub struct TreesConfig {
    /// The node's GUID. Not zero.
    pub guid: u64,
    /// Low half of the node's incarnation: tells two nodes that say one GUID.
    pub life: u16,
    /// The node's name for people.
    pub name: Name,
    /// Whether the node roots a tree, so that others know a way to it.
    pub roots: bool,
    /// Most trees that it knows, its own included; 0 is taken for 1.
    pub roots_max: u16,
}

/// Where a node stands in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// On a parent, or it is the root.
    Hangs,
    /// It has lost its parent and asks its neighbours. Nobody behind knows it yet.
    Seeks,
    /// Every neighbour was asked in vain, and all were told: no way to the root is known.
    Lost,
}

/// What happens to a tree that somebody may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeEvent {
    /// The way to a root leads over this berth now.
    Hangs {
        /// GUID of the root.
        root: u64,
        /// The berth of the neighbour.
        berth: u8,
        /// Cables between this node and the root.
        hops: u16,
    },
    /// There is no way to this root: partitioned from it, as far as can be known here. May be early, while somebody else still seeks; then
    /// [`TreeEvent::Hangs`] takes it back.
    Lost {
        /// GUID of the root.
        root: u64,
    },
    /// A root's name is known, or another one.
    Called {
        /// GUID of the root.
        root: u64,
        /// Its name.
        name: Name,
    },
    /// A node that says this node's GUID roots a tree too.
    Twin,
    /// There is no room for this root. Told once until one is forgotten.
    Full {
        /// GUID of the root.
        root: u64,
    },
}

/// Who is told what happens to trees.
pub trait Watch {
    /// Told from inside [`Trees`]' `on_…` methods, once for each change. Must not block.
    fn on_tree(&mut self, event: TreeEvent);
}

impl<F: FnMut(TreeEvent)> Watch for F {
    fn on_tree(&mut self, event: TreeEvent) {
        self(event);
    }
}

/// The trees that one node knows. One owner, one thread; plain data. Allocates in [`Trees::new`] and [`Trees::add_berth`] only.
#[derive(Debug, Clone, Hash)]
pub struct Trees {
    guid: u64,
    life: u16,
    /// The tree that this node roots.
    own: Option<usize>,
    table: Table,
    berths: Vec<Berth>,
    up: Berths,
    waves: Waves,
    shares: Shares,
    full_told: bool,
    /// Whatever could be forgotten was since the last pace.
    nothing_to_forget: bool,
    paces: u8,
    counters: TreeCounters,
}

impl Trees {
    /// The trees of a node without neighbours. Allocates about 180 bytes for each of
    /// [`TreesConfig::roots_max`].
    #[must_use]
    pub fn new(config: &TreesConfig) -> Self {
        let shares = Shares::new(config.roots_max.max(1));
        let mut table = Table::new(shares.trees_max());
        let own = config.roots.then(|| table.insert(config.guid)).flatten();
        if let Some(own) = own {
            let tree = &mut table[own];
            tree.label = Label::of_root(root::first_wave(config.life));
            tree.standing = Standing::Hangs;
            tree.life = config.life;
            tree.name = Some(config.name);
        }
        Self {
            guid: config.guid,
            life: config.life,
            own,
            table,
            berths: Vec::with_capacity(BERTHS_MAX),
            up: Berths::NONE,
            waves: Waves::default(),
            shares,
            full_told: false,
            nothing_to_forget: false,
            paces: 0,
            counters: TreeCounters::default(),
        }
    }

    /// Makes room for one more neighbour at a time: its berth, which nobody is at yet. `None` where there are [`BERTHS_MAX`]. Allocates
    /// about 28 bytes for each of [`TreesConfig::roots_max`].
    pub fn add_berth(&mut self) -> Option<u8> {
        let berth = self.berths.len();
        if berth >= BERTHS_MAX {
            return None;
        }
        self.berths.push(Berth::new(self.table.capacity()));
        self.table.add_berth();
        Some(berth as u8)
    }

    /// The lowest berth at which nobody is.
    #[must_use]
    pub fn free_berth(&self) -> Option<u8> {
        (0..self.berths.len() as u8).find(|&berth| !self.up.contains(berth))
    }

    /// A link came up: somebody is at a berth of [`Trees::free_berth`], who was told nothing yet.
    pub fn on_up(&mut self, berth: u8, watch: &mut impl Watch) {
        if usize::from(berth) >= self.berths.len() {
            return;
        }
        self.on_down(berth, watch);
        self.clear(berth);
        self.up.insert(berth);
        let Self { table, berths, .. } = self;
        for at in table.indices() {
            // Of what is lost there is nothing to say to somebody who was told nothing.
            if table[at].standing != Standing::Lost {
                berths[usize::from(berth)].adverts.insert(at);
            }
        }
    }

    /// A link failed: what its neighbour said is so no longer. Does nothing at a berth at which nobody is.
    pub fn on_down(&mut self, berth: u8, watch: &mut impl Watch) {
        if !self.up.contains(berth) {
            return;
        }
        self.up.remove(berth);
        self.part(berth);
        self.clear(berth);
        for at in self.table.places() {
            if !self.table.is_known(at) {
                continue;
            }
            let tree = &mut self.table[at];
            tree.denied.remove(berth);
            tree.asked.remove(berth);
            tree.unheard.remove(berth);
            tree.written.remove(berth);
            tree.turned_away.remove(berth);
            tree.seekers.remove(berth);
            if tree.seekers.is_empty() {
                tree.want_nothing();
            }
            self.settle(at, watch);
        }
    }

    /// Nothing was heard of a neighbour, and nothing waits for it.
    fn clear(&mut self, berth: u8) {
        self.berths[usize::from(berth)].clear();
        self.table
            .said_by_mut(berth)
            .for_each(|said| *said = Said::NOTHING);
    }

    /// The neighbour at a berth says something. At a berth at which nobody is, nothing is heard.
    ///
    /// # Errors
    /// No node says it, and nothing of it was heard: the link is to be declared failed.
    pub fn on_note(
        &mut self,
        berth: u8,
        note: &[u8],
        watch: &mut impl Watch,
    ) -> Result<(), BadNote> {
        let note = Note::read(note)?;
        if !self.up.contains(berth) {
            return Ok(());
        }
        match note {
            Note::Advert(items) => {
                self.fetch(items.clone());
                items.for_each(|item| self.on_advert(berth, &item, watch));
            }
            Note::Seek(items) => items.for_each(|item| self.on_seek(berth, &item, watch)),
            Note::Denied(roots) => roots.for_each(|root| self.on_denied(berth, root, watch)),
            Note::Digest(digest) => self.on_digest(berth, &digest, watch),
            Note::Tell(number) => self.on_tell(berth, number),
            Note::Called(names) => {
                names.for_each(|(root, name)| self.on_called(berth, root, name, watch));
            }
        }
        Ok(())
    }

    /// Reads what a note will change. A large table is not in the cache, and here nothing waits for
    /// what was read before.
    fn fetch(&self, items: impl Iterator<Item = Item>) {
        let known = items.filter_map(|item| self.table.find(item.root));
        core::hint::black_box(known.fold(0, |all, at| {
            let tree = &self.table[at];
            let said = self.up.iter().map(|berth| self.said(at, berth).hops);
            all ^ tree.hops ^ u16::from(tree.lost_paces) ^ said.fold(0, |all, hops| all ^ hops)
        }));
    }

    fn on_advert(&mut self, berth: u8, item: &Item, watch: &mut impl Watch) {
        let said = Said::of(item);
        let at = match self.table.find(item.root) {
            Some(at) => at,
            None if said.hangs && item.root != self.guid => match self.take_in(berth, item.root) {
                Some(at) => at,
                None => return self.leave_out(berth, item.root, watch),
            },
            None => return,
        };
        let is_full = self.is_full();
        let place = &mut self.berths[usize::from(berth)];
        if said.hangs && is_full && self.table[at].turned_away.contains(berth) {
            place.audit.left_out = true;
            self.shares.refuse(berth);
            return;
        }
        *self.table.said_mut(at, berth) = said;
        if said.child && item.nameless && self.table[at].name.is_some() {
            place.names.insert(at);
        }
        if self.own == Some(at) {
            self.on_own(item);
            return;
        }
        let tree = &mut self.table[at];
        match tree.standing {
            Standing::Hangs => {
                if said.hangs && tree.parent == Some(berth) {
                    // Its parent moved: whoever was denied may ask again.
                    self.tell_denied_again(at);
                }
            }
            Standing::Seeks | Standing::Lost => {
                if said.is_candidate() {
                    tree.asked.insert(berth);
                    place.seeks.insert(at);
                }
            }
        }
        self.settle(at, watch);
    }

    /// Names come down the tree, so none goes round.
    fn on_called(&mut self, berth: u8, root: u64, name: Name, watch: &mut impl Watch) {
        let Some(at) = self.table.find(root) else {
            return;
        };
        let tree = &mut self.table[at];
        if tree.parent != Some(berth) || tree.name == Some(name) {
            return;
        }
        tree.name = Some(name);
        for child in self.children_at(at).iter() {
            self.berths[usize::from(child)].names.insert(at);
        }
        watch.on_tree(TreeEvent::Called { root, name });
    }

    fn leave_out(&mut self, berth: u8, root: u64, watch: &mut impl Watch) {
        self.berths[usize::from(berth)].audit.left_out = true;
        self.shares.refuse(berth);
        if !self.full_told {
            self.full_told = true;
            watch.on_tree(TreeEvent::Full { root });
        }
    }

    /// Says to these neighbours where this node stands.
    fn advert(&mut self, at: usize, berths: Berths) {
        for berth in berths.and(self.up).iter() {
            self.berths[usize::from(berth)].adverts.insert(at);
        }
    }

    fn said(&self, at: usize, berth: u8) -> &Said {
        self.table.said(at, berth)
    }

    /// Neighbours that say something of a tree for which `is` holds.
    fn who(&self, at: usize, is: impl Fn(&Said) -> bool) -> Berths {
        self.up
            .iter()
            .filter(|&berth| is(self.said(at, berth)))
            .collect()
    }

    /// Neighbours that may be asked to come nearer.
    fn candidates(&self, at: usize) -> Berths {
        self.who(at, Said::is_candidate)
    }

    fn children_at(&self, at: usize) -> Berths {
        self.who(at, |said| said.child)
    }
}
