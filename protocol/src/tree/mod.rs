//! Trees: each node is the root of one tree, and all other nodes know which neighbor leads to it.
//!
//! [`Trees`] is the state of one node. It receives [control messages](note) from its neighbors and
//! writes control messages to them. Links deliver these once and in order, or fail. It has no
//! clock: ticks only audit and shorten paths.
//!
//! | file | what |
//! |---|---|
//! | `label` | how near a node is to a root |
//! | `note` | encoding of the messages between neighbors |
//! | `neighbors`, `waiting` | sets of neighbors; queues of outgoing messages |
//! | `table` | the known trees, and the last adverts of the neighbors |
//! | `settle` | the one function that selects the parent of a node |
//! | `search` | requests to a neighbor to move nearer; forwarding and denial |
//! | `share` | which trees give way when there are more than there is room for |
//! | `root` | waves, which only the root begins |
//! | `send` | the next outgoing message |
//! | `tick` | the work of each tick |
//! | `audit` | comparison with each neighbor; consistency of the local table |
//! | `view` | read-only views |
//!
//! # Why there is no loop
//! A node's [`Label`] only moves nearer. A node takes or keeps as its parent only a neighbor whose
//! last advertised label is nearer than its own. An earlier advert shows the current label or one
//! further. Along parents, labels therefore get nearer at every instant, whatever is in flight,
//! late or lost, and no path leads back to its start. Between two labels there is nearly always
//! space for another. A node that lost its parent requests a neighbor to move nearer than it, and
//! the nodes behind it need no notice.
//!
//! # How a parent is replaced
//! If another neighbor is nearer, the node takes it at once. Otherwise the node
//! [searches](Standing::Searches): it sends a request to every neighbor that is not its child. The
//! neighbor moves nearer, or first sends a request to its own parent, so the request climbs to a
//! node that can. Only when all have denied is the root [unreachable](Standing::Lost) for the node,
//! and it notifies its neighbors. Its children then do the same. A neighbor that denied advertises
//! again when it attaches again or its parent moved, and that wakes the nodes that gave up.

#[cfg(feature = "arbitrary-state")]
mod arbitrary;
mod audit;
mod bundles;
mod label;
mod neighbors;
pub mod note;
mod root;
mod search;
mod send;
mod settle;
mod share;
mod table;
mod tick;
mod view;
mod waiting;

use alloc::vec::Vec;

pub(crate) use self::bundles::Bundles;
pub use self::{
    label::Label,
    neighbors::{NEIGHBORS_MAX, NeighborSet},
    view::{Route, TreeCounters, TreeView},
};
use self::{
    note::{BadControlMessage, ControlMessage, Item},
    root::Waves,
    share::Shares,
    table::{Advertised, NeighborEntry, Table},
};
use crate::Name;

/// The configuration of the trees of a node.
#[derive(Debug, Clone, Copy)]
pub struct TreesConfig {
    /// The node's GUID. Not zero.
    pub guid: u64,
    /// Low half of the node's incarnation. Distinguishes two nodes with the same GUID.
    pub incarnation: u16,
    /// The node's name for people.
    pub name: Name,
    /// Whether the node is the root of a tree, which gives other nodes a path to it.
    pub roots: bool,
    /// Most trees that it knows, its own included; 0 is taken for 1.
    pub roots_max: u16,
}

/// The state of a node in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// On a parent, or it is the root.
    Attached,
    /// Searching: it has lost its parent and sends requests to its neighbors. No node behind it
    /// knows yet.
    Searches,
    /// Unreachable: it queried every neighbor without result and notified all of them. No path to
    /// the root is known.
    Lost,
}

/// An event of a tree, for the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeEvent {
    /// The path to a root leads over this neighbor now.
    Attached {
        /// GUID of the root.
        root: u64,
        /// The neighbor index.
        neighbor: u8,
        /// Cables between this node and the root.
        hops: u16,
    },
    /// No path leads to this root: this node is partitioned from it, as far as it can know. The
    /// event may be early, while another node still searches. In that case [`TreeEvent::Attached`]
    /// revokes it.
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
    /// Another node with this node's GUID roots a tree too.
    Twin,
    /// There is no space for this root. Reported once until a tree is forgotten.
    Full {
        /// GUID of the root.
        root: u64,
    },
}

/// The receiver of tree events.
pub trait Watch {
    /// Called from inside the `on_…` methods of [`Trees`], once for each change. Must not block.
    fn on_tree(&mut self, event: TreeEvent);
}

impl<F: FnMut(TreeEvent)> Watch for F {
    fn on_tree(&mut self, event: TreeEvent) {
        self(event);
    }
}

