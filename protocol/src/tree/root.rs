//! Waves, which only the root begins.
//!
//! A new wave is nearer than all earlier ones. It provides space where ranks ran out, and restores
//! a root that lost its wave counter.

use super::{Label, TreeEvent, Trees, Watch, note::Item};

/// The first wave of an incarnation. Two nodes with one GUID begin with different waves, so the
/// nodes between them see which is later. With equal waves each of the two would keep a part of the
/// nodes, and no node would report it.
pub(super) const fn first_wave(incarnation: u16) -> u64 {
    1 + incarnation as u64
}

/// Maximum number of waves between two ticks; the next one waits. From arbitrary tables, each node
/// on a path may have a later wave than the one before it. The root learns of it when its own wave
/// has spread.
const WAVES_MAX: u8 = 8;

/// Consecutive ticks with another root of the same GUID, after which it is a twin and not an
/// earlier incarnation of this node.
const RIVAL_TICKS: u8 = 3;

/// The wave state of the root.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Waves {
    /// Waves begun since the last tick.
    begun: u8,
    /// The wave that waits; 0 for none.
    due: u64,
    /// An advert of another root with this GUID arrived since the last tick.
    rival_seen: bool,
    /// Consecutive ticks with one.
    rival_ticks: u8,
}

impl Waves {
    #[cfg(feature = "arbitrary-state")]
    pub fn scramble(&mut self, rng: &mut fastrand::Rng) {
        *self = Self {
            begun: rng.u8(..),
            due: rng.u64(..1 << 46),
            rival_seen: rng.bool(),
            rival_ticks: rng.u8(..),
        };
    }
}

impl Trees {
    /// A neighbor sends an advert of the tree that this node roots.
    pub(super) fn on_own(&mut self, item: &Item) {
        let Some(own) = self.own else {
            return;
        };
        let wave = item.label.wave();
        if wave > Label::WAVE_MAX {
            return;
        }
        let mine = self.table[own].label.wave();
        let is_rival = item.incarnation != self.incarnation && wave >= mine;
        self.waves.rival_seen |= is_rival;
        if is_rival || wave > mine {
            self.rise(wave + 1);
        }
    }

    /// Begins this wave if it is a later one: now, or with the next tick if [`WAVES_MAX`] were
    /// begun since the last one. Returns `false` where the counter is at its end.
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
        if self.waves.begun >= WAVES_MAX {
            self.waves.due = self.waves.due.max(wave);
            return true;
        }
        self.waves.begun += 1;
        self.counters.waves += 1;
        self.table[own].label = Label::of_root(wave);
        self.advert(own, self.up);
        true
    }

    /// Handles a tick at the root.
    pub(super) fn tick_waves(&mut self, watch: &mut impl Watch) {
        self.waves.begun = 0;
        let due = core::mem::take(&mut self.waves.due);
        self.rise(due);
        if core::mem::take(&mut self.waves.rival_seen) {
            self.waves.rival_ticks = self.waves.rival_ticks.saturating_add(1);
            if self.waves.rival_ticks == RIVAL_TICKS {
                watch.on_tree(TreeEvent::Twin);
            }
        } else {
            self.waves.rival_ticks = 0;
        }
    }
}
