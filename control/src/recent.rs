//! The last events of the daemon, for the live page and for gRPC streams.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use covalent_api::event::Event;
use tokio::sync::watch;

/// Events that are kept.
const KEPT_MAX: usize = 512;

/// Events that the page shows.
const SHOWN_MAX: usize = 60;

/// The last events. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recent(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Kept>,
    /// Total number of events, for waiting readers.
    count: watch::Sender<u64>,
}

/// An event that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its position among all events; the first is 1.
    pub position: u64,
    /// Earlier events that the reader did not receive and that are no longer kept.
    pub missed: u64,
    /// The event.
    pub event: Event,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    /// Total number of events.
    count: u64,
}

impl Recent {
    /// Records one event.
    pub fn record(&self, event: &Event) {
        let mut kept = self.kept();
        if kept.events.len() == KEPT_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        kept.count += 1;
        self.0.count.send_replace(kept.count);
    }

    /// How many events have come in all, and will have.
    #[must_use]
    pub fn count(&self) -> watch::Receiver<u64> {
        self.0.count.subscribe()
    }

    /// The oldest kept event of those behind `position`.
    #[must_use]
    pub fn next_behind(&self, position: u64) -> Option<Recorded> {
        let kept = self.kept();
        let oldest = kept.count - kept.events.len() as u64 + 1;
        let next = oldest.max(position.saturating_add(1));
        let place = usize::try_from(next - oldest).ok()?;
        let event = kept.events.get(place)?.clone();
        Some(Recorded {
            position: next,
            missed: next - position - 1,
            event,
        })
    }

    /// The events after the first `seen`, the last 60 at most, and the total number of events.
    pub fn since(&self, seen: u64) -> (Vec<Event>, u64) {
        let kept = self.kept();
        let news = usize::try_from(kept.count.saturating_sub(seen)).unwrap_or(usize::MAX);
        let skipped = kept.events.len().saturating_sub(news.min(SHOWN_MAX));
        (
            kept.events.iter().skip(skipped).cloned().collect(),
            kept.count,
        )
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Consistent after each line above, even after a panic of a holder.
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use covalent_api::event::EventKind;

    #[test]
    fn each_event_is_read_once_and_late_readers_get_the_last_ones() {
        let recent = Recent::default();
        let event = |sequence| Event {
            sequence,
            realtime_ns: 0,
            kind: EventKind::PortOpened { port: "p0".into() },
        };
        assert_eq!(recent.since(0), (Vec::new(), 0));
        recent.record(&event(1));
        recent.record(&event(2));
        assert_eq!(recent.since(0), (vec![event(1), event(2)], 2));
        assert_eq!(recent.since(1), (vec![event(2)], 2));
        assert_eq!(recent.since(2), (Vec::new(), 2));
        for sequence in 3..=2_000 {
            recent.record(&event(sequence));
        }
        let (kept, count) = recent.since(0);
        assert_eq!((kept.len(), count), (SHOWN_MAX, 2_000));
        assert_eq!(kept.last(), Some(&event(2_000)));
    }

    #[test]
    fn a_follower_reads_each_event_in_order_and_the_number_missed() {
        let recent = Recent::default();
        let event = |sequence| Event {
            sequence,
            realtime_ns: 0,
            kind: EventKind::Stopping,
        };
        let recorded = |position, missed| {
            let event = event(position);
            Some(Recorded {
                position,
                missed,
                event,
            })
        };
        assert_eq!(recent.next_behind(0), None);
        recent.record(&event(1));
        recent.record(&event(2));
        assert_eq!(recent.next_behind(0), recorded(1, 0));
        assert_eq!(recent.next_behind(1), recorded(2, 0));
        assert_eq!(recent.next_behind(2), None);
        assert_eq!(recent.next_behind(u64::MAX), None);
        for sequence in 3..=1_000 {
            recent.record(&event(sequence));
        }
        let oldest = 1_000 - KEPT_MAX as u64 + 1;
        assert_eq!(recent.next_behind(2), recorded(oldest, oldest - 3));
        assert_eq!(recent.next_behind(999), recorded(1_000, 0));
        assert_eq!(*recent.count().borrow(), 1_000);
    }
}
