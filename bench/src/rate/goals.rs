//! The goals, and whether a run meets them.

use serde::{Deserialize, Serialize};

use super::{
    contestant::{BARE, OURS},
    results::Results,
};
use crate::streams::Size;

/// One goal: ours against the best of some peers, at one size.
struct Goal {
    name: &'static str,
    peers: &'static [&'static str],
    size: Size,
    at_least: f64,
    words: &'static str,
}

const SMALL: Size = Size::Bytes(64);

/// DPDK's driver with its default and with its better setting, without reading frames. The better
/// one counts.
const DPDK: &[&str] = &["dpdk-af_xdp", "dpdk-af_xdp-busy"];

/// DPDK's driver with the same work per frame as a pipe's application.
const DPDK_LOOKING: &[&str] = &["dpdk-af_xdp-looking"];

const GOALS: [Goal; 6] = [
    Goal {
        name: "rate",
        peers: &[BARE],
        size: SMALL,
        at_least: 0.97,
        words: "64 B into a pipe: at least 0.97 of a bare AF_XDP receiver",
    },
    Goal {
        name: "rate_mix",
        peers: &[BARE],
        size: Size::Mix,
        at_least: 0.97,
        words: "mix into a pipe: at least 0.97 of a bare AF_XDP receiver",
    },
    Goal {
        name: "rate_dpdk",
        peers: DPDK,
        size: SMALL,
        at_least: 1.0,
        words: "64 B into a pipe: never below DPDK's net_af_xdp",
    },
    Goal {
        name: "rate_dpdk_mix",
        peers: DPDK,
        size: Size::Mix,
        at_least: 1.0,
        words: "mix into a pipe: never below DPDK's net_af_xdp",
    },
    Goal {
        name: "rate_dpdk_looking",
        peers: DPDK_LOOKING,
        size: SMALL,
        at_least: 1.0,
        words: "64 B into a pipe: never below DPDK's net_af_xdp that looks at each frame too",
    },
    Goal {
        name: "rate_dpdk_looking_mix",
        peers: DPDK_LOOKING,
        size: Size::Mix,
        at_least: 1.0,
        words: "mix into a pipe: never below DPDK's net_af_xdp that looks at each frame too",
    },
];

/// The verdict on a goal whose sides were measured.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub goal: String,
    /// In words.
    pub target: String,
    /// The best of the peers that it is about.
    pub peer: String,
    /// The peer's median.
    pub bare: f64,
    /// Ours.
    pub covalent: f64,
    /// Of both.
    pub unit: String,
    /// The part of the peer's rate that ours reaches.
    pub ratio: f64,
    /// The required fraction.
    pub at_least: f64,
    /// The result relative to the goal: 1 is exactly the goal, less is a miss.
    pub margin: f64,
    /// Whether it is met.
    pub met: bool,
}

/// Returns the verdicts for the goals whose sides were measured.
pub fn judge(results: &Results) -> Vec<Verdict> {
    GOALS
        .iter()
        .filter_map(|goal| {
            let covalent = results.figure(OURS, goal.size)?.mpps.median;
            let best = goal
                .peers
                .iter()
                .filter_map(|peer| results.figure(peer, goal.size))
                .max_by(|one, other| one.mpps.median.total_cmp(&other.mpps.median))?;
            let bare = best.mpps.median;
            let ratio = covalent / bare;
            (bare > 0.0).then(|| Verdict {
                goal: goal.name.to_owned(),
                target: goal.words.to_owned(),
                peer: best.contestant.clone(),
                bare,
                covalent,
                unit: "Mpps".to_owned(),
                ratio,
                at_least: goal.at_least,
                margin: ratio / goal.at_least,
                met: ratio >= goal.at_least,
            })
        })
        .collect()
}

/// How many goals are met.
pub fn count(goals: &[Verdict]) -> String {
    let met = goals.iter().filter(|verdict| verdict.met).count();
    format!(
        "{met} of {} goals met; {} not measured",
        goals.len(),
        GOALS.len() - goals.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::results::example;

    #[test]
    fn the_better_of_dpdks_settings_counts() {
        let goals = judge(&example());
        let met: Vec<(&str, bool)> = goals
            .iter()
            .map(|verdict| (verdict.goal.as_str(), verdict.met))
            .collect();
        assert_eq!(
            met,
            [("rate", true), ("rate_mix", false), ("rate_dpdk", false)]
        );
        let dpdk = &goals[2];
        assert_eq!(
            (dpdk.peer.as_str(), dpdk.covalent, dpdk.bare),
            ("dpdk-af_xdp-busy", 0.99, 1.1)
        );
        assert_eq!(count(&goals), "1 of 3 goals met; 3 not measured");
    }

    #[test]
    fn just_at_the_goal_is_met() {
        let mut results = example();
        results.figures[0].mpps.median = 1.1;
        let goals = judge(&results);
        assert!(goals[2].met && goals[2].margin >= 1.0);
        results.figures[0].mpps.median = 0.969;
        assert!(!judge(&results)[0].met);
    }
}