/// The trees that one node knows. Plain data with one owner in one thread. Allocates in
/// [`Trees::new`] and [`Trees::add_neighbor`] only.
#[derive(Debug, Clone, Hash)]
pub struct Trees {
    guid: u64,
    incarnation: u16,
    /// The tree that this node roots.
    own: Option<usize>,
    table: Table,
    neighbors: Vec<NeighborEntry>,
    up: NeighborSet,
    waves: Waves,
    shares: Shares,
    full_reported: bool,
    /// All trees that could be forgotten were forgotten since the last tick.
    nothing_to_forget: bool,
    ticks: u8,
    counters: TreeCounters,
}

impl Trees {
    /// The trees of a node without neighbors. Allocates about 180 bytes for each of
    /// [`TreesConfig::roots_max`].
    #[must_use]
    pub fn new(config: &TreesConfig) -> Self {
        let shares = Shares::new(config.roots_max.max(1));
        let mut table = Table::new(shares.trees_max());
        let own = config.roots.then(|| table.insert(config.guid)).flatten();
        if let Some(own) = own {
            let tree = &mut table[own];
            tree.label = Label::of_root(root::first_wave(config.incarnation));
            tree.standing = Standing::Attached;
            tree.incarnation = config.incarnation;
            tree.name = Some(config.name);
        }
        Self {
            guid: config.guid,
            incarnation: config.incarnation,
            own,
            table,
            neighbors: Vec::with_capacity(NEIGHBORS_MAX),
            up: NeighborSet::NONE,
            waves: Waves::default(),
            shares,
            full_reported: false,
            nothing_to_forget: false,
            ticks: 0,
            counters: TreeCounters::default(),
        }
    }

    /// Adds capacity for one more neighbor and returns its neighbor index, which is unused at
    /// first. `None` when there are [`NEIGHBORS_MAX`]. Allocates about 28 bytes for each of
    /// [`TreesConfig::roots_max`].
    pub fn add_neighbor(&mut self) -> Option<u8> {
        let neighbor = self.neighbors.len();
        if neighbor >= NEIGHBORS_MAX {
            return None;
        }
        self.neighbors
            .push(NeighborEntry::new(self.table.capacity()));
        self.table.add_neighbor();
        Some(neighbor as u8)
    }

    /// The lowest unused neighbor index.
    #[must_use]
    pub fn free_neighbor_index(&self) -> Option<u8> {
        (0..self.neighbors.len() as u8).find(|&neighbor| !self.up.contains(neighbor))
    }

    /// A link came up: a neighbor that received nothing yet takes an index of
    /// [`Trees::free_neighbor_index`].
    pub fn on_up(&mut self, neighbor: u8, watch: &mut impl Watch) {
        if usize::from(neighbor) >= self.neighbors.len() {
            return;
        }
        self.on_down(neighbor, watch);
        self.clear(neighbor);
        self.up.insert(neighbor);
        let Self {
            table, neighbors, ..
        } = self;
        for at in table.indices() {
            // A new neighbor needs no advert of an unreachable tree.
            if table[at].standing != Standing::Lost {
                neighbors[usize::from(neighbor)].adverts.insert(at);
            }
        }
    }

    /// A link failed: the adverts of its neighbor are void. Does nothing at an unused neighbor
    /// index.
    pub fn on_down(&mut self, neighbor: u8, watch: &mut impl Watch) {
        if !self.up.contains(neighbor) {
            return;
        }
        self.up.remove(neighbor);
        self.part(neighbor);
        self.clear(neighbor);
        for at in self.table.places() {
            if !self.table.is_known(at) {
                continue;
            }
            let tree = &mut self.table[at];
            tree.denied.remove(neighbor);
            tree.requested.remove(neighbor);
            tree.unconfirmed.remove(neighbor);
            tree.written.remove(neighbor);
            tree.turned_away.remove(neighbor);
            tree.searchers.remove(neighbor);
            if tree.searchers.is_empty() {
                tree.want_nothing();
            }
            self.settle(at, watch);
        }
    }

    /// Discards everything received from a neighbor and everything queued for it.
    fn clear(&mut self, neighbor: u8) {
        self.neighbors[usize::from(neighbor)].clear();
        self.table
            .advertised_by_mut(neighbor)
            .for_each(|advertised| *advertised = Advertised::NOTHING);
    }

