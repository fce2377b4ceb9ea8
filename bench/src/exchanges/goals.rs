//! Verdicts: the measured rates against the goals.

use serde::{Deserialize, Serialize};

use super::results::{Directions, Phases, Results, SideName};

/// Whether a goal is met.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub goal: String,
    /// In words.
    pub target: String,
    /// The measured value.
    pub measured: f64,
    /// The lower limit, or for a count the upper limit.
    pub bound: f64,
    /// The result relative to the goal: 1 is exactly the goal, less is a miss. `None` for a count.
    pub margin: Option<f64>,
    /// Whether it is met.
    pub met: bool,
}

/// Returns the side that the goal for `mode` applies to: the default number of slots, with one
/// initiating end.
pub const fn judged(mode: Phases) -> SideName {
    SideName::Exchanges {
        mode,
        slots: 64,
        ways: Directions::One,
    }
}

/// Returns the verdicts for the goals whose sides were measured.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let rate = |goal: &str, mode, name: &str, at_least: f64| {
        let median = results
            .figures(judged(mode))?
            .exchanges_mops
            .as_ref()?
            .median;
        Some(Verdict {
            goal: goal.to_owned(),
            target: format!(
                "at least {at_least:.0} M/s additions to 8 bytes in {name}, 64 slots, one initiator"
            ),
            measured: median,
            bound: at_least,
            margin: Some(median / at_least),
            met: median >= at_least,
        })
    };
    let allocations = results.allocations();
    [
        rate("exchanges_1pc", Phases::One, "1PC", 10.0),
        rate("exchanges_2pc", Phases::Two, "2PC", 6.0),
        Some(Verdict {
            goal: "exchanges_allocations".to_owned(),
            target: "no allocation during exchanges".to_owned(),
            measured: allocations as f64,
            bound: 0.0,
            margin: None,
            met: allocations == 0,
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn each_mode_has_its_goal_and_one_allocation_misses_it() {
        let mut results = example::results();
        let met = |results: &Results| -> Vec<bool> {
            judge(results).iter().map(|verdict| verdict.met).collect()
        };
        assert_eq!(met(&results), [true, false, true]);
        assert_eq!(results.goals[1].margin, Some(5.0 / 6.0));
        results.sides[3].allocations = 1;
        assert_eq!(met(&results), [true, false, false]);
    }
}
