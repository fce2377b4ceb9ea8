//! Results of a run.

use crate::harness::report;

report! {
    /// Figures of a run, or of several together.
    Report: u64 {
        /// Incarnations that began.
        stays = sum,
        /// Multicasts taken in.
        asked = sum,
        /// Multicasts refused because a queue was full.
        full = sum,
        /// Messages delivered to applications.
        delivered = sum,
        /// Stability notifications to applications.
        stable = sum,
        /// Envelopes sent.
        envelopes = sum,
        /// Of these with a batch.
        batches = sum,
        /// Of these about the end of a view.
        changes = sum,
        /// Envelopes that were not taken.
        bad = sum,
        /// View notifications to applications.
        views = sum,
        /// Incarnations that joined a group or founded one.
        taken_in = sum,
        /// States that arrived complete.
        states = sum,
        /// Notifications to applications about the outcome of former messages.
        fates = sum,
        /// Applications that left.
        left = sum,
        /// Stop notifications to applications.
        stopped = sum,
        /// Paths reported lost to an end.
        lost = sum,
        /// Applications that died.
        died = sum,
        /// Applications that stalled.
        halted = sum,
        /// Cables that were cut.
        cut = sum,
        /// Envelopes that strangers forged.
        forged = sum,
        /// Most members of a view.
        members_most = most,
        /// Round trips from the last fault until everything had completed; the maximum of several
        /// runs.
        round_trips_most = most,
    }
}
