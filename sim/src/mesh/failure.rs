//! A run in which an invariant was broken.

use std::fmt;

use super::{options::MeshOptions, time::ROUND_TRIP_UNITS};
use crate::witness::Violation;

/// A run in which an invariant was broken.
#[derive(Debug, Clone)]
pub struct MeshFailure {
    /// The seed that replays it.
    pub seed: u64,
    /// What was chosen.
    pub options: MeshOptions,
    /// When, in units from the beginning.
    pub at_units: u64,
    /// What was broken.
    pub violation: Violation,
}

impl fmt::Display for MeshFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}\n  seed {}, {:.1} round trips; replay: {}",
            self.violation.checker,
            self.violation.what,
            self.seed,
            self.at_units as f64 / ROUND_TRIP_UNITS as f64,
            self.options.command(self.seed)
        )
    }
}

impl std::error::Error for MeshFailure {}
