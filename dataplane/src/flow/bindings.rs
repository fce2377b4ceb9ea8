//! Owners of the matches on one port: pipes, sets of pipes, and configured rules.

use covalent_api::rule::{Action, Match, Spread};

use super::{
    key::Frame,
    set::{JoinRefusal, PipeSet},
    shares::{ShareTaken, Shares},
    table::FlowTable,
    toeplitz::Toeplitz,
};
use crate::slots::Slots;

/// Where a frame goes that steering found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Into this pipe.
    Pipe(usize),
    /// A configured rule leaves the frame to the kernel. With a kernel below the port, such a frame
    /// never reaches this table.
    Kernel,
    /// A configured rule drops it. Where there is an XDP program below, it never comes up here.
    Drop,
}

/// The request of a pipe for the frames of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The pipe.
    pub pipe: usize,
    /// The user that it belongs to.
    pub uid: u32,
    /// Whether that user has a share of the rules only, and not as many as it likes.
    pub bounded: bool,
    /// How it shares with other pipes; `None` if it does not.
    pub spread: Option<Spread>,
}

/// Why a claim was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// A configured rule with this action has the match.
    Configured(Action),
    /// This pipe has the match alone.
    Alone(usize),
    /// A set that shares by this policy has the match, and the claim is for the pipe alone.
    Shared(Spread),
    /// The set that has the match does not take the pipe.
    Set(JoinRefusal),
    /// The user has its share of such rules.
    Share(ShareTaken),
}

/// See the module. Used by one thread.
#[derive(Debug, Default)]
pub struct Bindings {
    table: FlowTable<Holder>,
    sets: Slots<PipeSet>,
    shares: Shares,
}

/// The owner of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Pipe {
        pipe: usize,
        uid: u32,
    },
    /// The set in this place.
    Set(usize),
    Kernel,
    Drop,
}

impl Bindings {
    /// Applies a configured rule in place of the previous one. `None` removes the rule. A rule for
    /// the dataplane leaves the match to pipes. Changes nothing if a pipe holds the match.
    pub fn set_rule(&mut self, matches: &Match, action: Option<Action>) {
        if self.pipe_with(matches).is_some() {
            return;
        }
        self.table.remove(matches);
        let holder = match action {
            Some(Action::Kernel) => Holder::Kernel,
            Some(Action::Drop) => Holder::Drop,
            Some(Action::Dataplane) | None => return,
        };
        // Cannot fail: the match was removed above.
        let _ = self.table.insert(matches, holder);
    }

    /// A pipe that has `matches`, alone or beside others.
    pub fn pipe_with(&self, matches: &Match) -> Option<usize> {
        match self.table.get(matches)? {
            Holder::Pipe { pipe, .. } => Some(pipe),
            Holder::Set(at) => self.sets.get(at)?.first(),
            Holder::Kernel | Holder::Drop => None,
        }
    }

    /// Whether a pipe may have `matches`, and if so, whether it is the first one.
    ///
    /// # Errors
    /// Why not.
    pub fn admits(&self, matches: &Match, claim: Claim) -> Result<bool, ClaimRefusal> {
        let at = match self.table.get(matches) {
            Some(Holder::Kernel) => return Err(ClaimRefusal::Configured(Action::Kernel)),
            Some(Holder::Drop) => return Err(ClaimRefusal::Configured(Action::Drop)),
            Some(Holder::Pipe { pipe, .. }) => return Err(ClaimRefusal::Alone(pipe)),
            Some(Holder::Set(at)) => at,
            None if claim.bounded => {
                let admitted = self.shares.admit(claim.uid, matches);
                return admitted.map(|()| true).map_err(ClaimRefusal::Share);
            }
            None => return Ok(true),
        };
        let Some(set) = self.sets.get(at) else {
            return Ok(false);
        };
        match claim.spread {
            None => Err(ClaimRefusal::Shared(set.spread())),
            Some(spread) => set
                .admits(spread, claim.uid, claim.pipe)
                .map(|()| false)
                .map_err(ClaimRefusal::Set),
        }
    }

