//! What a run comes to.

use std::fmt;

use crate::{
    options::Options,
    witness::{Entry, Violation},
};

/// What runs come to, in figures that add up, and of which of several runs the `most` counts.
macro_rules! report {
    (
        sum: $($(#[$doc:meta])* $name:ident,)*;
        most:
        $($(#[$most_doc:meta])* $most:ident,)*
    ) => {
        /// What a run did, or several together.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Report {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$most_doc])* pub $most: u64,)*
        }

        impl Report {
            /// Every figure with its name.
            pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)* $((stringify!($most), self.$most),)*].into_iter()
            }

            /// Adds what another run did.
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
    /// Exchanges asked for.
    asked,
    /// Exchanges that committed.
    committed,
    /// Exchanges that were refused.
    refused,
    /// Exchanges whose peer restarted.
    restarted,
    /// Exchanges reversed and applied afresh.
    reversed,
    /// Exchanges whose end was learned by asking.
    resolved,
    /// Exchanges of which somebody was told that they are in doubt.
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
    /// Nodes and directions of cables that stood still.
    stalls,
    /// Nodes that crashed.
    crashes,
    /// Nodes that started again with their journal.
    restarts,
    /// Commits that were in no journal when a node started again, and that nobody knew of.
    unwritten,
    /// Nodes whose registers became arbitrary.
    hits,
    /// Exchanges that a peer forgot because it met too many others.
    forgotten,
    /// Links whose epoch counted through its wrap.
    wrapped,
    /// Exchanges that are in doubt for want of a cable when everything else has come to its end.
    in_doubt,
    ;
    most:
    /// Paces from the last fault until rest; the most of several runs.
    paces,
    /// Paces from arbitrary registers until rest; the most of several runs.
    paces_to_converge,
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
