//! How much of its core each side took.

use serde::{Deserialize, Serialize};

use crate::summary::Summary;

/// Shares of the two cores over the runs of a sweep, from the start order to the end of the last
/// trial: 1 is a whole core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoreShares {
    /// Of the daemon's core.
    pub daemon: Summary,
    /// Of the application's core.
    pub application: Summary,
}

impl CoreShares {
    /// Of the daemon's and the application's shares in each run; nothing without a run.
    pub fn of(runs: &[[f64; 2]]) -> Option<Self> {
        let side = |at: usize| Summary::of(runs.iter().map(|shares| shares[at]).collect());
        Some(Self {
            daemon: side(0)?,
            application: side(1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_its_median() {
        let shares = CoreShares::of(&[[1.0, 0.5], [0.75, 0.25], [0.5, 1.0]]).expect("three runs");
        assert_eq!(
            (shares.daemon.median, shares.application.median),
            (0.75, 0.5)
        );
        assert_eq!(CoreShares::of(&[]), None);
    }
}
