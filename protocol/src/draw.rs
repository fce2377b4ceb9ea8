//! Draws the contents of registers, for the proof that a link recovers from any state.
//!
//! Below all state machines: each of them draws its own registers, and this file knows none.

use fastrand::Rng;

use crate::wire::slice::{self, Kind};

/// Draws the contents of registers.
pub(crate) struct Draw {
    rng: Rng,
    /// A number that the registers of both ends are near to more often than chance would have it.
    common: u32,
}

impl Draw {
    /// The contents that `seed` determines. Serial numbers are often near `common`.
    pub fn new(seed: u64, common: u32) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            common,
        }
    }

    pub fn flag(&mut self) -> bool {
        self.rng.bool()
    }

    pub fn below(&mut self, end: u32) -> u32 {
        self.rng.u32(..end)
    }

    pub fn long(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// A serial number: near those of the other end, opposite to them, or anywhere.
    pub fn sequence(&mut self) -> u32 {
        let near = self.common.wrapping_add(self.below(5)).wrapping_sub(2);
        match self.below(8) {
            0 => self.rng.u32(..),
            1 => near.wrapping_add(1 << 31),
            _ => near,
        }
    }

    /// A half of slice 1.
    pub fn half(&mut self) -> u32 {
        match self.below(4) {
            0 => 0,
            1 => self.rng.u32(..),
            _ => {
                let kind = Kind::ALL[self.below(Kind::ALL.len() as u32) as usize];
                slice::mine(kind, self.sequence(), self.sequence())
            }
        }
    }
}
