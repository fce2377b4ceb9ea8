//! The last events of the daemon, for who looks at the page.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use covalent_api::event::Event;

/// Events that are kept.
const KEPT_MAX: usize = 60;

/// The last events. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recent(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    /// Events that came in all.
    count: u64,
}

impl Recent {
    /// One more came.
    pub fn note(&self, event: &Event) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.events.len() == KEPT_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        kept.count += 1;
    }

    /// Those that came behind the first `seen`, as far as they are kept, and how many have come in all.
    pub fn since(&self, seen: u64) -> (Vec<Event>, u64) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = usize::try_from(kept.count.saturating_sub(seen)).unwrap_or(usize::MAX);
        let skipped = kept.events.len().saturating_sub(news);
        (
            kept.events.iter().skip(skipped).cloned().collect(),
            kept.count,
        )
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
        for sequence in 3..=200 {
            recent.note(&event(sequence));
        }
        let (kept, count) = recent.since(0);
        assert_eq!((kept.len(), count), (KEPT_MAX, 200));
        assert_eq!(kept.last(), Some(&event(200)));
    }
}
