//! The goals, and whether a run meets them.

use serde::{Deserialize, Serialize};

use super::{
    contestant::{BARE, OURS},
    results::Results,
};
use crate::pipes::Size;

/// One goal: `covalentd` against the best of some peers, at one size.
struct Goal {
    peers: &'static [&'static str],
    size: Size,
    at_least: f64,
    words: &'static str,
}

const SMALL: Size = Size::Bytes(64);

/// DPDK's driver, as it comes and as it is better here, looking at no frame: the better of both counts.
const DPDK: &[&str] = &["dpdk-net_af_xdp", "dpdk-net_af_xdp-busy-poll"];

/// DPDK's driver doing for a frame what the application of a pipe does.
const DPDK_LOOKING: &[&str] = &["dpdk-net_af_xdp-looking"];

const GOALS: [Goal; 6] = [
    Goal {
        peers: &[BARE],
        size: SMALL,
        at_least: 0.97,
        words: "64 B into a pipe: at least 0.97 of a bare AF_XDP receiver",
    },
    Goal {
        peers: &[BARE],
        size: Size::Mix,
        at_least: 0.97,
        words: "mix into a pipe: at least 0.97 of a bare AF_XDP receiver",
    },
    Goal {
        peers: DPDK,
        size: SMALL,
        at_least: 1.0,
        words: "64 B into a pipe: never below DPDK's net_af_xdp",
    },
    Goal {
        peers: DPDK,
        size: Size::Mix,
        at_least: 1.0,
        words: "mix into a pipe: never below DPDK's net_af_xdp",
    },
    Goal {
        peers: DPDK_LOOKING,
        size: SMALL,
        at_least: 1.0,
        words: "64 B into a pipe: never below DPDK's net_af_xdp that looks at each frame too",
    },
    Goal {
        peers: DPDK_LOOKING,
        size: Size::Mix,
        at_least: 1.0,
        words: "mix into a pipe: never below DPDK's net_af_xdp that looks at each frame too",
    },
];

/// What became of a goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The goal in words.
    pub goal: String,
    /// The part of the peer's rate that is asked for.
    pub at_least: f64,
    /// The figures, where both sides were measured.
    pub compared: Option<Comparison>,
    /// Whether it is met; nothing if it could not be measured.
    pub met: Option<bool>,
}

/// `covalentd` against a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The best of the peers.
    pub peer: String,
    /// Median of `covalentd`, in Mpps.
    pub ours: f64,
    /// Median of the peer, in Mpps.
    pub theirs: f64,
    /// The part of the peer's rate that `covalentd` reaches.
    pub ratio: f64,
}

/// Judges a run by each goal.
pub fn judge(results: &Results) -> Vec<Verdict> {
    GOALS
        .iter()
        .map(|goal| {
            let compared = compare(results, goal);
            Verdict {
                goal: goal.words.to_owned(),
                at_least: goal.at_least,
                met: compared
                    .as_ref()
                    .map(|compared| compared.ratio >= goal.at_least),
                compared,
            }
        })
        .collect()
}

fn compare(results: &Results, goal: &Goal) -> Option<Comparison> {
    let ours = results.figure(OURS, goal.size)?.mpps.median;
    let best = goal
        .peers
        .iter()
        .filter_map(|peer| results.figure(peer, goal.size))
        .max_by(|one, other| one.mpps.median.total_cmp(&other.mpps.median))?;
    let theirs = best.mpps.median;
    (theirs > 0.0).then(|| Comparison {
        peer: best.contestant.clone(),
        ours,
        theirs,
        ratio: ours / theirs,
    })
}

/// How many goals are met.
pub fn count(goals: &[Verdict]) -> String {
    let of = |met| goals.iter().filter(|verdict| verdict.met == met).count();
    format!(
        "{} of {} goals met; {} not measured",
        of(Some(true)),
        goals.len() - of(None),
        of(None)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::results::example;

    #[test]
    fn the_better_of_dpdks_settings_counts() {
        let goals = judge(&example());
        let met: Vec<Option<bool>> = goals.iter().map(|verdict| verdict.met).collect();
        assert_eq!(
            met,
            [Some(true), Some(false), Some(false), None, None, None]
        );
        let dpdk = goals[2].compared.as_ref().expect("measured");
        assert_eq!(
            (dpdk.peer.as_str(), dpdk.ours, dpdk.theirs),
            ("dpdk-net_af_xdp-busy-poll", 0.99, 1.1)
        );
        assert_eq!(count(&goals), "1 of 3 goals met; 3 not measured");
    }

    #[test]
    fn just_at_the_goal_is_met() {
        let mut results = example();
        results.figures[0].mpps.median = 1.1;
        let goals = judge(&results);
        assert_eq!(goals[2].met, Some(true));
        results.figures[0].mpps.median = 0.969;
        assert_eq!(judge(&results)[0].met, Some(false));
    }
}
