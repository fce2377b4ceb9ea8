//! A run in which an invariant was broken.

use std::fmt;

use super::time::ROUND_TRIP_UNITS;
use crate::witness::Violation;

/// A run in which an invariant was broken.
#[derive(Debug, Clone)]
pub struct MeshFailure {
    /// The seed, or the number of the case.
    pub seed: u64,
    /// The command that makes it again.
    pub replay: String,
    /// When, in units from the beginning.
    pub at_units: u64,
    /// The broken invariant.
    pub violation: Violation,
}

impl fmt::Display for MeshFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}\n  seed {}, after {:.1} round trips; replay: {}",
            self.violation.checker,
            self.violation.what,
            self.seed,
            self.at_units as f64 / ROUND_TRIP_UNITS as f64,
            self.replay
        )
    }
}

impl std::error::Error for MeshFailure {}
