//! What a run comes to.

use std::fmt;

use super::{
    options::Options,
    witness::{Entry, Violation},
};
use crate::report::report;

report! {
    sum:
    /// Stays that began.
    stays,
    /// Multicasts taken in.
    asked,
    /// Multicasts refused for want of room.
    full,
    /// Messages told to applications.
    delivered,
    /// Times that an application was told what is stable.
    stable,
    /// Envelopes said.
    envelopes,
    /// Of these with a batch.
    batches,
    /// Of these about the end of a view.
    changes,
    /// Envelopes that were not taken.
    bad,
    /// Views told to applications.
    views,
    /// Stays that were taken into a group, or founded one.
    taken_in,
    /// States that came whole.
    states,
    /// Times that an application was told what became of its former messages.
    fates,
    /// Applications that left.
    left,
    /// Times that an application was told that it is stopped.
    stopped,
    /// Paths that an end was told to be lost.
    lost,
    /// Applications that died.
    died,
    /// Applications that stood still.
    halted,
    /// Cables that were cut.
    cut,
    /// Envelopes that strangers forged.
    forged,
    ;
    most:
    /// Most members of a view.
    members_most,
    /// Round trips from the last fault until everything had come to its end; the most of several runs.
    round_trips_most,
}

/// A run in which an invariant was broken.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed that replays it.
    pub seed: u64,
    /// What was chosen.
    pub options: Options,
    /// What was broken.
    pub violation: Violation,
    /// What happened; empty unless it was recorded.
    pub trace: Vec<Entry>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}\n  seed {}, at {} units; replay: {}",
            self.violation.checker,
            self.violation.what,
            self.seed,
            self.violation.at,
            self.options.command(self.seed)
        )
    }
}

impl std::error::Error for Failure {}
