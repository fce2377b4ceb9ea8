//! The trees that a node knows, by the GUIDs of their roots, and what the neighbours said of them.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use super::{Berths, Label, Standing, audit::Audit, note::Item, waiting::Waiting};
use crate::Name;

/// What a neighbour said last of a tree.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Said {
    pub label: Label,
    pub hops: u16,
    pub life: u16,
    pub hangs: bool,
    /// This node is its parent.
    pub child: bool,
    /// The neighbour was asked to say everything again, and did not say this again yet.
    pub stale: bool,
}

impl Said {
    pub const NOTHING: Self = Self {
        label: Label::FURTHEST,
        hops: 0,
        life: 0,
        hangs: false,
        child: false,
        stale: false,
    };

    /// What an item says. A label that no node has is not believed.
    pub const fn of(item: &Item) -> Self {
        let hangs = item.hangs && item.label.is_credible();
        Self {
            label: item.label,
            hops: if hangs { item.hops } else { 0 },
            life: item.life,
            hangs,
            child: hangs && item.child,
            stale: false,
        }
    }

    /// Whether a node with this label may hang on whoever said it.
    pub const fn leads(&self, label: Label) -> bool {
        self.hangs && self.label.is_nearer(label)
    }

    /// Whether it is worth asking whoever said it to come nearer.
    pub const fn is_candidate(&self) -> bool {
        self.hangs && !self.child
    }
}

/// One tree, as this node sees it.
#[derive(Debug, Clone, Hash)]
pub(super) struct Tree {
    pub root: u64,
    pub label: Label,
    /// The nearest label below which somebody behind asks to be brought; [`Label::FURTHEST`] for none.
    pub wanted: Label,
    /// What the parent was asked for because of it.
    pub sought: Label,
    pub name: Option<Name>,
    pub hops: u16,
    /// Low half of the root's incarnation.
    pub life: u16,
    pub standing: Standing,
    pub parent: Option<u8>,
    /// What was told of the hops. That there are more is told with the next pace.
    pub told_hops: u16,
    /// Berths whose neighbours wait for `wanted`.
    pub seekers: Berths,
    /// Berths whose neighbours were told "not now".
    pub denied: Berths,
    /// Berths whose neighbours this node asked and that did not answer.
    pub asked: Berths,
    /// Berths whose neighbours may not have heard that this node is lost.
    pub unheard: Berths,
    /// Berths to which that was written before the adverts that are being waited for.
    pub written: Berths,
    /// Berths whose word is not taken, because the tree made room for those of other neighbours.
    pub turned_away: Berths,
    pub lost_paces: u8,
    pub origin: Origin,
}

/// Who brought a tree, and when. Only a full table makes a difference of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// The berth of its last parent, or of whoever announced it first.
    pub berth: u8,
    /// Counts the trees that were taken in: the later one has the greater number.
    pub born: u64,
}

/// Where there is room it decides nothing.
impl Hash for Origin {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl Tree {
    /// Nobody said anything of it yet.
    pub const fn new(root: u64, born: u64) -> Self {
        Self {
            root,
            label: Label::FURTHEST,
            wanted: Label::FURTHEST,
            sought: Label::FURTHEST,
            name: None,
            hops: 0,
            life: 0,
            standing: Standing::Lost,
            parent: None,
            told_hops: 0,
            seekers: Berths::NONE,
            denied: Berths::NONE,
            asked: Berths::NONE,
            unheard: Berths::NONE,
            written: Berths::NONE,
            turned_away: Berths::NONE,
            lost_paces: 0,
            origin: Origin { berth: 0, born },
        }
    }

    /// Nobody waits for this node any more.
    pub const fn want_nothing(&mut self) {
        self.seekers = Berths::NONE;
        self.wanted = Label::FURTHEST;
        self.sought = Label::FURTHEST;
    }

    /// Whether somebody waits for this node to come nearer.
    pub fn is_wanted(&self) -> bool {
        self.wanted != Label::FURTHEST
    }
}

/// What there is for one neighbour. All is indexed by tree.
#[derive(Debug, Clone, Hash)]
pub(super) struct Berth {
    pub adverts: Waiting,
    pub denials: Waiting,
    pub names: Waiting,
    pub seeks: Waiting,
    pub audit: Audit,
}

impl Berth {
    pub fn new(trees: usize) -> Self {
        Self {
            adverts: Waiting::new(trees),
            denials: Waiting::new(trees),
            names: Waiting::new(trees),
            seeks: Waiting::new(trees),
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
            &mut self.seeks,
        ] {
            waiting.clear();
        }
    }

