//! The trees that a node knows, by the GUIDs of their roots, and the last adverts of the neighbors.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use super::{Label, NeighborSet, Standing, audit::Audit, note::Item, waiting::Waiting};
use crate::Name;

/// The last advert of a tree by a neighbor.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Advertised {
    pub label: Label,
    pub hops: u16,
    pub incarnation: u16,
    pub attached: bool,
    /// This node is its parent.
    pub child: bool,
    /// The neighbor was requested to send everything again, and has not repeated this advert yet.
    pub stale: bool,
}

impl Advertised {
    pub const NOTHING: Self = Self {
        label: Label::FURTHEST,
        hops: 0,
        incarnation: 0,
        attached: false,
        child: false,
        stale: false,
    };

    /// The content of an item. A label that no node can have is ignored.
    pub const fn of(item: &Item) -> Self {
        let attached = item.attached && item.label.is_credible();
        Self {
            label: item.label,
            hops: if attached { item.hops } else { 0 },
            incarnation: item.incarnation,
            attached,
            child: attached && item.child,
            stale: false,
        }
    }

    /// Whether a node with this label may attach to the sender.
    pub const fn leads(&self, label: Label) -> bool {
        self.attached && self.label.is_nearer(label)
    }

    /// Whether a request to the sender to move nearer can have a result.
    pub const fn is_candidate(&self) -> bool {
        self.attached && !self.child
    }
}

/// One tree, as this node sees it.
#[derive(Debug, Clone, Hash)]
pub(super) struct Tree {
    pub root: u64,
    pub label: Label,
    /// The nearest label that a node behind this one requests as a bound; [`Label::FURTHEST`] for
    /// none.
    pub wanted: Label,
    /// The bound that was requested from the parent because of it.
    pub requested_bound: Label,
    pub name: Option<Name>,
    pub hops: u16,
    /// Low half of the root's incarnation.
    pub incarnation: u16,
    pub standing: Standing,
    pub parent: Option<u8>,
    /// The advertised number of hops. An increase is advertised with the next tick.
    pub advertised_hops: u16,
    /// Neighbor indices that wait for `wanted`.
    pub searchers: NeighborSet,
    /// Neighbor indices that received "not now".
    pub denied: NeighborSet,
    /// Neighbor indices that received a request and have not answered.
    pub requested: NeighborSet,
    /// Neighbor indices that may not know yet that this node is unreachable.
    pub unconfirmed: NeighborSet,
    /// Neighbor indices to which that was written before the adverts whose receipt is pending.
    pub written: NeighborSet,
    /// Neighbor indices whose adverts are ignored, because the tree gave way to trees of other
    /// neighbors.
    pub turned_away: NeighborSet,
    pub lost_ticks: u8,
    pub origin: Origin,
}

/// Which neighbor brought a tree, and when. Matters only in a full table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// The neighbor index of its last parent, or of the neighbor that announced it first.
    pub neighbor: u8,
    /// Counts the trees that were taken in: the later one has the greater number.
    pub serial: u64,
}

/// While there is space, it has no effect.
impl Hash for Origin {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl Tree {
    /// A tree without any advert.
    pub const fn new(root: u64, serial: u64) -> Self {
        Self {
            root,
            label: Label::FURTHEST,
            wanted: Label::FURTHEST,
            requested_bound: Label::FURTHEST,
            name: None,
            hops: 0,
            incarnation: 0,
            standing: Standing::Lost,
            parent: None,
            advertised_hops: 0,
            searchers: NeighborSet::NONE,
            denied: NeighborSet::NONE,
            requested: NeighborSet::NONE,
            unconfirmed: NeighborSet::NONE,
            written: NeighborSet::NONE,
            turned_away: NeighborSet::NONE,
            lost_ticks: 0,
            origin: Origin {
                neighbor: 0,
                serial,
            },
        }
    }

    /// No neighbor waits for this node any more.
    pub const fn want_nothing(&mut self) {
        self.searchers = NeighborSet::NONE;
        self.wanted = Label::FURTHEST;
        self.requested_bound = Label::FURTHEST;
    }

