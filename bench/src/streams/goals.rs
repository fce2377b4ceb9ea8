//! The goals, and whether a run meets them.

use serde::{Deserialize, Serialize};

use crate::streams::{
    case::{Case, Size, Test},
    results::Results,
    session::counts::WEAK_SPOT,
};

/// The contestant that the goals apply to.
pub const OURS: &str = "covalent-pipe";

/// The same without the session beside a pipe, to show the session's cost. It is not a peer either.
pub const OURS_ALONE: &str = "covalent-pipe-alone";

/// The machine's limit, which is no peer.
pub const LIMIT: &str = "ring";

/// One goal: pipes against one peer, at the worst of some sizes.
struct Goal {
    peer: &'static str,
    test: Test,
    sizes: &'static [u32],
    at_least: f64,
    words: &'static str,
}

/// Message sizes that count as small, in bytes.
const UP_TO_4_KIB: &[u32] = &[16, 64, 256, 1 << 10, 4 << 10];

const GOALS: &[Goal] = &[
    goal(
        "dpdk-memif",
        Test::Echo,
        &[64],
        4.0,
        "64 B echo: at least 4 times DPDK memif",
    ),
    goal(
        "dpdk-memif-zero-copy",
        Test::Echo,
        &[64],
        2.0,
        "64 B echo: at least 2 times DPDK memif, zero-copy",
    ),
    goal(
        "dpdk-vhost",
        Test::Echo,
        &[64],
        3.0,
        "64 B echo: at least 3 times DPDK vhost",
    ),
    goal(
        "aeron",
        Test::OneWay,
        &[64],
        2.0,
        "64 B stream, one way: at least 2 times Aeron IPC",
    ),
    goal(
        "iceoryx2",
        Test::Echo,
        &[64],
        5.0,
        "64 B echo: at least 5 times iceoryx2",
    ),
    goal(
        LIMIT,
        Test::Echo,
        &[64],
        0.7,
        "64 B echo: at least 0.70 of the bare ring",
    ),
    goal(
        LIMIT,
        Test::OneWay,
        &[64],
        0.7,
        "64 B one way: at least 0.70 of the bare ring",
    ),
    goal(
        "unix",
        Test::Stream,
        UP_TO_4_KIB,
        5.0,
        "messages up to 4 KiB, batched: at least 5 times a Unix socket",
    ),
    goal(
        "tcp",
        Test::Stream,
        UP_TO_4_KIB,
        5.0,
        "messages up to 4 KiB, batched: at least 5 times TCP loopback",
    ),
    goal(
        "unix",
        Test::StreamUnbatched,
        UP_TO_4_KIB,
        5.0,
        "messages up to 4 KiB, unbatched: at least 5 times a Unix socket",
    ),
    goal(
        "tcp",
        Test::StreamUnbatched,
        UP_TO_4_KIB,
        5.0,
        "messages up to 4 KiB, unbatched: at least 5 times TCP loopback",
    ),
    goal(
        "unix",
        Test::Stream,
        &[1 << 20],
        2.0,
        "messages of 1 MiB: at least 2 times a Unix socket",
    ),
    goal(
        "tcp",
        Test::Stream,
        &[1 << 20],
        2.0,
        "messages of 1 MiB: at least 2 times TCP loopback",
    ),
    goal(
        "aeron",
        Test::RoundTrip,
        &[64],
        1.0,
        "round trip of 64 B: at or below Aeron IPC",
    ),
];

const fn goal(
    peer: &'static str,
    test: Test,
    sizes: &'static [u32],
    at_least: f64,
    words: &'static str,
) -> Goal {
    Goal {
        peer,
        test,
        sizes,
        at_least,
        words,
    }
}

/// The verdict on a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The goal in words.
    pub goal: String,
    /// The peer.
    pub peer: String,
    /// How many times better than the peer pipes should be.
    pub at_least: f64,
    /// The worst of the goal's sizes, where both were measured.
    pub worst: Option<Comparison>,
    /// Whether it is met; nothing if it could not be measured.
    pub met: Option<bool>,
}

/// Pipes against a peer in one case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The case.
    pub case: Case,
    /// Median of pipes.
    pub ours: f64,
    /// Median of the peer.
    pub theirs: f64,
    /// How many times better pipes are.
    pub ratio: f64,
}

