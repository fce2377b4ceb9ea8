//! The highest rate that is kept up with.

use anyhow::Result;

use super::trial::Trial;

/// Searches the highest sustained rate up to `highest_mpps` by bisection in `steps` steps. Returns
/// the best sustained trial.
///
/// A rate that is not sustained is tried twice, because a hypervisor sometimes takes a core away.
pub fn highest(
    highest_mpps: f64,
    steps: u32,
    mut attempt: impl FnMut(f64) -> Result<Trial>,
) -> Result<Option<Trial>> {
    let (mut low, mut high) = (0.0, highest_mpps);
    let mut best: Option<Trial> = None;
    for _ in 0..steps {
        let middle = f64::midpoint(low, high);
        let mut trial = attempt(middle)?;
        if !trial.kept_up() {
            trial = attempt(middle)?;
        }
        if trial.kept_up() {
            low = middle;
            best = Some(trial);
        } else {
            high = middle;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates an application that sustains `limit` and a source that offers `most`, in million
    /// packets per second.
    fn trial(mpps: f64, limit: f64, most: f64) -> Trial {
        let offered = mpps.min(most);
        Trial {
            seconds: 1.0,
            offered: (offered * 1e6) as u64,
            dropped: u64::from(offered > limit),
            late: ((mpps - offered) * 1e6) as u64,
            received: (offered.min(limit) * 1e6) as u64,
            notifications: 0,
            round_trips: None,
        }
    }

    #[test]
    fn the_search_ends_within_a_step_of_the_limit() {
        let mut attempts = 0;
        let best = highest(32.0, 6, |mpps| {
            attempts += 1;
            Ok(trial(mpps, 21.3, 100.0))
        });
        let best = best.expect("no problem").expect("a rate");
        assert_eq!(best.received_mpps(), 21.0);
        // 16, 24 ×, 20, 22 ×, 21, 21.5 ×.
        assert_eq!(attempts, 6 + 3);
    }

    #[test]
    fn a_source_that_falls_behind_is_a_limit_too() {
        let best = highest(32.0, 5, |mpps| Ok(trial(mpps, 100.0, 18.0)));
        let best = best.expect("no problem").expect("a rate");
        assert_eq!(best.received_mpps(), 18.0);
    }

    #[test]
    fn one_disturbance_does_not_count() {
        let mut disturbed = false;
        let best = highest(32.0, 1, |mpps| {
            let limit = if std::mem::replace(&mut disturbed, true) {
                100.0
            } else {
                0.0
            };
            Ok(trial(mpps, limit, 100.0))
        });
        assert_eq!(
            best.expect("no problem").expect("a rate").received_mpps(),
            16.0
        );
    }

    #[test]
    fn there_may_be_no_such_rate() {
        let best = highest(32.0, 3, |mpps| Ok(trial(mpps, 0.0, 100.0)));
        assert_eq!(best.expect("no problem"), None);
    }
}
