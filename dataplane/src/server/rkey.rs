//! The keys of regions.

use std::hash::{BuildHasher, RandomState};

use rustc_hash::{FxHashMap, FxHashSet};

/// Rounds of the shuffle. Four make a permutation that looks random to an observer of some of its
/// values.
const TURNS: u16 = 4;

/// Maximum keys of earlier daemons that the applications of one user bring along: many times the
/// regions that they can have.
const CLAIMS_PER_USER_MAX: usize = 1 << 14;

/// Draws keys: each number but 0 once, in an order set by the system's randomness when the daemon
/// started.
///
/// One daemon never issues a key twice, so a verb sent to a former region does not reach a present
/// one. A client may still hold a key of the daemon before a restart. Such a key meets another
/// region as rarely as a guess does. The exception is a key that the region's owner, or a client
/// that claims to be the owner, has brought along.
#[derive(Debug)]
pub struct RkeySequence {
    secret: RandomState,
    drawn: u32,
    /// Keys of daemons before, which are not drawn here.
    claimed: FxHashSet<u32>,
    /// How many of them each user brought along.
    claims: FxHashMap<u32, usize>,
}

impl RkeySequence {
    /// A sequence of its own.
    pub fn new() -> Self {
        Self {
            secret: RandomState::new(),
            drawn: 0,
            claimed: FxHashSet::default(),
            claims: FxHashMap::default(),
        }
    }

    /// The next key, never 0.
    pub fn draw(&mut self) -> u32 {
        loop {
            let rkey = self.shuffled(self.drawn);
            self.drawn = self.drawn.wrapping_add(1);
            if rkey != 0 && !self.claimed.contains(&rkey) {
                return rkey;
            }
        }
    }

    /// Whether a region of user `uid` may have this key of an earlier daemon, as its MAC shows.
    /// Changes nothing.
    ///
    /// # Errors
    /// This daemon has issued the key to another region, or accepts no more keys from this user.
    pub fn may_claim(&self, rkey: u32, uid: u32) -> Result<(), String> {
        if rkey == 0 || self.drawn_as(rkey) < self.drawn {
            return Err(format!(
                "the key {rkey:#x} is not from an earlier daemon: register the region without it"
            ));
        }
        if self.claimed.contains(&rkey) {
            return Ok(());
        }
        if self.claims.get(&uid) == Some(&CLAIMS_PER_USER_MAX) {
            return Err(format!(
                "user {uid} has presented {CLAIMS_PER_USER_MAX} keys of earlier daemons already: \
                 register the region without one"
            ));
        }
        Ok(())
    }

    /// A region of user `uid` has this key from a daemon before.
    ///
    /// # Errors
    /// As [`RkeySequence::may_claim`].
    pub fn claim(&mut self, rkey: u32, uid: u32) -> Result<(), String> {
        self.may_claim(rkey, uid)?;
        if self.claimed.insert(rkey) {
            *self.claims.entry(uid).or_default() += 1;
        }
        Ok(())
    }

    /// A Feistel network over two halves: whatever its rounds mix in, different numbers stay
    /// different.
    fn shuffled(&self, number: u32) -> u32 {
        let (mut high, mut low) = ((number >> 16) as u16, number as u16);
        for turn in 0..TURNS {
            let mixed = high ^ self.secret.hash_one((turn, low)) as u16;
            (high, low) = (low, mixed);
        }
        u32::from(high) << 16 | u32::from(low)
    }

    /// Which number is shuffled into `rkey`: the same turns the other way round.
    fn drawn_as(&self, rkey: u32) -> u32 {
        let (mut high, mut low) = ((rkey >> 16) as u16, rkey as u16);
        for turn in (0..TURNS).rev() {
            let mixed = low ^ self.secret.hash_one((turn, high)) as u16;
            (high, low) = (mixed, high);
        }
        u32::from(high) << 16 | u32::from(low)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_of_an_earlier_daemon_are_never_drawn_and_own_keys_not_claimed() {
        let (mut one, mut before) = (RkeySequence::new(), RkeySequence::new());
        let drawn: Vec<u32> = (0..100).map(|_| one.draw()).collect();
        for &rkey in &drawn {
            assert!(one.claim(rkey, 7).is_err(), "{rkey:#x} was given here");
        }
        assert!(one.claim(0, 7).is_err());
        // A claimed key is skipped when it would be drawn next. The same region may claim it again.
        let next = one.shuffled(one.drawn);
        assert_eq!(one.claim(next, 7), Ok(()));
        assert_eq!(one.claim(next, 7), Ok(()));
        assert_ne!(one.draw(), next);
        let theirs = before.draw();
        assert!(drawn.contains(&theirs) || one.claim(theirs, 7).is_ok());
    }

    #[test]
    fn a_user_that_claims_all_allowed_keys_takes_none_from_others() {
        let mut one = RkeySequence::new();
        for rkey in 1..=CLAIMS_PER_USER_MAX as u32 {
            assert_eq!(one.claim(rkey, 7), Ok(()));
        }
        let more = CLAIMS_PER_USER_MAX as u32 + 1;
        let why = one.claim(more, 7).expect_err("no more of his");
        assert!(why.contains("user 7"), "{why}");
        assert_eq!(one.claim(1, 7), Ok(()), "a region that is there already");
        assert_eq!(one.claim(more, 8), Ok(()));
    }

    #[test]
    fn keys_differ_within_a_sequence_and_between_sequences() {
        const DRAWN: usize = 10_000;
        let (mut one, mut other) = (RkeySequence::new(), RkeySequence::new());
        let keys: HashSet<u32> = (0..DRAWN).map(|_| one.draw()).collect();
        assert_eq!(keys.len(), DRAWN);
        assert!(!keys.contains(&0));
        // By chance, 10 000 of 2^32 keys meet 10 000 others 0.02 times.
        let met = (0..DRAWN).filter(|_| keys.contains(&other.draw())).count();
        assert!(
            met < 5,
            "{met} keys of one daemon mean something at the next"
        );
    }
}
