//! Results of a run.

use crate::harness::report;

report! {
    /// Figures of a run, or of several together.
    Report: u64 {
        /// Exchanges submitted.
        asked = sum,
        /// Exchanges that committed.
        committed = sum,
        /// Exchanges that were refused.
        refused = sum,
        /// Exchanges whose peer restarted.
        restarted = sum,
        /// Exchanges reversed and applied again.
        reversed = sum,
        /// Exchanges whose outcome was learned by a query.
        resolved = sum,
        /// Exchanges that were reported in doubt.
        doubted = sum,
        /// Questions by name.
        asked_again = sum,
        /// Requests that arrived after their outcome was latched.
        late = sum,
        /// Links that failed.
        failures = sum,
        /// Frames that arrived.
        frames = sum,
        /// Frames lost or corrupted by their cable.
        damaged = sum,
        /// Cables that were cut.
        cuts = sum,
        /// Nodes and directions of cables that stalled.
        stalls = sum,
        /// Nodes that crashed.
        crashes = sum,
        /// Nodes that started again with their journal.
        restarts = sum,
        /// Commits that were in no journal when a node restarted, and that had not been reported.
        unwritten = sum,
        /// Nodes whose registers became arbitrary.
        hits = sum,
        /// Exchanges that a peer forgot because it met too many others.
        forgotten = sum,
        /// Links whose epoch wrapped.
        wrapped = sum,
        /// Exchanges that are in doubt for lack of a cable when everything else has completed.
        in_doubt = sum,
        /// Ticks from the last fault until rest; the maximum of several runs.
        paces = most,
        /// Ticks from arbitrary registers until rest; the maximum of several runs.
        paces_to_converge = most,
    }
}
