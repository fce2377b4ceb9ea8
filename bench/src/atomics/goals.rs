//! Verdicts: the measured rates against the goal.

use serde::{Deserialize, Serialize};

use super::results::{Results, SideName};

/// The goal, as a multiple of Redis' rate.
const AT_LEAST: f64 = 5.0;

/// Whether a goal is met.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub goal: String,
    /// In words.
    pub target: String,
    /// Millions a second of the faster of Redis' loads.
    pub redis_mops: f64,
    /// Ours.
    pub covalent_mops: f64,
    /// Our rate divided by that of Redis, medians of the same run.
    pub ratio: f64,
    /// The least ratio that meets the goal.
    pub at_least: f64,
    /// The result relative to the goal: 1 is exactly the goal, less is a miss.
    pub margin: f64,
    /// Whether it is met.
    pub met: bool,
}

/// Judges both meanings.
pub fn judge(results: &Results) -> Vec<Verdict> {
    [
        (SideName::Lane, "redis_lane", "in the lane's thread"),
        (SideName::Application, "redis", "of an application"),
    ]
    .into_iter()
    .filter_map(|(side, goal, adder)| {
        let covalent_mops = results.figures(side)?.mops.median;
        let redis_mops = results.best_of_redis()?.mops.median;
        let ratio = covalent_mops / redis_mops;
        Some(Verdict {
            goal: goal.to_owned(),
            target: format!(
                "additions {adder} to a counter at another node at {AT_LEAST:.0} or more times the \
                 rate of Redis' INCR with -P {}",
                results.setup.pipeline
            ),
            redis_mops,
            covalent_mops,
            ratio,
            at_least: AT_LEAST,
            margin: ratio / AT_LEAST,
            met: ratio >= AT_LEAST,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::example;

    #[test]
    fn both_meanings_are_compared_with_the_faster_load() {
        let judged: Vec<_> = example::results()
            .goals
            .into_iter()
            .map(|verdict| (verdict.goal, verdict.ratio, verdict.met))
            .collect();
        assert_eq!(
            judged,
            [
                ("redis_lane".to_owned(), 6.0, true),
                ("redis".to_owned(), 2.5, false)
            ]
        );
    }
}
