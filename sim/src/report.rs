//! Results of a run.

use std::fmt;

use crate::{
    options::Options,
    witness::{Entry, Violation},
};

/// Defines the figures of runs: over several runs, the figures of `sum` add up, and those of `most`
/// take the maximum.
macro_rules! report {
    (
        sum: $($(#[$doc:meta])* $name:ident,)*;
        most:
        $($(#[$most_doc:meta])* $most:ident,)*
    ) => {
        /// Figures of a run, or of several together.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Report {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$most_doc])* pub $most: u64,)*
        }

        impl Report {
            /// Every figure with its name.
            pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [
                    $((stringify!($name), self.$name),)*
                    $((stringify!($most), self.$most),)*
                ].into_iter()
            }

            /// Adds the figures of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
                $(self.$most = self.$most.max(other.$most);)*
            }
        }
    };
}

pub(crate) use report;

report! {
    sum:
    /// Exchanges submitted.
    asked,
    /// Exchanges that committed.
    committed,
    /// Exchanges that were refused.
    refused,
    /// Exchanges whose peer restarted.
    restarted,
    /// Exchanges reversed and applied again.
    reversed,
    /// Exchanges whose outcome was learned by a query.
    resolved,
    /// Exchanges that were reported in doubt.
    doubted,
    /// Questions by name.
    asked_again,
    /// Requests that arrived after their outcome was latched.
    late,
    /// Links that failed.
    failures,
    /// Frames that arrived.
    frames,
    /// Frames lost or corrupted by their cable.
    damaged,
    /// Cables that were cut.
    cuts,
    /// Nodes and directions of cables that stalled.
    stalls,
    /// Nodes that crashed.
    crashes,
    /// Nodes that started again with their journal.
    restarts,
    /// Commits that were in no journal when a node restarted, and that had not been reported.
    unwritten,
    /// Nodes whose registers became arbitrary.
    hits,
    /// Exchanges that a peer forgot because it met too many others.
    forgotten,
    /// Links whose epoch wrapped.
    wrapped,
    /// Exchanges that are in doubt for lack of a cable when everything else has completed.
    in_doubt,
    ;
    most:
    /// Ticks from the last fault until rest; the maximum of several runs.
    paces,
    /// Ticks from arbitrary registers until rest; the maximum of several runs.
    paces_to_converge,
}

/// A run in which an invariant was broken.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed that replays it.
    pub seed: u64,
    /// Options of the run.
    pub options: Options,
    /// The broken invariant.
    pub violation: Violation,
    /// Recorded events; empty unless recording was on.
    pub trace: Vec<Entry>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}\n  seed {}, step {}; replay: {}",
            self.violation.checker,
            self.violation.what,
            self.seed,
            self.violation.step,
            self.options.command(self.seed)
        )
    }
}

impl std::error::Error for Failure {}