    /// Gives `matches` to a pipe, alone or beside others. Whether it is the first to have it.
    ///
    /// # Errors
    /// As [`Bindings::admits`]; nothing has changed then.
    pub fn bind(&mut self, matches: &Match, claim: Claim) -> Result<bool, ClaimRefusal> {
        let first = self.admits(matches, claim)?;
        if first {
            let holder = match claim.spread {
                None => Holder::Pipe {
                    pipe: claim.pipe,
                    uid: claim.uid,
                },
                Some(spread) => Holder::Set(
                    self.sets
                        .insert(PipeSet::new(spread, claim.uid, claim.pipe)),
                ),
            };
            // Cannot fail: the match is free, as checked above.
            let _ = self.table.insert(matches, holder);
            self.shares.take(claim.uid, matches);
        } else if let (Some(Holder::Set(at)), Some(spread)) =
            (self.table.get(matches), claim.spread)
            && let Some(set) = self.sets.get_mut(at)
        {
            set.join(spread, claim.uid, claim.pipe)
                .map_err(ClaimRefusal::Set)?;
        }
        Ok(first)
    }

    /// Removes `pipe` from the holders of `matches`. Returns whether it was the last holder, so
    /// that the match is free now.
    pub fn unbind(&mut self, matches: &Match, pipe: usize) -> bool {
        let last = match self.table.get(matches) {
            Some(Holder::Pipe { pipe: holder, uid }) => (holder == pipe).then_some(uid),
            Some(Holder::Set(at)) => self.leave(at, pipe),
            Some(Holder::Kernel | Holder::Drop) | None => None,
        };
        if let Some(uid) = last {
            self.table.remove(matches);
            self.shares.give_back(uid, matches);
        }
        last.is_some()
    }

    /// Removes `pipe` from the set at index `at`. Returns the user of the set if no other pipe is
    /// left.
    fn leave(&mut self, at: usize, pipe: usize) -> Option<u32> {
        let set = self.sets.get_mut(at)?;
        if !(set.leave(pipe) && set.is_empty()) {
            return None;
        }
        self.sets.remove(at).map(|set| set.uid())
    }

    /// Returns the target of `frame`; `None` if no binding matches.
    #[inline]
    pub fn lookup(&mut self, toeplitz: &Toeplitz, frame: &[u8]) -> Option<Target> {
        // Read once, for the table and for the hash.
        let mut frame = Frame::new(frame);
        match self.table.lookup(&mut frame)? {
            Holder::Pipe { pipe, .. } => Some(Target::Pipe(pipe)),
            Holder::Set(at) => {
                let set = self.sets.get_mut(at)?;
                set.choose(toeplitz, &mut frame).map(Target::Pipe)
            }
            Holder::Kernel => Some(Target::Kernel),
            Holder::Drop => Some(Target::Drop),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout)]

    use std::{collections::BTreeMap, hint::black_box, time::Instant};

    use covalent_api::rule::Transport;
    use covalent_config::RssKey;
    use proptest::prelude::*;

    use super::*;
    use crate::flow::table::cases;

    /// A simple reference model of the bindings.
    #[derive(Default)]
    struct Oracle {
        configured: Vec<(Match, Action)>,
        held: Vec<(Match, Claim)>,
    }

    impl Oracle {
        fn bind(&self, matches: &Match, claim: Claim) -> Result<bool, ClaimRefusal> {
            if let Some((_, action)) = self.configured.iter().find(|(of, _)| of == matches) {
                return Err(ClaimRefusal::Configured(*action));
            }
            let members: Vec<_> = self.members(matches).collect();
            let Some(first) = members.first() else {
                return Ok(true);
            };
            match (first.spread, claim.spread) {
                (None, _) => Err(ClaimRefusal::Alone(first.pipe)),
                (Some(policy), None) => Err(ClaimRefusal::Shared(policy)),
                (Some(_), Some(_)) if first.uid != claim.uid => {
                    Err(ClaimRefusal::Set(JoinRefusal::User(first.uid)))
                }
                (Some(policy), Some(spread)) if policy != spread => {
                    Err(ClaimRefusal::Set(JoinRefusal::Policy(policy)))
                }
                _ if members.iter().any(|member| member.pipe == claim.pipe) => {
                    Err(ClaimRefusal::Set(JoinRefusal::Member))
                }
                _ => Ok(false),
            }
        }

        fn members(&self, matches: &Match) -> impl Iterator<Item = Claim> {
            self.held
                .iter()
                .filter(move |(of, _)| of == matches)
                .map(|&(_, claim)| claim)
        }

        /// Everything that may happen to `frame`.
        fn targets(&self, frame: &[u8]) -> Vec<Option<Target>> {
            let rules: Vec<_> = self
                .configured
                .iter()
                .map(|(matches, _)| matches)
                .chain(self.held.iter().map(|(matches, _)| matches))
                .cloned()
                .map(|matches| (matches, ()))
                .collect();
            let Some(matches) = cases::most_specific(&rules, frame) else {
                return vec![None];
            };
            match self.configured.iter().find(|(of, _)| *of == matches) {
                Some((_, Action::Kernel)) => vec![Some(Target::Kernel)],
                Some(_) => vec![Some(Target::Drop)],
                None => self
                    .members(&matches)
                    .map(|claim| Some(Target::Pipe(claim.pipe)))
                    .collect(),
            }
        }
    }

