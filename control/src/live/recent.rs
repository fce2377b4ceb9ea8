//! The last events of the daemon, for who looks at the page or follows them over gRPC.

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
    /// Events that came in all, for who waits.
    count: watch::Sender<u64>,
}

/// An event that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// Its place among all events that came: the first is 1.
    pub position: u64,
    /// Events before it that somebody was not told and that are not kept any more.
    pub missed: u64,
    /// What happened.
    pub event: Event,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    /// Events that came in all.
    count: u64,
}

impl Recent {
    /// One more came.
    pub fn note(&self, event: &Event) {
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
    pub fn next_behind(&self, position: u64) -> Option<Noted> {
        let kept = self.kept();
        let oldest = kept.count - kept.events.len() as u64 + 1;
        let next = oldest.max(position.saturating_add(1));
        let place = usize::try_from(next - oldest).ok()?;
        let event = kept.events.get(place)?.clone();
        Some(Noted {
            position: next,
            missed: next - position - 1,
            event,
        })
    }

    /// Those that came behind the first `seen`, the last 60 at most, and how many have come in all.
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
        // Whole after each line of those above, whatever a panicking holder did.
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use covalent_api::event::EventKind;

    #[test]
    fn each_event_is_told_once_and_the_last_ones_to_who_comes_late() {
        let recent = Recent::default();
        let event = |sequence| Event {
            sequence,
            realtime_ns: 0,
            kind: EventKind::PortOpened { port: "p0".into() },
        };
        assert_eq!(recent.since(0), (Vec::new(), 0));
        recent.note(&event(1));
        recent.note(&event(2));
        assert_eq!(recent.since(0), (vec![event(1), event(2)], 2));
        assert_eq!(recent.since(1), (vec![event(2)], 2));
        assert_eq!(recent.since(2), (Vec::new(), 2));
        for sequence in 3..=2_000 {
            recent.note(&event(sequence));
        }
        let (kept, count) = recent.since(0);
        assert_eq!((kept.len(), count), (SHOWN_MAX, 2_000));
        assert_eq!(kept.last(), Some(&event(2_000)));
    }

    #[test]
    fn who_follows_hears_each_in_turn_and_how_many_are_not_kept_any_more() {
        let recent = Recent::default();
        let event = |sequence| Event {
            sequence,
            realtime_ns: 0,
            kind: EventKind::Stopping,
        };
        let noted = |position, missed| {
            let event = event(position);
            Some(Noted {
                position,
                missed,
                event,
            })
        };
        assert_eq!(recent.next_behind(0), None);
        recent.note(&event(1));
        recent.note(&event(2));
        assert_eq!(recent.next_behind(0), noted(1, 0));
        assert_eq!(recent.next_behind(1), noted(2, 0));
        assert_eq!(recent.next_behind(2), None);
        assert_eq!(recent.next_behind(u64::MAX), None);
        for sequence in 3..=1_000 {
            recent.note(&event(sequence));
        }
        let oldest = 1_000 - KEPT_MAX as u64 + 1;
        assert_eq!(recent.next_behind(2), noted(oldest, oldest - 3));
        assert_eq!(recent.next_behind(999), noted(1_000, 0));
        assert_eq!(*recent.count().borrow(), 1_000);
    }
}
