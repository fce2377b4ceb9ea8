//! Selection of the parent of a node.

use core::cmp::Reverse;

use super::{Label, NeighborSet, Standing, TreeEvent, Trees, Watch};

/// The attachment before the decision.
struct Before {
    parent: Option<u8>,
    standing: Standing,
    label: Label,
    incarnation: u16,
    /// Whether the parent could have been kept.
    parent_leads: bool,
}

impl Trees {
    /// Selects the parent of this node in a tree by the last adverts of its neighbors. Every
    /// received message is recorded first and then settled here.
    pub(super) fn settle(&mut self, at: usize, watch: &mut impl Watch) {
        if self.own == Some(at) {
            return;
        }
        let tree = &self.table[at];
        let leading = self.neighbors_where(at, |advertised| advertised.leads(tree.label));
        let newest = self.of_newest_incarnation(at, leading);
        let kept = tree.parent.filter(|&parent| newest.contains(parent));
        let before = Before {
            parent: tree.parent,
            standing: tree.standing,
            label: tree.label,
            incarnation: tree.incarnation,
            parent_leads: tree.parent.is_some_and(|parent| leading.contains(parent)),
        };
        let is_shorter = |best: u8, parent: u8| {
            self.advertised(at, best).hops < self.advertised(at, parent).hops
        };
        let parent = match (kept, self.nearest(at, newest)) {
            (Some(parent), Some(best)) if !is_shorter(best, parent) => Some(parent),
            (_, best) => best,
        };
        if parent != before.parent {
            let tree = &mut self.table[at];
            tree.parent = parent;
            tree.requested_bound = Label::FURTHEST;
            // Both learn which of them is its parent now.
            self.advert(at, before.parent.into_iter().chain(parent).collect());
        }
        match parent {
            Some(parent) => self.attach(at, parent, &before, watch),
            None => self.fall(at, watch),
        }
    }

    /// Of the neighbors that can be taken without a request, those whose advert is of the root's
    /// latest incarnation, judged by the waves. The adverts of a restarted root, or of a twin,
    /// therefore spread and reach the other one, however near that one is.
    fn of_newest_incarnation(&self, at: usize, leading: NeighborSet) -> NeighborSet {
        let parent = self.table[at].parent;
        let newest = leading.iter().max_by_key(|&neighbor| {
            (
                self.advertised(at, neighbor).label.wave(),
                parent == Some(neighbor),
            )
        });
        let incarnation = newest.map(|neighbor| self.advertised(at, neighbor).incarnation);
        leading
            .iter()
            .filter(|&neighbor| Some(self.advertised(at, neighbor).incarnation) == incarnation)
            .collect()
    }

    /// The best of these: fewest hops, then the present parent, then the later wave, then the lower
    /// neighbor index.
    fn nearest(&self, at: usize, among: NeighborSet) -> Option<u8> {
        let parent = self.table[at].parent;
        among.iter().min_by_key(|&neighbor| {
            let advertised = self.advertised(at, neighbor);
            (
                advertised.hops,
                parent != Some(neighbor),
                Reverse(advertised.label.wave()),
            )
        })
    }

    /// Attaches to a parent.
    fn attach(&mut self, at: usize, parent: u8, before: &Before, watch: &mut impl Watch) {
        let advertised = *self.advertised(at, parent);
        self.readmit_turned_away(at);
        let tree = &mut self.table[at];
        debug_assert!(
            advertised.leads(tree.label),
            "only a nearer node is a parent"
        );
        tree.requested = NeighborSet::NONE;
        tree.origin.neighbor = parent;
        tree.standing = Standing::Attached;
        tree.hops = advertised.hops.saturating_add(1);
        if tree.incarnation != advertised.incarnation {
            tree.incarnation = advertised.incarnation;
            tree.name = None;
        }
        // A later wave is taken over, and a shorter way comes nearer.
        tree.label = tree.label.nearer_of(advertised.label.behind());
        if tree.is_wanted() && !tree.label.is_nearer(tree.wanted) {
            if advertised.label.is_nearer(tree.wanted) {
                match advertised.label.between(tree.wanted) {
                    Some(label) => tree.label = label,
                    // No space: only a new wave helps.
                    None => tree.wanted = Label::anew(advertised.label.wave()),
                }
            }
            if !tree.label.is_nearer(tree.wanted) && tree.requested_bound != tree.wanted {
                tree.requested_bound = tree.wanted;
                self.neighbors[usize::from(parent)].searches.insert(at);
            }
        }
        let tree = &mut self.table[at];
        debug_assert!(
            advertised.label.is_nearer(tree.label) && !before.label.is_nearer(tree.label),
            "a label gets nearer, and stays behind the parent's"
        );
        if tree.is_wanted() && tree.label.is_nearer(tree.wanted) {
            let searchers = tree.searchers;
            tree.want_nothing();
            self.advertise_again(at, searchers);
        }
        if before.parent != Some(parent) || before.standing != Standing::Attached {
            self.advertise_again_to_denied(at);
        }
        let tree = &mut self.table[at];
        let is_news = tree.label != before.label
            || tree.incarnation != before.incarnation
            || tree.hops < tree.advertised_hops
            || before.standing == Standing::Lost;
        let (root, hops) = (tree.root, tree.hops);
        if is_news {
            tree.advertised_hops = hops;
            self.advert(at, self.up);
        }
        if before.parent != Some(parent) {
            self.count_repair(before);
            watch.on_tree(TreeEvent::Attached {
                root,
                neighbor: parent,
                hops,
            });
        }
    }

    fn count_repair(&mut self, before: &Before) {
        let counters = &mut self.counters;
        match before.standing {
            Standing::Attached if before.parent_leads => counters.shortened += 1,
            Standing::Attached => counters.repaired_at_once += 1,
            Standing::Searches => counters.repaired_by_search += 1,
            Standing::Lost if before.label == Label::FURTHEST => {}
            Standing::Lost => counters.found_again += 1,
        }
    }

    /// Has no parent, and there is none to be taken.
    fn fall(&mut self, at: usize, watch: &mut impl Watch) {
        let candidates = self.candidates(at);
        if self.table[at].standing == Standing::Attached {
            // No node waits for a searching node, so waiting nodes form no ring.
            self.deny_searchers(at);
            let tree = &mut self.table[at];
            tree.standing = Standing::Searches;
            tree.requested = candidates;
            for neighbor in candidates.iter() {
                self.neighbors[usize::from(neighbor)].searches.insert(at);
            }
        }
        let tree = &mut self.table[at];
        tree.requested = tree.requested.and(candidates);
        if tree.standing == Standing::Searches && tree.requested.is_empty() {
            self.lose(at, watch);
        }
    }

    fn lose(&mut self, at: usize, watch: &mut impl Watch) {
        let up = self.up;
        let tree = &mut self.table[at];
        tree.standing = Standing::Lost;
        tree.hops = 0;
        tree.advertised_hops = 0;
        tree.lost_ticks = 0;
        tree.unconfirmed = up;
        tree.written = NeighborSet::NONE;
        // The advert denies by itself.
        tree.denied = NeighborSet::NONE;
        let root = tree.root;
        for neighbor in up.iter() {
            self.neighbors[usize::from(neighbor)].denials.remove(at);
        }
        self.advert(at, up);
        self.counters.lost += 1;
        watch.on_tree(TreeEvent::Lost { root });
    }
}
