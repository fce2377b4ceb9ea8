//! Read-only views of the trees of a node.

use core::hash::{Hash, Hasher};

use super::{
    Label, NeighborSet, Standing, Trees,
    table::{Advertised, NeighborEntry, Tree},
};
use crate::Name;

/// The next hop to a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// GUID of the root.
    pub root: u64,
    /// The neighbor index.
    pub neighbor: u8,
    /// Cables between this node and the root.
    pub hops: u16,
}

/// One tree, as a node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeView {
    /// GUID of the root.
    pub root: u64,
    /// Its name, once received.
    pub name: Option<Name>,
    /// Where this node stands.
    pub standing: Standing,
    /// Cables between this node and the root; 0 at the root, and where this node is lost.
    pub hops: u16,
    /// The neighbor index of the parent, if there is one.
    pub parent: Option<u8>,
    /// How near this node is.
    pub label: Label,
    /// Indices of the neighbors that are attached to this node.
    pub children: NeighborSet,
}

/// Counters over all trees of a node. Every counter counts up from the node's construction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeCounters {
    /// Times that a parent was lost and another neighbor taken at once.
    pub repaired_at_once: u64,
    /// Times that a neighbor moved nearer on a request of this node.
    pub repaired_by_search: u64,
    /// Times that there was no way to a root.
    pub lost: u64,
    /// Times that there was one again.
    pub found_again: u64,
    /// Times that a shorter way was taken.
    pub shortened: u64,
    /// Waves that this node began as a root.
    pub waves: u64,
}

/// They decide nothing.
impl Hash for TreeCounters {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl Trees {
    /// The path to a node, by its address: the GUID of a root, or up to 255 more, which are its
    /// lanes. `None` if there is none now, and for this node itself.
    #[must_use]
    pub fn route(&self, address: u64) -> Option<Route> {
        let tree = &self.table[self.address(address)?];
        Some(Route {
            root: tree.root,
            neighbor: tree.parent?,
            hops: tree.hops,
        })
    }

    /// The state of this node in the tree of a node, by its address; `None` if the tree is not
    /// known.
    #[must_use]
    pub fn standing(&self, address: u64) -> Option<Standing> {
        Some(self.table[self.address(address)?].standing)
    }

    fn address(&self, address: u64) -> Option<usize> {
        let at = self.table.find_last(address)?;
        (address - self.table[at].root <= u64::from(u8::MAX)).then_some(at)
    }

    /// The neighbors to which a message of a root is forwarded if it came from the parent.
    #[must_use]
    pub fn children(&self, root: u64) -> NeighborSet {
        let at = self.table.find(root);
        at.map_or(NeighborSet::NONE, |at| self.children_at(at))
    }

    /// Neighbor indices in use.
    #[must_use]
    pub const fn up(&self) -> NeighborSet {
        self.up
    }

    /// The tree of this root, if it is known.
    #[must_use]
    pub fn tree(&self, root: u64) -> Option<TreeView> {
        self.table.find(root).map(|at| self.view(at))
    }

    /// How many trees are known, the own one included.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.table.len()
    }

    /// All known trees, the own one included, by the GUIDs of their roots.
    pub fn trees(&self) -> impl Iterator<Item = TreeView> {
        self.table.in_order().map(|at| self.view(at))
    }

    fn view(&self, at: usize) -> TreeView {
        let tree = &self.table[at];
        TreeView {
            root: tree.root,
            name: tree.name,
            standing: tree.standing,
            hops: tree.hops,
            parent: tree.parent,
            label: tree.label,
            children: self.children_at(at),
        }
    }

    /// Roots with queued messages to a neighbor, by their GUIDs. Of all other roots, every neighbor
    /// was sent the latest state.
    pub fn waiting_roots(&self) -> impl Iterator<Item = u64> {
        let is_any = !self.neighbors.iter().all(NeighborEntry::is_silent);
        let waits =
            move |at: &usize| is_any && self.neighbors.iter().any(|neighbor| neighbor.waits(*at));
        let waiting = self.table.in_order().filter(waits);
        waiting.map(|at| self.table[at].root)
    }

    /// Bytes of state about the known trees: one entry for each tree, and for each neighbor index
    /// one more entry and four bits.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let trees = self.table.len();
        let waiting = (4 * trees).div_ceil(8);
        trees * size_of::<Tree>()
            + self.neighbors.len() * (trees * size_of::<Advertised>() + waiting)
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> TreeCounters {
        self.counters
    }
}
