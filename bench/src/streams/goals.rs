//! The goals, and whether a run meets them.

use crate::{
    report::{Goal, Limit, Sides},
    streams::{
        case::{Case, Size, Test},
        results::Run,
        session::counts::WEAK_SPOT,
    },
};

/// The contestant that the goals apply to.
pub const OURS: &str = "covalent-pipe";

/// The same without the session beside a pipe, to show the session's cost. It is no other system
/// either.
pub const OURS_ALONE: &str = "covalent-pipe-alone";

/// The machine's limit, which is no other system.
pub const LIMIT: &str = "ring";

/// One goal: pipes against one other system, at the worst of some sizes.
struct Against {
    name: &'static str,
    peer: &'static str,
    test: Test,
    sizes: &'static [u32],
    at_least: f64,
    words: &'static str,
}

/// Message sizes that count as small, in bytes.
const UP_TO_4_KIB: &[u32] = &[16, 64, 256, 1 << 10, 4 << 10];

const GOALS: &[Against] = &[
    goal(
        "memif",
        "dpdk-memif",
        Test::Echo,
        &[64],
        4.0,
        "64 B echo: at least 4 times DPDK memif",
    ),
    goal(
        "memif_zero_copy",
        "dpdk-memif-zero-copy",
        Test::Echo,
        &[64],
        2.0,
        "64 B echo: at least 2 times DPDK memif, zero-copy",
    ),
    goal(
        "vhost",
        "dpdk-vhost",
        Test::Echo,
        &[64],
        3.0,
        "64 B echo: at least 3 times DPDK vhost",
    ),
    goal(
        "aeron",
        "aeron",
        Test::OneWay,
        &[64],
        2.0,
        "64 B stream, one way: at least 2 times Aeron IPC",
    ),
    goal(
        "iceoryx2",
        "iceoryx2",
        Test::Echo,
        &[64],
        5.0,
        "64 B echo: at least 5 times iceoryx2",
    ),
    goal(
        "ring_echo",
        LIMIT,
        Test::Echo,
        &[64],
        0.7,
        "64 B echo: at least 0.70 of the bare ring",
    ),
    goal(
        "ring_one_way",
        LIMIT,
        Test::OneWay,
        &[64],
        0.7,
        "64 B one way: at least 0.70 of the bare ring",
    ),
    goal(
        "unix_batched",
        "unix",
        Test::Stream,
        UP_TO_4_KIB,
        5.0,
        "messages up to 4 KiB, batched: at least 5 times a Unix socket",
    ),
    goal(
        "tcp_batched",
        "tcp",
        Test::Stream,
        UP_TO_4_KIB,
        5.0,
        "messages up to 4 KiB, batched: at least 5 times TCP loopback",
    ),
    goal(
        "unix_unbatched",
        "unix",
        Test::StreamUnbatched,
        UP_TO_4_KIB,
        5.0,
        "messages up to 4 KiB, unbatched: at least 5 times a Unix socket",
    ),
    goal(
        "tcp_unbatched",
        "tcp",
        Test::StreamUnbatched,
        UP_TO_4_KIB,
        5.0,
        "messages up to 4 KiB, unbatched: at least 5 times TCP loopback",
    ),
    goal(
        "unix_large",
        "unix",
        Test::Stream,
        &[1 << 20],
        2.0,
        "messages of 1 MiB: at least 2 times a Unix socket",
    ),
    goal(
        "tcp_large",
        "tcp",
        Test::Stream,
        &[1 << 20],
        2.0,
        "messages of 1 MiB: at least 2 times TCP loopback",
    ),
    goal(
        "aeron_round_trip",
        "aeron",
        Test::RoundTrip,
        &[64],
        1.0,
        "round trip of 64 B: at or below Aeron IPC",
    ),
];

const fn goal(
    name: &'static str,
    peer: &'static str,
    test: Test,
    sizes: &'static [u32],
    at_least: f64,
    words: &'static str,
) -> Against {
    Against {
        name,
        peer,
        test,
        sizes,
        at_least,
        words,
    }
}

/// Pipes against another system in one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The case.
    pub case: Case,
    /// Median of pipes.
    pub ours: f64,
    /// Median of the other system.
    pub theirs: f64,
    /// How many times better pipes are.
    pub ratio: f64,
}

/// Pipes against one contestant in one case, if both were measured.
pub fn compare(run: &Run, peer: &str, case: Case) -> Option<Comparison> {
    let ours = run.figure(OURS, case)?.figure.median;
    let theirs = run.figure(peer, case)?.figure.median;
    let (better, worse) = if case.test == Test::RoundTrip {
        (theirs, ours)
    } else {
        (ours, theirs)
    };
    (worse > 0.0).then(|| Comparison {
        case,
        ours,
        theirs,
        ratio: better / worse,
    })
}

/// Required fraction of the rate of as many bare rings, with no pipe full and at least 99 %
/// delivered. The same as for one pipe and one ring.
const MANY_PIPES_AT_LEAST: f64 = 0.7;

/// The name of that goal.
const MANY_PIPES: &str = "many_pipes";

/// The goal for many pipes, in words.
fn many_pipes_words() -> String {
    format!(
        "{WEAK_SPOT} pipes in turn: no pipe full and at least 99 % delivered at \
         {MANY_PIPES_AT_LEAST:.2} of the rate of as many bare rings"
    )
}

