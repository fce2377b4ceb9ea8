//! What the rates come to.

use serde::{Deserialize, Serialize};

use super::{
    results::{Results, Side},
    task::Way,
};
use crate::servers::etcd::WRITE_BYTES;

/// Bytes of a message that deliveries are asked of.
const MESSAGE_BYTES: u32 = 64;

/// Deliveries a second of all members together that are asked for.
const DELIVERIES_AT_LEAST: f64 = 1e6;

/// How many times the writes of etcd are asked for.
const TIMES_ETCD: f64 = 10.0;

/// Whether a goal is met.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub goal: String,
    /// In words.
    pub target: String,
    /// Ours, per second.
    pub covalent_per_s: f64,
    /// What it is compared with: the peer's figure, or the one that is asked for.
    pub beside_per_s: f64,
    /// Ours divided by that, medians of the same run.
    pub ratio: f64,
    /// What it should be at least.
    pub at_least: f64,
    /// How many times better than the goal asks: 1 is just at the goal, less is missed.
    pub margin: f64,
    /// Whether it is met.
    pub met: bool,
}

/// Judges what was measured of the two.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let all = |bytes| {
        let way = Way::All;
        results.figures(Side::Covalent { way, bytes })
    };
    let deliveries = all(MESSAGE_BYTES).and_then(|figures| {
        let ours = figures.deliveries_per_s.as_ref()?.median;
        let members = results.setup.members;
        let target = format!(
            "messages of {MESSAGE_BYTES} B in a group of {members}: {:.0} M or more deliveries a second, of all members together",
            DELIVERIES_AT_LEAST / 1e6
        );
        Some(verdict("deliveries", target, ours, DELIVERIES_AT_LEAST, 1.0))
    });
    let writes = all(WRITE_BYTES)
        .zip(results.figures(Side::Etcd))
        .map(|(ours, etcd)| {
            let target = format!(
                "messages of {WRITE_BYTES} B, as many as a write of etcd's benchmark has, at {TIMES_ETCD:.0} or more times its rate"
            );
            let (ours, etcd) = (ours.messages_per_s.median, etcd.messages_per_s.median);
            verdict("etcd", target, ours, etcd, TIMES_ETCD)
        });
    deliveries.into_iter().chain(writes).collect()
}

fn verdict(goal: &str, target: String, ours: f64, beside: f64, at_least: f64) -> Verdict {
    let ratio = ours / beside;
    Verdict {
        goal: goal.to_owned(),
        target,
        covalent_per_s: ours,
        beside_per_s: beside,
        ratio,
        at_least,
        margin: ratio / at_least,
        met: ratio >= at_least,
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::example;

    #[test]
    fn each_goal_is_judged_by_what_is_as_large() {
        let told: Vec<_> = example::results()
            .goals
            .into_iter()
            .map(|verdict| (verdict.goal, verdict.ratio, verdict.met))
            .collect();
        assert_eq!(
            told,
            [
                ("deliveries".to_owned(), 0.8, false),
                ("etcd".to_owned(), 20.0, true)
            ]
        );
    }
}