    /// Handles a control message of a neighbor. Ignores messages at an unused neighbor index.
    ///
    /// # Errors
    /// No node sends such a message. It has no effect, and the caller must declare the link failed.
    pub fn on_control_message(
        &mut self,
        neighbor: u8,
        note: &[u8],
        watch: &mut impl Watch,
    ) -> Result<(), BadControlMessage> {
        let note = ControlMessage::read(note)?;
        if !self.up.contains(neighbor) {
            return Ok(());
        }
        match note {
            ControlMessage::Advert(items) => {
                self.fetch(items.clone());
                items.for_each(|item| self.on_advert(neighbor, &item, watch));
            }
            ControlMessage::Search(items) => {
                items.for_each(|item| self.on_search(neighbor, &item, watch))
            }
            ControlMessage::Denied(roots) => {
                roots.for_each(|root| self.on_denied(neighbor, root, watch))
            }
            ControlMessage::Digest(digest) => self.on_digest(neighbor, &digest, watch),
            ControlMessage::Resync(number) => self.on_resync(neighbor, number),
            ControlMessage::Called(names) => {
                names.for_each(|(root, name)| self.on_called(neighbor, root, name, watch));
            }
        }
        Ok(())
    }

    /// Reads the entries that a message will change. A large table is not in the cache, and these
    /// reads do not depend on each other.
    fn fetch(&self, items: impl Iterator<Item = Item>) {
        let known = items.filter_map(|item| self.table.find(item.root));
        core::hint::black_box(known.fold(0, |all, at| {
            let tree = &self.table[at];
            let advertised = self
                .up
                .iter()
                .map(|neighbor| self.advertised(at, neighbor).hops);
            all ^ tree.hops
                ^ u16::from(tree.lost_ticks)
                ^ advertised.fold(0, |all, hops| all ^ hops)
        }));
    }

    fn on_advert(&mut self, neighbor: u8, item: &Item, watch: &mut impl Watch) {
        let advertised = Advertised::of(item);
        let at = match self.table.find(item.root) {
            Some(at) => at,
            None if advertised.attached && item.root != self.guid => {
                match self.take_in(neighbor, item.root) {
                    Some(at) => at,
                    None => return self.leave_out(neighbor, item.root, watch),
                }
            }
            None => return,
        };
        let is_full = self.is_full();
        let place = &mut self.neighbors[usize::from(neighbor)];
        if advertised.attached && is_full && self.table[at].turned_away.contains(neighbor) {
            place.audit.left_out = true;
            self.shares.refuse(neighbor);
            return;
        }
        *self.table.advertised_mut(at, neighbor) = advertised;
        if advertised.child && item.nameless && self.table[at].name.is_some() {
            place.names.insert(at);
        }
        if self.own == Some(at) {
            self.on_own(item);
            return;
        }
        let tree = &mut self.table[at];
        match tree.standing {
            Standing::Attached => {
                if advertised.attached && tree.parent == Some(neighbor) {
                    // Its parent moved: a denied neighbor may request again.
                    self.advertise_again_to_denied(at);
                }
            }
            Standing::Searches | Standing::Lost => {
                if advertised.is_candidate() {
                    tree.requested.insert(neighbor);
                    place.searches.insert(at);
                }
            }
        }
        self.settle(at, watch);
    }

    /// Names come down the tree, so none goes round.
    fn on_called(&mut self, neighbor: u8, root: u64, name: Name, watch: &mut impl Watch) {
        let Some(at) = self.table.find(root) else {
            return;
        };
        let tree = &mut self.table[at];
        if tree.parent != Some(neighbor) || tree.name == Some(name) {
            return;
        }
        tree.name = Some(name);
        for child in self.children_at(at).iter() {
            self.neighbors[usize::from(child)].names.insert(at);
        }
        watch.on_tree(TreeEvent::Called { root, name });
    }

    fn leave_out(&mut self, neighbor: u8, root: u64, watch: &mut impl Watch) {
        self.neighbors[usize::from(neighbor)].audit.left_out = true;
        self.shares.refuse(neighbor);
        if !self.full_reported {
            self.full_reported = true;
            watch.on_tree(TreeEvent::Full { root });
        }
    }

    /// Queues an advert of this node's state for these neighbors.
    fn advert(&mut self, at: usize, neighbors: NeighborSet) {
        for neighbor in neighbors.and(self.up).iter() {
            self.neighbors[usize::from(neighbor)].adverts.insert(at);
        }
    }

    fn advertised(&self, at: usize, neighbor: u8) -> &Advertised {
        self.table.advertised(at, neighbor)
    }

    /// Neighbors whose last advert of a tree satisfies `is`.
    fn neighbors_where(&self, at: usize, is: impl Fn(&Advertised) -> bool) -> NeighborSet {
        self.up
            .iter()
            .filter(|&neighbor| is(self.advertised(at, neighbor)))
            .collect()
    }

    /// Neighbors that may receive a request to move nearer.
    fn candidates(&self, at: usize) -> NeighborSet {
        self.neighbors_where(at, Advertised::is_candidate)
    }

    fn children_at(&self, at: usize) -> NeighborSet {
        self.neighbors_where(at, |advertised| advertised.child)
    }
}
