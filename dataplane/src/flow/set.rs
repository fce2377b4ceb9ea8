//! Several pipes that share the frames of one match.

use covalent_api::rule::{SPREAD_BUCKETS, SPREAD_PIPES_MAX, Spread};

use super::{key::Frame, toeplitz::Toeplitz};

/// Pipes that hold the same match and share its frames; see [`Spread`]. The set is never empty,
/// except while it is removed.
///
/// The choice for a frame costs one table lookup, plus a hash for [`Spread::Hash`], independent of
/// the number of pipes. Only joining allocates.
#[derive(Debug, Clone)]
pub struct PipeSet {
    /// The user whose pipes may join.
    uid: u32,
    pipes: Vec<usize>,
    policy: Policy,
}

#[derive(Debug, Clone)]
enum Policy {
    /// The place in `pipes` of the pipe that each bucket belongs to.
    Hash(Box<[u8; SPREAD_BUCKETS]>),
    /// Index in `pipes` of the next pipe.
    RoundRobin(usize),
}

// Every place has a number in a bucket, and every pipe some buckets.
const _: () = assert!(SPREAD_PIPES_MAX <= 256 && SPREAD_PIPES_MAX <= SPREAD_BUCKETS);

/// Why a pipe may not join a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinRefusal {
    /// The set shares by another policy.
    Policy(Spread),
    /// The set belongs to the pipes of another user.
    User(u32),
    /// It has as many pipes as it can have.
    Full,
    /// The pipe is in it.
    Member,
}

impl PipeSet {
    /// The set of `pipe` alone, which belongs to user `uid`.
    #[must_use]
    pub fn new(spread: Spread, uid: u32, pipe: usize) -> Self {
        Self {
            uid,
            pipes: vec![pipe],
            policy: match spread {
                Spread::Hash => Policy::Hash(Box::new([0; SPREAD_BUCKETS])),
                Spread::RoundRobin => Policy::RoundRobin(0),
            },
        }
    }

    /// Returns the user whose pipes may join.
    #[must_use]
    pub const fn uid(&self) -> u32 {
        self.uid
    }

    /// How it shares.
    #[must_use]
    pub const fn spread(&self) -> Spread {
        match self.policy {
            Policy::Hash(_) => Spread::Hash,
            Policy::RoundRobin(_) => Spread::RoundRobin,
        }
    }

    /// Checks whether a pipe of user `uid` may join with the policy `spread`.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn admits(&self, spread: Spread, uid: u32, pipe: usize) -> Result<(), JoinRefusal> {
        if uid != self.uid {
            return Err(JoinRefusal::User(self.uid));
        }
        if spread != self.spread() {
            return Err(JoinRefusal::Policy(self.spread()));
        }
        if self.pipes.contains(&pipe) {
            return Err(JoinRefusal::Member);
        }
        if self.pipes.len() == SPREAD_PIPES_MAX {
            return Err(JoinRefusal::Full);
        }
        Ok(())
    }

    /// Takes in a pipe.
    ///
    /// # Errors
    /// As [`PipeSet::admits`]; nothing has changed then.
    pub fn join(&mut self, spread: Spread, uid: u32, pipe: usize) -> Result<(), JoinRefusal> {
        self.admits(spread, uid, pipe)?;
        self.pipes.push(pipe);
        if let Policy::Hash(buckets) = &mut self.policy {
            give_share(buckets, self.pipes.len());
        }
        Ok(())
    }

    /// Removes a pipe; the others take over its share. Returns whether the pipe was in the set.
    pub fn leave(&mut self, pipe: usize) -> bool {
        let Some(place) = self.pipes.iter().position(|&member| member == pipe) else {
            return false;
        };
        self.pipes.swap_remove(place);
        let left = self.pipes.len();
        match &mut self.policy {
            Policy::Hash(buckets) => take_share(buckets, place, left),
            Policy::RoundRobin(turn) if *turn >= left => *turn = 0,
            Policy::RoundRobin(_) => {}
        }
        true
    }

    /// Whether the last pipe has left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pipes.is_empty()
    }

    /// One of its pipes; `None` if the set is empty.
    pub fn first(&self) -> Option<usize> {
        self.pipes.first().copied()
    }

    /// The pipe that gets `frame`; `None` if the set is empty.
    pub fn choose(&mut self, toeplitz: &Toeplitz, frame: &mut Frame<'_>) -> Option<usize> {
        if let [only] = self.pipes[..] {
            return Some(only);
        }
        match &mut self.policy {
            Policy::Hash(buckets) => {
                let bucket = toeplitz.hash_frame(frame) as usize % SPREAD_BUCKETS;
                self.pipes.get(usize::from(buckets[bucket])).copied()
            }
            Policy::RoundRobin(turn) => {
                let chosen = self.pipes.get(*turn).copied();
                *turn = if *turn + 1 < self.pipes.len() {
                    *turn + 1
                } else {
                    0
                };
                chosen
            }
        }
    }
}