    /// Whether a neighbor waits for this node to move nearer.
    pub fn is_wanted(&self) -> bool {
        self.wanted != Label::FURTHEST
    }
}

/// The queues and the audit of one neighbor. All are indexed by tree.
#[derive(Debug, Clone, Hash)]
pub(super) struct NeighborEntry {
    pub adverts: Waiting,
    pub denials: Waiting,
    pub names: Waiting,
    pub searches: Waiting,
    pub audit: Audit,
}

impl NeighborEntry {
    pub fn new(trees: usize) -> Self {
        Self {
            adverts: Waiting::new(trees),
            denials: Waiting::new(trees),
            names: Waiting::new(trees),
            searches: Waiting::new(trees),
            audit: Audit::default(),
        }
    }

    /// Nothing waits.
    pub fn clear(&mut self) {
        self.audit = Audit::default();
        for waiting in [
            &mut self.adverts,
            &mut self.denials,
            &mut self.names,
            &mut self.searches,
        ] {
            waiting.clear();
        }
    }

    /// Whether a message about a tree is queued.
    pub fn waits(&self, tree: usize) -> bool {
        let mut waiting = self.waiting().into_iter();
        waiting.any(|waiting| waiting.contains(tree))
    }

    /// Whether no message about any tree is queued.
    pub fn is_silent(&self) -> bool {
        let mut waiting = self.waiting().into_iter();
        waiting.all(Waiting::is_empty)
    }

    const fn waiting(&self) -> [&Waiting; 4] {
        [&self.adverts, &self.denials, &self.names, &self.searches]
    }
}

/// As [`slice::binary_search`]. It starts at the expected position of the root if GUIDs are spread
/// evenly, as random ones are, and so touches few cache lines. For other GUIDs it takes at most
/// about twice as many steps as a binary search.
fn place_of(roots: &[u64], root: u64) -> Result<usize, usize> {
    let (Some(&first), Some(&last)) = (roots.first(), roots.last()) else {
        return Err(0);
    };
    if root < first {
        return Err(0);
    }
    if root > last {
        return Err(roots.len());
    }
    let share = u128::from(root - first) * (roots.len() - 1) as u128;
    let guess = (share / u128::from(last - first).max(1)) as usize;
    let mut step = 1;
    // The root lies in `low..high`, if at all.
    let (low, high) = if roots[guess] <= root {
        let mut low = guess;
        while low + step < roots.len() && roots[low + step] <= root {
            low += step;
            step *= 2;
        }
        (low, roots.len().min(low + step))
    } else {
        let mut high = guess;
        while high > step && roots[high - step] > root {
            high -= step;
            step *= 2;
        }
        (high.saturating_sub(step), high)
    };
    let place = roots[low..high].binary_search(&root);
    place.map(|at| low + at).map_err(|at| low + at)
}

/// Trees by index, which one keeps as long as it is known.
#[derive(Debug, Clone, Hash)]
pub(super) struct Table {
    trees: Vec<Tree>,
    /// The GUIDs of the known roots, sorted. Separate from the trees, because a search reads only
    /// the GUIDs.
    roots: Vec<u64>,
    /// Indices of their trees, in the same order.
    order: Vec<u16>,
    /// The GUIDs of the roots by the indices of their trees; 0, which no root has, for a released
    /// index.
    guids: Vec<u64>,
    /// Indices that were given back.
    free: Vec<u16>,
    /// The last advert of each tree by each neighbor. Those of one tree are adjacent, because they
    /// are compared.
    advertised: Vec<Advertised>,
    /// Number of neighbors for which there is space.
    neighbors: usize,
    trees_max: usize,
    /// The latest one.
    last: Origin,
}

impl Table {
    pub fn new(trees_max: u16) -> Self {
        let trees_max = usize::from(trees_max);
        Self {
            trees: Vec::with_capacity(trees_max),
            roots: Vec::with_capacity(trees_max),
            order: Vec::with_capacity(trees_max),
            guids: Vec::with_capacity(trees_max),
            free: Vec::with_capacity(trees_max),
            advertised: Vec::new(),
            neighbors: 0,
            trees_max,
            last: Origin {
                neighbor: 0,
                serial: 0,
            },
        }
    }

    /// Adds space for the adverts of one more neighbor. Allocates.
    pub fn add_neighbor(&mut self) {
        let neighbors = self.neighbors + 1;
        let mut advertised = vec![Advertised::NOTHING; self.trees_max * neighbors];
        if self.neighbors > 0 {
            for (row, old) in advertised
                .chunks_mut(neighbors)
                .zip(self.advertised.chunks(self.neighbors))
            {
                row[..self.neighbors].copy_from_slice(old);
            }
        }
        (self.advertised, self.neighbors) = (advertised, neighbors);
    }

