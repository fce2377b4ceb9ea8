//! Words that are reserved by open exchanges.
//!
//! A two-phase exchange holds the words that it will change from message 1 until it is executed or
//! reversed. No verb waits for a word: a verb that meets a word held in an incompatible mode is
//! refused as busy, at message 1. There is therefore no deadlock.

use alloc::{boxed::Box, vec};

use crate::{
    Refusal,
    verb::{Order, Update},
};

/// The mode in which an exchange holds a word. Equal modes are compatible, except
/// [`Hold::Exclusive`].
///
/// Two additions give the same word in either order, and so do two minima. An addition and a
/// minimum do not. The verb returns the word found when it was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Alone.
    Exclusive,
    /// With others that add.
    Add,
    /// With others that and.
    And,
    /// With others that or.
    Or,
    /// With others that exclusive-or.
    Xor,
    /// With others that take the minimum in this order.
    Min(Order),
    /// With others that take the maximum in this order.
    Max(Order),
}

impl Hold {
    /// The mode that an unconditional update needs.
    pub const fn of(update: Update, order: Order) -> Self {
        match update {
            Update::Write(_) | Update::Swap(_) => Self::Exclusive,
            Update::Add(_) => Self::Add,
            Update::And(_) => Self::And,
            Update::Or(_) => Self::Or,
            Update::Xor(_) => Self::Xor,
            Update::Min(_) => Self::Min(order),
            Update::Max(_) => Self::Max(order),
        }
    }

    fn commutes_with(self, other: Self) -> bool {
        self == other && self != Self::Exclusive
    }
}

/// A word of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordKey(u64);

impl WordKey {
    /// The word with number `word` of the region with key `rkey`.
    pub const fn new(rkey: u32, word: u32) -> Self {
        Self((rkey as u64) << 32 | word as u64)
    }

    const fn rkey(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    key: WordKey,
    hold: Hold,
    /// Exchanges that hold it; 0 in a free slot.
    holders: u32,
}

const FREE: Slot = Slot {
    key: WordKey(0),
    hold: Hold::Exclusive,
    holders: 0,
};

/// The words held, in a table of fixed size: open addressing, linear probing, no tombstones.
#[derive(Debug, Clone)]
pub(super) struct Reservations {
    /// A power of two, at least twice `words_max`, which keeps searches short.
    slots: Box<[Slot]>,
    words: usize,
    words_max: usize,
}

impl Reservations {
    /// A table for `words_max` words.
    pub fn new(words_max: usize) -> Self {
        Self {
            slots: vec![FREE; (2 * words_max).next_power_of_two()].into_boxed_slice(),
            words: 0,
            words_max,
        }
    }

    /// Words held.
    pub const fn words(&self) -> usize {
        self.words
    }

    /// Whether a verb that changes the word in the mode `wanted` may be executed now, and whether
    /// the word is held already.
    pub fn try_change(&self, key: WordKey, wanted: Hold) -> Result<bool, Refusal> {
        match self.find(key) {
            Err(_) => Ok(false),
            Ok(at) if self.slots[at].hold.commutes_with(wanted) => Ok(true),
            Ok(_) => Err(Refusal::Busy),
        }
    }

    /// Whether the word may be read now: no exchange holds it exclusively.
    pub fn try_read(&self, key: WordKey) -> Result<(), Refusal> {
        match self.find(key) {
            Ok(at) if self.slots[at].hold == Hold::Exclusive => Err(Refusal::Busy),
            _ => Ok(()),
        }
    }

    /// Whether there is space for `words` more words.
    pub const fn has_room(&self, words: usize) -> bool {
        words <= self.words_max - self.words
    }

    /// Holds a word for one exchange. [`Reservations::try_change`] allows it, and there is space.
    pub fn hold(&mut self, key: WordKey, hold: Hold) {
        match self.find(key) {
            Ok(at) => self.slots[at].holders += 1,
            Err(at) => {
                self.slots[at] = Slot {
                    key,
                    hold,
                    holders: 1,
                };
                self.words += 1;
            }
        }
    }

    /// One exchange releases a word. A word that is not held was removed with its region.
    pub fn release(&mut self, key: WordKey) {
        let Ok(at) = self.find(key) else { return };
        self.slots[at].holders -= 1;
        if self.slots[at].holders == 0 {
            self.remove(at);
        }
    }

