//! Results of a run.

use crate::report::report;

report! {
    sum:
    /// Incarnations that began.
    stays,
    /// Multicasts taken in.
    asked,
    /// Multicasts refused because a queue was full.
    full,
    /// Messages delivered to applications.
    delivered,
    /// Stability notifications to applications.
    stable,
    /// Envelopes sent.
    envelopes,
    /// Of these with a batch.
    batches,
    /// Of these about the end of a view.
    changes,
    /// Envelopes that were not taken.
    bad,
    /// View notifications to applications.
    views,
    /// Incarnations that joined a group or founded one.
    taken_in,
    /// States that arrived complete.
    states,
    /// Notifications to applications about the outcome of former messages.
    fates,
    /// Applications that left.
    left,
    /// Stop notifications to applications.
    stopped,
    /// Paths reported lost to an end.
    lost,
    /// Applications that died.
    died,
    /// Applications that stalled.
    halted,
    /// Cables that were cut.
    cut,
    /// Envelopes that strangers forged.
    forged,
    ;
    most:
    /// Most members of a view.
    members_most,
    /// Round trips from the last fault until everything had completed; the maximum of several runs.
    round_trips_most,
}
