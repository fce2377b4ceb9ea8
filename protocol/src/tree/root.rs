//! Waves, which only the root begins.
//!
//! A wave is nearer than all of before, so it makes room where ranks ran out, and it is what a root needs that forgot how far it had counted.

use super::{Label, TreeEvent, Trees, Watch, note::Item};

/// The first wave of a life. Two nodes with one GUID begin with different ones, so that the nodes between them hear which is later: in one wave
/// each of the two would have its own half of the nodes, and nobody would be told.
pub(super) const fn first_wave(life: u16) -> u64 {
    1 + life as u64
}

/// Paces running in which another root of the same GUID is heard, after which it is a twin and not an earlier life of this node.
const RIVAL_PACES: u8 = 3;

/// What the root keeps of its waves.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Waves {
    /// One was begun since the last pace: the next one waits.
    begun: bool,
    /// The wave that waits; 0 for none.
    due: u64,
    /// Another root of this GUID was heard since the last pace.
    rival_heard: bool,
    /// Paces running with one.
    rival_paces: u8,
}

impl Trees {
    /// A neighbour says something of the tree that this node roots.
    pub(super) fn on_own(&mut self, item: &Item) {
        let Some(own) = self.own else {
            return;
        };
        let wave = item.label.wave();
        if wave > Label::WAVE_MAX {
            return;
        }
        let mine = self.table[own].label.wave();
        let is_rival = item.life != self.life && wave >= mine;
        self.waves.rival_heard |= is_rival;
        if is_rival || wave > mine {
            self.rise(wave + 1);
        }
    }

    /// Begins this wave, if it is a later one: now, or with the next pace if one was begun since the last. Returns false where the counter is at its end.
    pub(super) fn rise(&mut self, wave: u64) -> bool {
        let Some(own) = self.own else {
            return false;
        };
        if wave > Label::WAVE_MAX {
            return false;
        }
        if wave <= self.table[own].label.wave() {
            return true;
        }
        if self.waves.begun {
            self.waves.due = self.waves.due.max(wave);
            return true;
        }
        self.waves.begun = true;
        self.counters.waves += 1;
        self.table[own].label = Label::of_root(wave);
        self.advert(own, self.up);
        true
    }

    /// A pace passed at the root.
    pub(super) fn pace_waves(&mut self, watch: &mut impl Watch) {
        self.waves.begun = false;
        let due = core::mem::take(&mut self.waves.due);
        self.rise(due);
        if core::mem::take(&mut self.waves.rival_heard) {
            self.waves.rival_paces = self.waves.rival_paces.saturating_add(1);
            if self.waves.rival_paces == RIVAL_PACES {
                watch.on_tree(TreeEvent::Twin);
            }
        } else {
            self.waves.rival_paces = 0;
        }
    }
}
