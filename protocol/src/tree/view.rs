//! What may be seen of the trees of a node.

use core::hash::{Hash, Hasher};

use super::{
    Berths, Label, Standing, Trees,
    table::{Berth, Said, Tree},
};
use crate::Name;

/// The next hop to a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// GUID of the root.
    pub root: u64,
    /// The berth of the neighbour.
    pub berth: u8,
    /// Cables between this node and the root.
    pub hops: u16,
}

/// One tree, as a node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeView {
    /// GUID of the root.
    pub root: u64,
    /// Its name, once it was told.
    pub name: Option<Name>,
    /// Where this node stands.
    pub standing: Standing,
    /// Cables between this node and the root; 0 at the root, and where this node is lost.
    pub hops: u16,
    /// The berth of the parent, if there is one.
    pub parent: Option<u8>,
    /// How near this node is.
    pub label: Label,
    /// Berths of the neighbours that hang on this node.
    pub children: Berths,
}

/// What happened in all trees of a node. Every counter counts up from the node's construction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeCounters {
    /// Times that a parent was lost and another neighbour taken at once.
    pub repaired_at_once: u64,
    /// Times that a neighbour came nearer because this node sought.
    pub repaired_by_seeking: u64,
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
    /// The way to a node, by its address: the GUID of a root, or up to 255 more, which are its lanes. `None` where there is none now, and to this
    /// node itself.
    #[must_use]
    pub fn way(&self, address: u64) -> Option<Way> {
        let tree = &self.table[self.address(address)?];
        Some(Way {
            root: tree.root,
            berth: tree.parent?,
            hops: tree.hops,
        })
    }

    /// Where this node stands in the tree of a node, by its address; `None` where the tree is not known.
    #[must_use]
    pub fn standing(&self, address: u64) -> Option<Standing> {
        Some(self.table[self.address(address)?].standing)
    }

    fn address(&self, address: u64) -> Option<usize> {
        let at = self.table.find_last(address)?;
        (address - self.table[at].root <= u64::from(u8::MAX)).then_some(at)
    }

    /// Whom a word of a root is passed on to, if it came from the parent.
    #[must_use]
    pub fn children(&self, root: u64) -> Berths {
        let at = self.table.find(root);
        at.map_or(Berths::NONE, |at| self.children_at(at))
    }

    /// Berths at which somebody is.
    #[must_use]
    pub const fn up(&self) -> Berths {
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

    /// Roots of which something waits to be sent to a neighbor, by their GUIDs. Every neighbor was sent the last word of all others.
    pub fn waiting_roots(&self) -> impl Iterator<Item = u64> {
        let is_any = !self.berths.iter().all(Berth::is_silent);
        let waits = move |at: &usize| is_any && self.berths.iter().any(|berth| berth.waits(*at));
        let waiting = self.table.in_order().filter(waits);
        waiting.map(|at| self.table[at].root)
    }

    /// Bytes of what is known of the known trees: one entry for each, and one more and four bits for each neighbour that there is room for.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let trees = self.table.len();
        let waiting = (4 * trees).div_ceil(8);
        trees * size_of::<Tree>() + self.berths.len() * (trees * size_of::<Said>() + waiting)
    }

    /// What happened.
    #[must_use]
    pub const fn counters(&self) -> TreeCounters {
        self.counters
    }
}