    /// The last advert of a tree by this neighbor.
    pub fn advertised(&self, at: usize, neighbor: u8) -> &Advertised {
        &self.advertised[at * self.neighbors + usize::from(neighbor)]
    }

    /// The same, to be changed.
    pub fn advertised_mut(&mut self, at: usize, neighbor: u8) -> &mut Advertised {
        &mut self.advertised[at * self.neighbors + usize::from(neighbor)]
    }

    /// The adverts of each known tree by a neighbor, mutable.
    pub fn advertised_by_mut(&mut self, neighbor: u8) -> impl Iterator<Item = &mut Advertised> {
        let rows = self.advertised.chunks_mut(self.neighbors.max(1));
        let known = rows.zip(&self.guids).filter(|(_, guid)| **guid != 0);
        known.filter_map(move |(row, _)| row.get_mut(usize::from(neighbor)))
    }

    /// How many are known.
    pub const fn len(&self) -> usize {
        self.order.len()
    }

    /// Maximum number of trees.
    pub const fn capacity(&self) -> usize {
        self.trees_max
    }

    pub fn find(&self, root: u64) -> Option<usize> {
        let place = place_of(&self.roots, root).ok()?;
        Some(usize::from(self.order[place]))
    }

    /// The tree of the last root whose GUID is not greater.
    pub fn find_last(&self, address: u64) -> Option<usize> {
        let place = match place_of(&self.roots, address) {
            Ok(place) => place,
            Err(behind) => behind.checked_sub(1)?,
        };
        Some(usize::from(self.order[place]))
    }

    /// Indices of the known ones, in the order of their roots.
    pub fn in_order(&self) -> impl Iterator<Item = usize> {
        self.order.iter().map(|&at| usize::from(at))
    }

    /// Indices of the known trees in memory order: the fast path through a table that exceeds the
    /// cache.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.places().filter(|&at| self.is_known(at))
    }

    /// All indices, for walks that take in or forget trees. [`Table::is_known`] selects the known
    /// ones.
    pub const fn places(&self) -> core::ops::Range<usize> {
        0..self.guids.len()
    }

    /// Whether an index is that of a known tree.
    pub fn is_known(&self, at: usize) -> bool {
        self.guids[at] != 0
    }

    /// The root of a tree, for walks that read nothing else of it. 0 for a released index.
    pub fn root(&self, at: usize) -> u64 {
        self.guids[at]
    }

    /// Takes in an unknown tree; `None` without space.
    pub fn insert(&mut self, root: u64) -> Option<usize> {
        let place = place_of(&self.roots, root).err()?;
        let tree = Tree::new(root, self.last.serial);
        let at = match self.free.pop() {
            Some(at) => {
                self.trees[usize::from(at)] = tree;
                self.guids[usize::from(at)] = root;
                at
            }
            None if self.trees.len() < self.trees_max => {
                self.trees.push(tree);
                self.guids.push(root);
                (self.trees.len() - 1) as u16
            }
            None => return None,
        };
        self.roots.insert(place, root);
        self.last.serial += 1;
        self.order.insert(place, at);
        Some(usize::from(at))
    }

    /// Forgets a tree.
    pub fn remove(&mut self, at: usize) {
        if let Ok(place) = place_of(&self.roots, self.trees[at].root) {
            self.roots.remove(place);
            self.guids[at] = 0;
            self.advertised[at * self.neighbors..][..self.neighbors].fill(Advertised::NOTHING);
            self.free.push(self.order.remove(place));
        }
    }
}

impl core::ops::Index<usize> for Table {
    type Output = Tree;

    fn index(&self, at: usize) -> &Tree {
        &self.trees[at]
    }
}

impl core::ops::IndexMut<usize> for Table {
    fn index_mut(&mut self, at: usize) -> &mut Tree {
        &mut self.trees[at]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// GUIDs that are spread evenly, that lie next to each other, and at both ends.
    fn guids() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            0..40_u64,
            (0..40_u64).prop_map(|less| u64::MAX - less)
        ]
    }

    proptest! {
        #[test]
        fn place_of_agrees_with_a_binary_search(
            mut roots in proptest::collection::vec(guids(), 0..80),
            others in proptest::collection::vec(guids(), 20),
        ) {
            roots.sort_unstable();
            roots.dedup();
            for root in roots.iter().chain(&others) {
                prop_assert_eq!(place_of(&roots, *root), roots.binary_search(root));
            }
        }
    }
}
