//! Results of a run.

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
        }

        impl $crate::common::Tally for Report {
            fn add(&mut self, other: &Self) {
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