/// Gives the last of `count` members its share of buckets, taken from the members with the most.
/// All shares then differ by at most one.
fn give_share(buckets: &mut [u8; SPREAD_BUCKETS], count: usize) {
    let (share, newcomer) = (SPREAD_BUCKETS / count, count - 1);
    let mut owned = vec![0_usize; count];
    for &owner in buckets.iter() {
        owned[usize::from(owner)] += 1;
    }
    for least in [share + 1, share] {
        for owner in buckets.iter_mut() {
            let from = usize::from(*owner);
            if owned[newcomer] < share && from != newcomer && owned[from] > least {
                owned[from] -= 1;
                owned[newcomer] += 1;
                *owner = newcomer as u8;
            }
        }
    }
}

/// Gives each bucket of the member `place` to the one with the fewest of the `left` remaining
/// members. The last member moves to index `place`.
fn take_share(buckets: &mut [u8; SPREAD_BUCKETS], place: usize, left: usize) {
    let mut owned = vec![0_usize; left];
    let mut orphans = Vec::new();
    for (bucket, owner) in buckets.iter_mut().enumerate() {
        if usize::from(*owner) == place {
            orphans.push(bucket);
            continue;
        }
        if usize::from(*owner) == left {
            *owner = place as u8;
        }
        owned[usize::from(*owner)] += 1;
    }
    for bucket in orphans {
        // An empty set has no member for the bucket, and no lookup follows.
        let Some(poorest) = (0..left).min_by_key(|&place| owned[place]) else {
            return;
        };
        owned[poorest] += 1;
        buckets[bucket] = poorest as u8;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::{BTreeMap, BTreeSet};

    use covalent_config::RssKey;
    use proptest::prelude::*;

    use super::*;

    const USER: u32 = 1000;

    /// One frame for each of many flows.
    fn flows() -> Vec<Vec<u8>> {
        (0..4000_u32)
            .map(|flow| {
                let mut frame = vec![0; 60];
                frame[2..6].copy_from_slice(&flow.wrapping_mul(0x9e37_79b9).to_be_bytes());
                frame[12..14].copy_from_slice(&[0x12, 0x34]);
                frame
            })
            .collect()
    }

    fn toeplitz() -> Toeplitz {
        Toeplitz::new(&RssKey::MICROSOFT)
    }

    fn placed(set: &mut PipeSet, flows: &[Vec<u8>]) -> Vec<usize> {
        let toeplitz = toeplitz();
        flows
            .iter()
            .map(|flow| set.choose(&toeplitz, &mut Frame::new(flow)).unwrap())
            .collect()
    }

    fn shares(set: &PipeSet) -> Vec<usize> {
        let Policy::Hash(buckets) = &set.policy else {
            panic!("no buckets")
        };
        let mut owned = vec![0; set.pipes.len()];
        for &owner in buckets.iter() {
            owned[usize::from(owner)] += 1;
        }
        owned
    }

    proptest! {
        /// Pipes join and leave in any order. After each change all have equal shares, and only the
        /// flows that the documentation of [`Spread::Hash`] names have moved.
        #[test]
        fn only_the_share_of_a_joining_or_leaving_member_moves(
            pipes in prop::collection::vec(1_usize..20, 1..60),
        ) {
            let flows = flows();
            let mut set = PipeSet::new(Spread::Hash, USER, 0);
            let mut members = BTreeSet::from([0]);
            let mut before = placed(&mut set, &flows);
            for pipe in pipes {
                let joins = members.insert(pipe);
                if joins {
                    prop_assert_eq!(set.join(Spread::Hash, USER, pipe), Ok(()));
                } else {
                    members.remove(&pipe);
                    prop_assert!(set.leave(pipe));
                }
                let after = placed(&mut set, &flows);
                for (&from, &to) in before.iter().zip(&after) {
                    prop_assert!(members.contains(&to));
                    let may_move = if joins { to == pipe } else { from == pipe };
                    prop_assert!(from == to || may_move, "a flow moved from {from} to {to}");
                }
                let shares = shares(&set);
                let even = SPREAD_BUCKETS / shares.len();
                prop_assert!(
                    shares.iter().all(|&share| share == even || share == even + 1),
                    "{shares:?}",
                );
                before = after;
            }
        }

        /// A round gives one frame to each pipe, independent of earlier joins and leaves.
        #[test]
        fn every_member_gets_its_turn(
            changes in prop::collection::vec((0_usize..8, 0_usize..5), 0..40),
        ) {
            let (toeplitz, frame) = (toeplitz(), vec![0; 60]);
            let mut set = PipeSet::new(Spread::RoundRobin, USER, 99);
            let mut members = BTreeSet::from([99]);
            for (pipe, frames) in changes {
                if members.insert(pipe) {
                    prop_assert_eq!(set.join(Spread::RoundRobin, USER, pipe), Ok(()));
                } else {
                    members.remove(&pipe);
                    prop_assert!(set.leave(pipe));
                }
                for _ in 0..frames {
                    prop_assert!(
                        members.contains(&set.choose(&toeplitz, &mut Frame::new(&frame)).unwrap()),
                    );
                }
                let round: Vec<_> = members.iter().map(
                    |_| set.choose(&toeplitz, &mut Frame::new(&frame)).unwrap(),
                ).collect();
                prop_assert_eq!(&round.iter().copied().collect::<BTreeSet<_>>(), &members);
                let second_round: Vec<_> = members.iter().map(
                    |_| set.choose(&toeplitz, &mut Frame::new(&frame)).unwrap(),
                ).collect();
                prop_assert_eq!(round, second_round);
            }
        }
    }

    #[test]
    fn flows_are_spread_over_any_number_of_pipes() {
        let flows = flows();
        let mut set = PipeSet::new(Spread::Hash, USER, 0);
        for pipe in 1..7 {
            set.join(Spread::Hash, USER, pipe).unwrap();
        }
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for pipe in placed(&mut set, &flows) {
            *counts.entry(pipe).or_default() += 1;
        }
        assert_eq!(counts.len(), 7);
        let even = flows.len() / 7;
        assert!(
            counts
                .values()
                .all(|&count| count > even / 2 && count < even * 2),
            "{counts:?}"
        );
    }

    #[test]
    fn a_refused_join_gives_its_reason_and_changes_nothing() {
        let mut set = PipeSet::new(Spread::Hash, USER, 0);
        assert_eq!(
            set.join(Spread::RoundRobin, USER, 1),
            Err(JoinRefusal::Policy(Spread::Hash))
        );
        assert_eq!(
            set.join(Spread::Hash, USER + 1, 1),
            Err(JoinRefusal::User(USER))
        );
        assert_eq!(set.join(Spread::Hash, USER, 0), Err(JoinRefusal::Member));
        assert!(!set.leave(1));
        for pipe in 1..SPREAD_PIPES_MAX {
            set.join(Spread::Hash, USER, pipe).unwrap();
        }
        assert!(shares(&set).iter().all(|&share| share == 4));
        assert_eq!(set.join(Spread::Hash, USER, 999), Err(JoinRefusal::Full));
        for pipe in 0..SPREAD_PIPES_MAX {
            assert!(!set.is_empty());
            assert!(set.leave(pipe));
        }
        assert!(set.is_empty());
        assert_eq!(set.choose(&toeplitz(), &mut Frame::new(&[0; 60])), None);
    }
}