    /// All exchanges release the words of a region.
    pub fn forget(&mut self, rkey: u32) {
        let mut at = 0;
        while self.words > 0 && at < self.slots.len() {
            if self.slots[at].holders > 0 && self.slots[at].key.rkey() == rkey {
                // A later entry may move to this slot.
                self.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// The slot of a word, or the free one where it would go.
    fn find(&self, key: WordKey) -> Result<usize, usize> {
        let mut at = self.home(key);
        loop {
            let slot = &self.slots[at];
            if slot.holders == 0 {
                return Err(at);
            }
            if slot.key == key {
                return Ok(at);
            }
            at = self.next(at);
        }
    }

    /// Frees a slot and moves up the entries that were displaced behind it.
    fn remove(&mut self, mut hole: usize) {
        self.words -= 1;
        let mut at = hole;
        loop {
            at = self.next(at);
            let slot = self.slots[at];
            if slot.holders == 0 {
                break;
            }
            let mask = self.slots.len() - 1;
            let from_home = at.wrapping_sub(self.home(slot.key)) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = FREE;
    }

    fn home(&self, key: WordKey) -> usize {
        // Fibonacci hashing: the upper bits of the product depend on all of the key.
        const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (key.0 ^ key.0 >> 32).wrapping_mul(GOLDEN_RATIO) >> 32;
        mixed as usize & (self.slots.len() - 1)
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_same_commuting_change_is_compatible() {
        let holds = [
            Hold::Exclusive,
            Hold::Add,
            Hold::And,
            Hold::Or,
            Hold::Xor,
            Hold::Min(Order::Unsigned),
            Hold::Min(Order::Signed),
            Hold::Max(Order::Unsigned),
            Hold::Max(Order::Signed),
        ];
        let key = WordKey::new(1, 2);
        for held in holds {
            let mut table = Reservations::new(1);
            table.hold(key, held);
            for wanted in holds {
                let expected = if wanted == held && held != Hold::Exclusive {
                    Ok(true)
                } else {
                    Err(Refusal::Busy)
                };
                assert_eq!(
                    table.try_change(key, wanted),
                    expected,
                    "{held:?}, {wanted:?}"
                );
            }
            assert_eq!(table.try_read(key).is_err(), held == Hold::Exclusive);
            assert_eq!(table.try_change(WordKey::new(1, 3), held), Ok(false));
            assert_eq!(table.try_change(WordKey::new(2, 2), held), Ok(false));
        }
    }

    proptest! {
        /// Compares the table with a map while nearly full, so that runs of slots are long and
        /// wrap.
        #[test]
        fn reservations_agree_with_a_map(
            steps in prop::collection::vec((0_u32..3, 0_u32..12, 0_u8..8), 1..400),
        ) {
            const WORDS_MAX: usize = 16;
            let mut table = Reservations::new(WORDS_MAX);
            let mut model: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            for (rkey, word, what) in steps {
                let key = WordKey::new(rkey, word);
                match what {
                    0..4 => {
                        let is_held = table.try_change(key, Hold::Add);
                        prop_assert_eq!(is_held, Ok(model.contains_key(&(rkey, word))));
                        if is_held == Ok(true) || table.has_room(1) {
                            table.hold(key, Hold::Add);
                            *model.entry((rkey, word)).or_default() += 1;
                        }
                    }
                    4..7 => {
                        table.release(key);
                        if let Some(holders) = model.get_mut(&(rkey, word)) {
                            *holders -= 1;
                        }
                        model.retain(|_, holders| *holders > 0);
                    }
                    _ => {
                        table.forget(rkey);
                        model.retain(|(other, _), _| *other != rkey);
                    }
                }
                prop_assert_eq!(table.words(), model.len());
                let mut held: Vec<_> = table.slots.iter().filter(|slot| slot.holders > 0)
                    .map(|slot| (slot.key.0, slot.holders)).collect();
                held.sort_unstable();
                let expected: Vec<_> = model.iter()
                    .map(
                        |(&(rkey, word), &holders)| (WordKey::new(rkey, word).0, holders),
                    ).collect();
                prop_assert_eq!(held, expected);
                for &(rkey, word) in model.keys() {
                    prop_assert_eq!(
                        table.try_change(WordKey::new(rkey, word), Hold::Add),
                        Ok(true),
                    );
                }
            }
        }
    }
}