/// Returns the figures for many pipes. The reference is bare rings of the same number and sizes,
/// filled in the same order: there the copy is the limit.
fn many_pipes(run: &Run) -> Option<Comparison> {
    let point = run.counts.as_ref()?.at(WEAK_SPOT)?;
    Some(Comparison {
        case: Case {
            test: Test::OneWay,
            size: Size::Bytes(64),
        },
        ours: point.lossless_mpps.as_ref()?.median,
        theirs: point.bare_mpps.as_ref()?.median,
        ratio: point.of_bare()?,
    })
}

/// Returns the verdicts for the goals whose sides were measured, each at the worst of its sizes.
pub fn judge(run: &Run) -> Vec<Goal> {
    let of_peers = GOALS.iter().filter_map(|goal| {
        let cases = goal.sizes.iter().map(|&bytes| Case {
            test: goal.test,
            size: Size::Bytes(bytes),
        });
        let worst = cases
            .filter_map(|case| compare(run, goal.peer, case))
            .min_by(|one, other| one.ratio.total_cmp(&other.ratio))?;
        let words = goal.words.to_owned();
        Some(verdict(goal.name, words, goal.peer, worst, goal.at_least))
    });
    let many_pipes = many_pipes(run).map(|worst| {
        let words = many_pipes_words();
        verdict(MANY_PIPES, words, LIMIT, worst, MANY_PIPES_AT_LEAST)
    });
    of_peers.chain(many_pipes).collect()
}

fn verdict(name: &str, words: String, peer: &str, worst: Comparison, at_least: f64) -> Goal {
    Goal {
        sides: Some(Sides {
            covalent: worst.ours,
            beside: worst.theirs,
            peer: peer.to_owned(),
            unit: worst.case.test.unit().to_owned(),
            at: Some(worst.case.size.to_string()),
        }),
        ..Goal::of(name, words, worst.ratio, Limit::AtLeast(at_least))
    }
}

/// Returns all goals in words, each with its verdict if it was measured.
pub fn all(judged: &[Goal]) -> Vec<(String, Option<&Goal>)> {
    let of_peers = GOALS.iter().map(|goal| (goal.name, goal.words.to_owned()));
    of_peers
        .chain([(MANY_PIPES, many_pipes_words())])
        .map(|(name, words)| {
            let verdict = judged.iter().find(|goal| goal.goal == name);
            (verdict.map_or(words, |goal| goal.target.clone()), verdict)
        })
        .collect()
}

/// How many goals are met.
pub fn count(judged: &[Goal]) -> String {
    let met = judged.iter().filter(|goal| goal.met).count();
    let all = all(judged);
    let missing = all.iter().filter(|(_, verdict)| verdict.is_none()).count();
    format!(
        "{met} of {} goals met; {missing} not measured",
        judged.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{results::example, session::example::with_sweeps};

    /// Ratio, both sides and whether it is met, of a goal if it was measured.
    fn verdict(run: &Run, words: &str) -> Option<(f64, f64, f64, bool)> {
        let goals = judge(run);
        let mut all = all(&goals).into_iter();
        let (_, goal) = all
            .find(|(target, _)| target.contains(words))
            .expect("a goal");
        let sides = goal?.sides.as_ref()?;
        Some((goal?.measured, sides.covalent, sides.beside, goal?.met))
    }

    #[test]
    fn ratios_are_of_medians_and_met_or_not() {
        let run = example().run;
        let memif = verdict(&run, "64 B echo: at least 4 times DPDK memif");
        assert_eq!(memif, Some((5.0, 55.0, 11.0, true)));
        let ring = verdict(&run, "echo: at least 0.70").expect("measured");
        assert_eq!((ring.1, ring.2, ring.3), (55.0, 75.0, true));
        assert_eq!(verdict(&run, "vhost"), None);
    }

    #[test]
    fn of_a_round_trip_less_is_better() {
        let mut run = example().run;
        let mut theirs = run.figures.last().expect("a round trip").clone();
        theirs.contestant = "aeron".to_owned();
        theirs.figure.median = 0.2;
        run.figures.push(theirs);
        let aeron = verdict(&run, "round trip").expect("measured");
        assert_eq!((aeron.0, aeron.3), (0.8, false));
    }

    #[test]
    fn of_several_sizes_the_worst_counts() {
        let mut run = example().run;
        for (bytes, ours) in [(16, 6.0), (256, 3.0), (1024, 9.0)] {
            for (contestant, figure) in [("covalent-pipe", ours), ("unix", 1.0)] {
                let mut one = run.figures[0].clone();
                one.contestant = contestant.to_owned();
                one.case = Case {
                    test: Test::Stream,
                    size: Size::Bytes(bytes),
                };
                one.figure.median = figure;
                run.figures.push(one);
            }
        }
        let goals = judge(&run);
        let unix = goals.iter().find(|goal| goal.goal == "unix_batched");
        let unix = unix.expect("measured");
        let sides = unix.sides.as_ref().expect("compared");
        assert_eq!((sides.at.as_deref(), unix.measured), (Some("256 B"), 3.0));
        assert!(!unix.met);
    }

    #[test]
    fn many_pipes_are_judged_by_as_many_bare_rings() {
        let words = "32 pipes in turn: no pipe full and at least 99 % delivered at 0.70";
        assert_eq!(verdict(&example(), words), None);
        let mut run = with_sweeps().run;
        assert_eq!(verdict(&run, words), Some((0.35, 7.0, 20.0, false)));
        for point in &mut run.counts.as_mut().expect("measured").points {
            point.lossless_mpps = point.bare_mpps.clone();
        }
        assert!(verdict(&run, words).expect("measured").3);
    }

    #[test]
    fn every_goal_has_a_name_of_its_own() {
        let mut names: Vec<&str> = GOALS.iter().map(|goal| goal.name).collect();
        names.push(MANY_PIPES);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
