//! Verdicts: the measured gaps against the goals.

use serde::{Deserialize, Serialize};

use super::{results::Results, way::Method};

/// Most microseconds from a cut to the first completion over the other link, in 99 of 100 cuts.
const AT_MOST_US: f64 = 1000.0;

/// Whether a goal is met.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub goal: String,
    /// In words.
    pub target: String,
    /// The measured value, in microseconds.
    pub p99_us: f64,
    /// The upper limit.
    pub at_most_us: f64,
    /// The result relative to the goal: 1 is exactly the goal, less is a miss.
    pub margin: f64,
    /// Whether it is met.
    pub met: bool,
}

/// Judges each way by itself.
pub fn judge(results: &Results) -> Vec<Verdict> {
    results
        .sides
        .iter()
        .filter(|figures| figures.way != Method::Uncut)
        .map(|figures| {
            let p99_us = figures.first.p99_us;
            Verdict {
                goal: format!("failover: {}", figures.way.words()),
                target: format!(
                    "{}: p99 from the cut to the first completion over the other link below {:.0} \
                     ms",
                    figures.way.words(),
                    AT_MOST_US / 1e3
                ),
                p99_us,
                at_most_us: AT_MOST_US,
                margin: AT_MOST_US / p99_us,
                met: p99_us < AT_MOST_US,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::example;

    #[test]
    fn each_method_is_judged_by_itself() {
        let met: Vec<bool> = example::results()
            .goals
            .iter()
            .map(|verdict| verdict.met)
            .collect();
        assert_eq!(met, [true, true, false, true, true]);
    }
}
