//! Where a node hangs.

use core::cmp::Reverse;

use super::{Berths, Label, Standing, TreeEvent, Trees, Watch};

/// Where it hung.
struct Before {
    parent: Option<u8>,
    standing: Standing,
    label: Label,
    life: u16,
    /// Whether the parent could have been kept.
    parent_leads: bool,
}

impl Trees {
    /// Decides where this node hangs in a tree, by what its neighbours said last. Everything that is heard is noted first and then settled here.
    pub(super) fn settle(&mut self, at: usize, watch: &mut impl Watch) {
        if self.own == Some(at) {
            return;
        }
        let tree = &self.table[at];
        let leading = self.who(at, |said| said.leads(tree.label));
        let newest = self.of_newest_life(at, leading);
        let kept = tree.parent.filter(|&parent| newest.contains(parent));
        let before = Before {
            parent: tree.parent,
            standing: tree.standing,
            label: tree.label,
            life: tree.life,
            parent_leads: tree.parent.is_some_and(|parent| leading.contains(parent)),
        };
        let is_shorter =
            |best: u8, parent: u8| self.said(at, best).hops < self.said(at, parent).hops;
        let parent = match (kept, self.nearest(at, newest)) {
            (Some(parent), Some(best)) if !is_shorter(best, parent) => Some(parent),
            (_, best) => best,
        };
        if parent != before.parent {
            let tree = &mut self.table[at];
            tree.parent = parent;
            tree.sought = Label::FURTHEST;
            // It says to both of them whose child it is.
            self.advert(at, before.parent.into_iter().chain(parent).collect());
        }
        match parent {
            Some(parent) => self.hang(at, parent, &before, watch),
            None => self.fall(at, watch),
        }
    }

    /// Of those that may be taken without asking anybody, those that have it from the root's latest life, by their waves. So the word of a root that restarted, or
    /// of a twin, spreads however near the other one is, and comes to it.
    fn of_newest_life(&self, at: usize, leading: Berths) -> Berths {
        let parent = self.table[at].parent;
        let newest = leading
            .iter()
            .max_by_key(|&berth| (self.said(at, berth).label.wave(), parent == Some(berth)));
        let life = newest.map(|berth| self.said(at, berth).life);
        leading
            .iter()
            .filter(|&berth| Some(self.said(at, berth).life) == life)
            .collect()
    }

    /// The best of these: fewest hops, then the present parent, then the later wave, then the lower berth.
    fn nearest(&self, at: usize, among: Berths) -> Option<u8> {
        let parent = self.table[at].parent;
        among.iter().min_by_key(|&berth| {
            let said = self.said(at, berth);
            (said.hops, parent != Some(berth), Reverse(said.label.wave()))
        })
    }

    /// Hangs on a parent.
    fn hang(&mut self, at: usize, parent: u8, before: &Before, watch: &mut impl Watch) {
        let said = *self.said(at, parent);
        self.hear_all_again(at);
        let tree = &mut self.table[at];
        debug_assert!(said.leads(tree.label), "only whoever is nearer is a parent");
        tree.asked = Berths::NONE;
        tree.origin.berth = parent;
        tree.standing = Standing::Hangs;
        tree.hops = said.hops.saturating_add(1);
        if tree.life != said.life {
            tree.life = said.life;
            tree.name = None;
        }
        // A later wave is taken over, and a shorter way comes nearer.
        tree.label = tree.label.nearer_of(said.label.behind());
        if tree.is_wanted() && !tree.label.is_nearer(tree.wanted) {
            if said.label.is_nearer(tree.wanted) {
                match said.label.between(tree.wanted) {
                    Some(label) => tree.label = label,
                    // No room: only a new wave helps.
                    None => tree.wanted = Label::anew(said.label.wave()),
                }
            }
            if !tree.label.is_nearer(tree.wanted) && tree.sought != tree.wanted {
                tree.sought = tree.wanted;
                self.berths[usize::from(parent)].seeks.insert(at);
            }
        }
        let tree = &mut self.table[at];
        debug_assert!(
            said.label.is_nearer(tree.label) && !before.label.is_nearer(tree.label),
            "a label comes nearer, and stays behind the parent's"
        );
        if tree.is_wanted() && tree.label.is_nearer(tree.wanted) {
            let seekers = tree.seekers;
            tree.want_nothing();
            self.tell_again(at, seekers);
        }
        if before.parent != Some(parent) || before.standing != Standing::Hangs {
            self.tell_denied_again(at);
        }
        let tree = &mut self.table[at];
        let is_news = tree.label != before.label
            || tree.life != before.life
            || tree.hops < tree.told_hops
            || before.standing == Standing::Lost;
        let (root, hops) = (tree.root, tree.hops);
        if is_news {
            tree.told_hops = hops;
            self.advert(at, self.up);
        }
        if before.parent != Some(parent) {
            self.count_repair(before);
            watch.on_tree(TreeEvent::Hangs {
                root,
                berth: parent,
                hops,
            });
        }
    }

    fn count_repair(&mut self, before: &Before) {
        let counters = &mut self.counters;
        match before.standing {
            Standing::Hangs if before.parent_leads => counters.shortened += 1,
            Standing::Hangs => counters.repaired_at_once += 1,
            Standing::Seeks => counters.repaired_by_seeking += 1,
            Standing::Lost if before.label == Label::FURTHEST => {}
            Standing::Lost => counters.found_again += 1,
        }
    }

    /// Has no parent, and there is none to be taken.
    fn fall(&mut self, at: usize, watch: &mut impl Watch) {
        let candidates = self.candidates(at);
        if self.table[at].standing == Standing::Hangs {
            // Nobody waits for whoever seeks, so those who wait are in no ring.
            self.deny_seekers(at);
            let tree = &mut self.table[at];
            tree.standing = Standing::Seeks;
            tree.asked = candidates;
            for berth in candidates.iter() {
                self.berths[usize::from(berth)].seeks.insert(at);
            }
        }
        let tree = &mut self.table[at];
        tree.asked = tree.asked.and(candidates);
        if tree.standing == Standing::Seeks && tree.asked.is_empty() {
            self.lose(at, watch);
        }
    }

    fn lose(&mut self, at: usize, watch: &mut impl Watch) {
        let up = self.up;
        let tree = &mut self.table[at];
        tree.standing = Standing::Lost;
        tree.hops = 0;
        tree.told_hops = 0;
        tree.lost_paces = 0;
        tree.unheard = up;
        tree.written = Berths::NONE;
        // The advert denies by itself.
        tree.denied = Berths::NONE;
        let root = tree.root;
        for berth in up.iter() {
            self.berths[usize::from(berth)].denials.remove(at);
        }
        self.advert(at, up);
        self.counters.lost += 1;
        watch.on_tree(TreeEvent::Lost { root });
    }
}