    fn claim() -> impl Strategy<Value = Claim> {
        let spread = prop_oneof![
            Just(None),
            Just(Some(Spread::Hash)),
            Just(Some(Spread::Hash)),
            Just(Some(Spread::RoundRobin)),
        ];
        // Mostly one user, so that sets grow.
        (
            0_usize..6,
            prop_oneof![4 => Just(1000), 1 => Just(1001)],
            spread,
        )
            .prop_map(|(pipe, uid, spread)| Claim {
                pipe,
                uid,
                bounded: true,
                spread,
            })
    }

    /// An operation on a match.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Does {
        Bind,
        Unbind,
        SetRule(Option<Action>),
    }

    fn does() -> impl Strategy<Value = Does> {
        let action = prop_oneof![
            Just(None),
            Just(Some(Action::Kernel)),
            Just(Some(Action::Drop)),
            Just(Some(Action::Dataplane)),
        ];
        prop_oneof![
            3 => Just(Does::Bind),
            2 => Just(Does::Unbind),
            1 => action.prop_map(Does::SetRule),
        ]
    }

    proptest! {
        #[test]
        fn bindings_equal_the_oracle(
            configured in prop::collection::vec(
                (cases::rule(), prop_oneof![Just(Action::Kernel), Just(Action::Drop)]),
                0..4,
            ),
            // Few matches, so that claims collide.
            pool in prop::collection::vec(cases::rule(), 1..6),
            steps in prop::collection::vec((any::<prop::sample::Index>(), claim(), does()), 0..60),
            frames in prop::collection::vec(cases::frame(), 1..20),
        ) {
            let toeplitz = Toeplitz::new(&RssKey::MICROSOFT);
            let (mut bindings, mut oracle) = (Bindings::default(), Oracle::default());
            for (matches, action) in configured {
                if oracle.configured.iter().all(|(of, _)| *of != matches) {
                    bindings.set_rule(&matches, Some(action));
                    oracle.configured.push((matches, action));
                }
            }
            for (at, claim, what) in steps {
                let matches = at.get(&pool).clone();
                let binds = what == Does::Bind;
                if let Does::SetRule(action) = what {
                    bindings.set_rule(&matches, action);
                    if oracle.members(&matches).next().is_none() {
                        oracle.configured.retain(|(of, _)| *of != matches);
                        let kept = action.filter(|&action| action != Action::Dataplane);
                        oracle.configured.extend(kept.map(|action| (matches.clone(), action)));
                    }
                } else if binds {
                    let expected = oracle.bind(&matches, claim);
                    prop_assert_eq!(bindings.bind(&matches, claim), expected);
                    if expected.is_ok() {
                        oracle.held.push((matches, claim));
                    }
                } else {
                    let before = oracle.members(&matches).count();
                    oracle.held.retain(|(of, held)| !(*of == matches && held.pipe == claim.pipe));
                    let last = before > 0 && oracle.members(&matches).count() == 0;
                    prop_assert_eq!(bindings.unbind(&matches, claim.pipe), last);
                }
                for frame in &frames {
                    let (found, may) = (bindings.lookup(&toeplitz, frame), oracle.targets(frame));
                    prop_assert!(may.contains(&found), "{found:?} is none of {may:?} for \
                        {frame:02x?}");
                    // Round robin reaches every pipe. By flow, the pipe is always the same.
                    let round: Vec<_> = may.iter().map(
                        |_| bindings.lookup(&toeplitz, frame),
                    ).collect();
                    let same = round.iter().filter(|&target| *target == round[0]).count();
                    prop_assert!(same == 1 || same == round.len(), "{round:?}");
                }
            }
        }
    }

    /// Measures the choice among pipes that share by flow, with the frame parsed once and twice.
    #[test]
    #[ignore = "a measurement: cargo test --release -p covalent-dataplane --lib -- --ignored \
        --nocapture looked_into"]
    fn nanoseconds_to_parse_a_frame_once() {
        const ROUNDS: u32 = 1 << 20;
        let toeplitz = Toeplitz::new(&RssKey::MICROSOFT);
        let mut table = FlowTable::default();
        table
            .insert(
                &Match::Port {
                    transport: Transport::Udp,
                    dst_port: 53,
                },
                0,
            )
            .unwrap();
        let mut frame = Vec::new();
        let udp = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9)
            .udp(4000, 53);
        udp.write(&mut frame, &[0; 18]).unwrap();
        let best = |choose: &dyn Fn(&[u8]) -> u32| {
            let one = |_| {
                let start = Instant::now();
                for _ in 0..ROUNDS {
                    black_box(choose(black_box(&frame)));
                }
                start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
            };
            (0..15).map(one).fold(f64::INFINITY, f64::min)
        };
        let once = best(&|frame| {
            let mut frame = Frame::new(frame);
            table.lookup(&mut frame).unwrap() ^ toeplitz.hash_frame(&mut frame)
        });
        let twice = best(&|frame| {
            let found = table.lookup(&mut Frame::new(frame)).unwrap();
            found ^ toeplitz.hash_frame(&mut Frame::new(black_box(frame)))
        });
        println!("{once:.1} ns once, {twice:.1} ns twice");
    }

    #[test]
    fn one_user_has_a_share_of_the_rules_of_a_kind() {
        let mut bindings = Bindings::default();
        let claim = |uid, bounded, spread| Claim {
            pipe: 0,
            uid,
            bounded,
            spread,
        };
        let ethertype = |ethertype| Match::EtherType { ethertype };
        // Each holder counts as one rule, whatever its kind.
        for number in 0..128 {
            let spread = [None, Some(Spread::Hash)][usize::from(number % 2)];
            assert_eq!(
                bindings.bind(&ethertype(0x2000 + number), claim(1000, true, spread)),
                Ok(true)
            );
        }
        let full = ClaimRefusal::Share(ShareTaken {
            uid: 1000,
            kind: "EtherType",
            most: 128,
        });
        let more = ethertype(0x3000);
        assert_eq!(bindings.bind(&more, claim(1000, true, None)), Err(full));
        // To join a set is no rule more.
        let mut beside = claim(1000, true, Some(Spread::Hash));
        beside.pipe = 1;
        assert_eq!(bindings.bind(&ethertype(0x2001), beside), Ok(false));
        // Other kinds of match, other users and unbounded claims are not limited.
        assert_eq!(
            bindings.bind(&Match::Any, claim(1000, true, None)),
            Ok(true)
        );
        let vlan = Match::Vlan { vlan: 7 };
        assert_eq!(bindings.bind(&vlan, claim(1000, true, None)), Ok(true));
        let others = ethertype(0x3001);
        assert_eq!(bindings.bind(&others, claim(1001, true, None)), Ok(true));
        let commanding = ethertype(0x3002);
        assert_eq!(
            bindings.bind(&commanding, claim(1000, false, None)),
            Ok(true)
        );
        // Two rules must be removed: the unbounded claim counts too.
        assert!(bindings.unbind(&ethertype(0x2000), 0));
        assert!(!bindings.unbind(&ethertype(0x2001), 1), "one is left in it");
        assert_eq!(bindings.bind(&more, claim(1000, true, None)), Err(full));
        assert!(bindings.unbind(&ethertype(0x2001), 0));
        assert_eq!(bindings.bind(&more, claim(1000, true, None)), Ok(true));
    }

    #[test]
    fn a_set_shares_by_its_policy() {
        let toeplitz = Toeplitz::new(&RssKey::MICROSOFT);
        let frame = |flow: u8| [&[2; 11][..], &[flow, 0x12, 0x34], &[0; 46]].concat();
        for spread in [Spread::Hash, Spread::RoundRobin] {
            let mut bindings = Bindings::default();
            for pipe in 0..3 {
                let claim = Claim {
                    pipe,
                    uid: 0,
                    bounded: true,
                    spread: Some(spread),
                };
                assert_eq!(bindings.bind(&Match::Any, claim), Ok(pipe == 0));
            }
            let mut counts: BTreeMap<_, u32> = BTreeMap::new();
            for flow in 0..60 {
                let found = [(); 3].map(|()| bindings.lookup(&toeplitz, &frame(flow)));
                // By flow all three are one; in turn all three are different.
                let same = found.iter().filter(|&target| *target == found[0]).count();
                assert_eq!(same, if spread == Spread::Hash { 3 } else { 1 });
                for target in found {
                    *counts.entry(format!("{target:?}")).or_default() += 1;
                }
            }
            assert_eq!(counts.len(), 3, "{counts:?}");
            let even = counts.values().all(|&count| count == 60);
            assert_eq!(even, spread == Spread::RoundRobin, "{counts:?}");
        }
    }
}