/// Pipes against one contestant in one case, if both were measured.
pub fn compare(results: &Results, peer: &str, case: Case) -> Option<Comparison> {
    let ours = results.figure(OURS, case)?.figure.median;
    let theirs = results.figure(peer, case)?.figure.median;
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

/// Returns the verdict for many pipes. The reference is bare rings of the same number and sizes,
/// filled in the same order: there the copy is the limit.
fn many_pipes(results: &Results) -> Verdict {
    let point = results
        .counts
        .as_ref()
        .and_then(|sweep| sweep.at(WEAK_SPOT));
    let worst = point.and_then(|point| {
        Some(Comparison {
            case: Case {
                test: Test::OneWay,
                size: Size::Bytes(64),
            },
            ours: point.lossless_mpps.as_ref()?.median,
            theirs: point.bare_mpps.as_ref()?.median,
            ratio: point.of_bare()?,
        })
    });
    Verdict {
        goal: format!(
            "{WEAK_SPOT} pipes in turn: no pipe full and at least 99 % delivered at \
             {MANY_PIPES_AT_LEAST:.2} of the rate of as many bare rings"
        ),
        peer: LIMIT.to_owned(),
        at_least: MANY_PIPES_AT_LEAST,
        worst,
        met: worst.map(|worst| worst.ratio >= MANY_PIPES_AT_LEAST),
    }
}

/// Judges a run by each goal.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let of_peers = GOALS.iter().map(|goal| {
        let worst = goal
            .sizes
            .iter()
            .filter_map(|&bytes| {
                let case = Case {
                    test: goal.test,
                    size: Size::Bytes(bytes),
                };
                compare(results, goal.peer, case)
            })
            .min_by(|one, other| one.ratio.total_cmp(&other.ratio));
        Verdict {
            goal: goal.words.to_owned(),
            peer: goal.peer.to_owned(),
            at_least: goal.at_least,
            worst,
            met: worst.map(|worst| worst.ratio >= goal.at_least),
        }
    });
    of_peers.chain([many_pipes(results)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{results::example, session::example::with_sweeps};

    fn verdict<'a>(goals: &'a [Verdict], words: &str) -> &'a Verdict {
        goals
            .iter()
            .find(|verdict| verdict.goal.contains(words))
            .expect("a goal")
    }

    #[test]
    fn ratios_are_of_medians_and_met_or_not() {
        let goals = judge(&example());
        let memif = verdict(&goals, "64 B echo: at least 4 times DPDK memif");
        assert_eq!(memif.worst.map(|worst| worst.ratio), Some(5.0));
        assert_eq!(memif.met, Some(true));
        let ring = verdict(&goals, "echo: at least 0.70");
        assert_eq!(
            ring.worst.map(|worst| (worst.ours, worst.theirs)),
            Some((55.0, 75.0))
        );
        assert_eq!(ring.met, Some(true));
        assert_eq!(verdict(&goals, "vhost").met, None);
    }

    #[test]
    fn of_a_round_trip_less_is_better() {
        let mut results = example();
        let mut theirs = results.figures.last().expect("a round trip").clone();
        theirs.contestant = "aeron".to_owned();
        theirs.figure.median = 0.2;
        results.figures.push(theirs);
        let goals = judge(&results);
        let aeron = verdict(&goals, "round trip");
        assert_eq!(aeron.met, Some(false));
        assert_eq!(aeron.worst.map(|worst| worst.ratio), Some(0.8));
    }

    #[test]
    fn of_several_sizes_the_worst_counts() {
        let mut results = example();
        for (bytes, ours) in [(16, 6.0), (256, 3.0), (1024, 9.0)] {
            for (contestant, figure) in [("covalent-pipe", ours), ("unix", 1.0)] {
                let mut one = results.figures[0].clone();
                one.contestant = contestant.to_owned();
                one.case = Case {
                    test: Test::Stream,
                    size: Size::Bytes(bytes),
                };
                one.figure.median = figure;
                results.figures.push(one);
            }
        }
        let goals = judge(&results);
        let unix = verdict(&goals, "batched: at least 5 times a Unix socket");
        let worst = unix.worst.expect("measured");
        assert_eq!((worst.case.size, worst.ratio), (Size::Bytes(256), 3.0));
        assert_eq!(unix.met, Some(false));
    }

    #[test]
    fn many_pipes_are_judged_by_as_many_bare_rings() {
        let words = "32 pipes in turn: no pipe full and at least 99 % delivered at 0.70";
        assert_eq!(verdict(&judge(&example()), words).met, None);
        let mut results = with_sweeps();
        let worst = verdict(&judge(&results), words).worst.expect("measured");
        assert_eq!((worst.ours, worst.theirs, worst.ratio), (7.0, 20.0, 0.35));
        assert_eq!(verdict(&judge(&results), words).met, Some(false));
        for point in &mut results.counts.as_mut().expect("measured").points {
            point.lossless_mpps = point.bare_mpps.clone();
        }
        assert_eq!(verdict(&judge(&results), words).met, Some(true));
    }
}