    /// Whether something of a tree waits to be said.
    pub fn waits(&self, tree: usize) -> bool {
        let mut waiting = self.waiting().into_iter();
        waiting.any(|waiting| waiting.contains(tree))
    }

    /// Whether nothing of any tree waits to be said.
    pub fn is_silent(&self) -> bool {
        let mut waiting = self.waiting().into_iter();
        waiting.all(Waiting::is_empty)
    }

    const fn waiting(&self) -> [&Waiting; 4] {
        [&self.adverts, &self.denials, &self.names, &self.seeks]
    }
}

/// As [`slice::binary_search`]. It begins where the root is if GUIDs are spread evenly, as drawn ones are, and so looks at few lines of the cache. Of others
/// it takes about twice as many steps as a binary search, at most.
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
    // What is sought lies in `low..high`, or would.
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
    /// The GUIDs of the known roots, in order. Apart from the trees, for a search looks at nothing else of them.
    roots: Vec<u64>,
    /// Indices of their trees, in the same order.
    order: Vec<u16>,
    /// The GUIDs of the roots by the indices of their trees; 0, which no root has, for an index that was given back.
    guids: Vec<u64>,
    /// Indices that were given back.
    free: Vec<u16>,
    /// What each neighbour said last of each tree. That of one tree lies together, because it is compared.
    said: Vec<Said>,
    /// How many neighbours there is room for.
    berths: usize,
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
            said: Vec::new(),
            berths: 0,
            trees_max,
            last: Origin { berth: 0, born: 0 },
        }
    }

    /// Makes room for what one more neighbour says. Allocates.
    pub fn add_berth(&mut self) {
        let berths = self.berths + 1;
        let mut said = vec![Said::NOTHING; self.trees_max * berths];
        if self.berths > 0 {
            for (row, old) in said.chunks_mut(berths).zip(self.said.chunks(self.berths)) {
                row[..self.berths].copy_from_slice(old);
            }
        }
        (self.said, self.berths) = (said, berths);
    }

    /// What the neighbour at a berth said last of a tree.
    pub fn said(&self, at: usize, berth: u8) -> &Said {
        &self.said[at * self.berths + usize::from(berth)]
    }

    /// The same, to be changed.
    pub fn said_mut(&mut self, at: usize, berth: u8) -> &mut Said {
        &mut self.said[at * self.berths + usize::from(berth)]
    }

    /// What a neighbour said of each known tree, to be changed.
    pub fn said_by_mut(&mut self, berth: u8) -> impl Iterator<Item = &mut Said> {
        let rows = self.said.chunks_mut(self.berths.max(1));
        let known = rows.zip(&self.guids).filter(|(_, guid)| **guid != 0);
        known.filter_map(move |(row, _)| row.get_mut(usize::from(berth)))
    }

    /// How many are known.
    pub const fn len(&self) -> usize {
        self.order.len()
    }

    /// How many there is room for.
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

    /// Indices of the known ones in the order of memory, which is the quick way through a table that no cache holds.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.places().filter(|&at| self.is_known(at))
    }

    /// What indices there are, for walks in which trees are taken in or forgotten: [`Table::is_known`] says which of them are known.
    pub const fn places(&self) -> core::ops::Range<usize> {
        0..self.guids.len()
    }

    /// Whether an index is that of a known tree.
    pub fn is_known(&self, at: usize) -> bool {
        self.guids[at] != 0
    }

    /// The root of a tree, for walks that look at nothing else of it. 0 for an index that was given back.
    pub fn root(&self, at: usize) -> u64 {
        self.guids[at]
    }

    /// Takes in a tree that is not known; `None` where there is no room.
    pub fn insert(&mut self, root: u64) -> Option<usize> {
        let place = place_of(&self.roots, root).err()?;
        let tree = Tree::new(root, self.last.born);
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
        self.last.born += 1;
        self.order.insert(place, at);
        Some(usize::from(at))
    }

    /// Forgets a tree.
    pub fn remove(&mut self, at: usize) {
        if let Ok(place) = place_of(&self.roots, self.trees[at].root) {
            self.roots.remove(place);
            self.guids[at] = 0;
            self.said[at * self.berths..][..self.berths].fill(Said::NOTHING);
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
        fn a_root_has_the_place_that_a_binary_search_finds(
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
