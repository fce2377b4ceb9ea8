//! Verdicts: the measured rates against the goals.

use serde::{Deserialize, Serialize};

use super::{
    results::{Results, Side},
    task::Mode,
};
use crate::servers::etcd::WRITE_BYTES;

/// Message size for the delivery goal, in bytes.
const MESSAGE_BYTES: u32 = 64;

/// The delivery goal: deliveries per second of all members together.
const DELIVERIES_AT_LEAST: f64 = 1e6;

/// The etcd goal, as a multiple of etcd's write rate.
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
    /// The reference: the peer's rate, or the required one.
    pub beside_per_s: f64,
    /// Ours divided by that, medians of the same run.
    pub ratio: f64,
    /// The lower limit.
    pub at_least: f64,
    /// The result relative to the goal: 1 is exactly the goal, less is a miss.
    pub margin: f64,
    /// Whether it is met.
    pub met: bool,
}

/// Returns the verdicts on both goals, as far as they were measured.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let all = |bytes| {
        let way = Mode::All;
        results.figures(Side::Covalent { way, bytes })
    };
    let deliveries = all(MESSAGE_BYTES).and_then(|figures| {
        let ours = figures.deliveries_per_s.as_ref()?.median;
        let members = results.setup.members;
        let target = format!(
            "messages of {MESSAGE_BYTES} B in a group of {members}: {:.0} M or more deliveries a \
             second, of all members together",
            DELIVERIES_AT_LEAST / 1e6
        );
        Some(verdict(
            "deliveries",
            target,
            ours,
            DELIVERIES_AT_LEAST,
            1.0,
        ))
    });
    let writes = all(WRITE_BYTES)
        .zip(results.figures(Side::Etcd))
        .map(|(ours, etcd)| {
            let target = format!(
                "messages of {WRITE_BYTES} B, as many as a write of etcd's benchmark has, at \
                 {TIMES_ETCD:.0} or more times its rate"
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
    fn each_goal_is_judged_at_its_message_size() {
        let judged: Vec<_> = example::results()
            .goals
            .into_iter()
            .map(|verdict| (verdict.goal, verdict.ratio, verdict.met))
            .collect();
        assert_eq!(
            judged,
            [
                ("deliveries".to_owned(), 0.8, false),
                ("etcd".to_owned(), 20.0, true)
            ]
        );
    }
}
