//! Verdicts: the round-trip times of 8 bytes against the goals.

use serde::{Deserialize, Serialize};

use super::results::Results;

/// A goal: the time of one side is at most a multiple of another side's.
struct Goal {
    name: &'static str,
    ours: &'static str,
    peer: &'static str,
    at_most: f64,
    words: &'static str,
}

const GOALS: [Goal; 4] = [
    Goal {
        name: "rtt_lane",
        ours: "covalent-lane-cas",
        peer: "af_xdp",
        at_most: 1.25,
        words: "a CAS in the lane's thread takes at most 1.25 times a bare AF_XDP echo",
    },
    Goal {
        name: "rtt_lane_udp",
        ours: "covalent-lane-cas",
        peer: "udp",
        at_most: 0.5,
        words: "a CAS in the lane's thread is at least 2 times as fast as kernel UDP",
    },
    Goal {
        name: "rtt",
        ours: "covalent-cas",
        peer: "af_xdp",
        at_most: 2.0,
        words: "a CAS of an application takes at most 2 times a bare AF_XDP echo",
    },
    Goal {
        name: "rtt_udp",
        ours: "covalent-cas",
        peer: "udp",
        at_most: 0.5,
        words: "a CAS of an application is at least 2 times as fast as kernel UDP",
    },
];

/// Whether a goal is met.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub goal: String,
    /// In words.
    pub target: String,
    /// The side to compare with.
    pub peer: String,
    /// The peer's median.
    pub bare: f64,
    /// Ours.
    pub covalent: f64,
    /// Of both.
    pub unit: String,
    /// Ours divided by the peer's, medians of the same run.
    pub ratio: f64,
    /// The upper limit of the ratio.
    pub at_most: f64,
    /// The result relative to the goal: 1 is exactly the goal, less is a miss.
    pub margin: f64,
    /// Whether it is met.
    pub met: bool,
    /// Our time divided by that of a bare echo requested by a second thread, which waits as an
    /// application does. Only for sides of ours with an application.
    pub ratio_to_hand_over: Option<f64>,
}

/// Returns the verdicts for the goals whose sides were measured.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let median = |side: &str| {
        let mut of_eight = results.of_size(8);
        Some(of_eight.find(|one| one.side == side)?.p50_us.median)
    };
    GOALS
        .iter()
        .filter_map(|goal| {
            let (covalent, bare) = (median(goal.ours)?, median(goal.peer)?);
            let ratio = covalent / bare;
            let handed_over = match goal.ours {
                "covalent-cas" => median("af_xdp-handed-over"),
                _ => None,
            };
            Some(Verdict {
                goal: goal.name.to_owned(),
                target: goal.words.to_owned(),
                peer: goal.peer.to_owned(),
                bare,
                covalent,
                unit: "µs".to_owned(),
                ratio,
                at_most: goal.at_most,
                margin: goal.at_most / ratio,
                met: ratio <= goal.at_most,
                ratio_to_hand_over: handed_over.map(|handed_over| covalent / handed_over),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn each_meaning_has_its_goals_and_only_measured_sides_are_judged() {
        let mut results = example::results();
        let model = results.figures[0].clone();
        let mut add = |side: &str, p50: f64| {
            let mut figures = model.clone();
            (figures.side, figures.bytes) = (side.to_owned(), 8);
            figures.p50_us.median = p50;
            results.figures.push(figures);
        };
        add("af_xdp", 4.0);
        add("covalent-lane-cas", 4.8);
        add("covalent-cas", 11.0);
        add("af_xdp-handed-over", 6.0);
        let goals = judge(&results);
        let judged: Vec<_> = goals
            .iter()
            .map(|verdict| (verdict.goal.as_str(), verdict.met))
            .collect();
        // The example has a `udp` of 20 µs.
        assert_eq!(
            judged,
            [
                ("rtt_lane", true),
                ("rtt_lane_udp", true),
                ("rtt", false),
                ("rtt_udp", false)
            ]
        );
        assert!((goals[0].ratio - 1.2).abs() < 1e-9 && goals[0].margin > 1.0);
        assert_eq!(goals[0].ratio_to_hand_over, None);
        let handed_over = goals[2].ratio_to_hand_over.expect("measured");
        assert!((handed_over - 11.0 / 6.0).abs() < 1e-9);
        results.figures.retain(|one| one.side != "af_xdp");
        assert_eq!(judge(&results).len(), 2);
    }
}
