//! The host thread's part of the counters in shared memory.

use std::time::Instant;

use covalent_api::status::NodeStatus;

use super::{Server, status::StatusRound};
use crate::telemetry::HostCounters;

impl Server {
    /// Something may have happened: writes the node, if it is time to.
    pub(super) fn write_counters(&mut self) {
        let now = Instant::now();
        let is_due = self
            .counters
            .as_mut()
            .is_some_and(|counters| counters.touch(now));
        if is_due {
            self.with_own_status(|counters, status| counters.write(now, status));
        }
    }

    /// Writes for the last time.
    pub(super) fn end_counters(&mut self) {
        self.with_own_status(HostCounters::end);
    }

    /// Calls `with` on the state that the host thread knows by itself, without querying a lane.
    fn with_own_status(&mut self, with: impl FnOnce(&mut HostCounters, &NodeStatus)) {
        let Some(mut counters) = self.counters.take() else {
            return;
        };
        let mut status = self.status(StatusRound::default());
        status.omitted = counters.omitted();
        with(&mut counters, &status);
        self.counters = Some(counters);
    }
}
