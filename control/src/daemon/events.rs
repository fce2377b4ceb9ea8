//! Events of one connection: counted, written down, and missed ones noticed.

use covalent_api::event::Event;
use tracing::warn;

use crate::{metrics::OwnMetrics, recent::Recent};

/// Follows the daemon's events.
pub(super) struct Events {
    own: OwnMetrics,
    recent: Recent,
    /// The sequence of the last event of this connection.
    last: Option<u64>,
}

impl Events {
    pub(super) fn new(own: OwnMetrics, recent: Recent) -> Self {
        Self {
            own,
            recent,
            last: None,
        }
    }

    /// A new connection counts anew.
    pub(super) const fn restart(&mut self) {
        self.last = None;
    }

    /// Takes note of an event. Returns whether some before it were missed.
    pub(super) fn record(&mut self, event: &Event) -> bool {
        self.own.event(&event.kind);
        self.recent.record(event);
        let missed = self.last.map_or(0, |last| {
            event.sequence.saturating_sub(last.saturating_add(1))
        });
        self.last = Some(event.sequence);
        if missed > 0 {
            self.own.events_missed.inc_by(missed);
            warn!(missed, "events of the daemon were missed");
        }
        covalent_log::log_event(&event.kind);
        missed > 0
    }
}
