//! The last events of a node, for later subscribers.

use std::collections::VecDeque;

use covalent_api::{MAX_DATAGRAM_BYTES, event::Event};

/// Most events that are kept.
const KEPT_MAX: usize = 512;

/// Space in a datagram besides the envelope of a reply.
const EVENTS_BYTES_MAX: usize = MAX_DATAGRAM_BYTES - 128;

/// The last events, in order. Each is stored with the length of its text, so that replies fit into
/// their datagrams.
#[derive(Debug, Default)]
pub struct Recent {
    kept: VecDeque<(Event, usize)>,
}

impl Recent {
    /// Stores `event`, whose text has `bytes` bytes. An event that fills a datagram by itself fits
    /// into no reply.
    pub fn keep(&mut self, event: Event, bytes: usize) {
        if bytes >= EVENTS_BYTES_MAX {
            return;
        }
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back((event, bytes));
    }

    /// Returns as many events from `from` on as one reply holds, and the number of the next stored
    /// event.
    #[must_use]
    pub fn since(&self, from: u64) -> (Vec<Event>, Option<u64>) {
        let first = self
            .kept
            .partition_point(|(event, _)| event.sequence < from);
        let mut room = EVENTS_BYTES_MAX;
        let mut selected = Vec::new();
        for (event, bytes) in self.kept.range(first..) {
            // And a comma.
            match room.checked_sub(bytes + 1) {
                Some(left) => room = left,
                None => return (selected, Some(event.sequence)),
            }
            selected.push(event.clone());
        }
        (selected, None)
    }
}

#[cfg(test)]
mod tests {
    use covalent_api::{datagram, event::EventKind, request::Reply};

    use super::*;

    fn keep(recent: &mut Recent, sequence: u64, reason_bytes: usize) {
        let event = Event {
            sequence,
            realtime_ns: u64::MAX,
            kind: EventKind::NotConfigured {
                reason: "x".repeat(reason_bytes),
            },
        };
        let bytes = datagram::encode(&Reply::Event(event.clone())).unwrap_or_default();
        recent.keep(event, bytes.len());
    }

    fn numbers(events: &[Event]) -> Vec<u64> {
        events.iter().map(|event| event.sequence).collect()
    }

    #[test]
    fn the_last_ones_are_kept() {
        let mut recent = Recent::default();
        assert_eq!(recent.since(0), (Vec::new(), None));
        for sequence in 1..=KEPT_MAX as u64 + 3 {
            keep(&mut recent, sequence, 1);
        }
        let (events, next) = recent.since(KEPT_MAX as u64 + 2);
        let last = KEPT_MAX as u64 + 3;
        assert_eq!((numbers(&events), next), (vec![last - 1, last], None));
        assert_eq!(
            recent.since(0).0.first().map(|event| event.sequence),
            Some(4)
        );
        assert_eq!(recent.since(last + 1), (Vec::new(), None));
    }

    #[test]
    fn events_that_do_not_fit_come_with_the_next_answer() {
        let mut recent = Recent::default();
        for sequence in 1..=7 {
            keep(&mut recent, sequence, 20_000);
        }
        keep(&mut recent, 8, MAX_DATAGRAM_BYTES - 200);
        let (mut from, mut selected) = (0, Vec::new());
        loop {
            let (events, next) = recent.since(from);
            selected.extend(numbers(&events));
            assert!(!events.is_empty());
            assert!(datagram::encode(&Reply::Events { events, next }).is_ok());
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        assert_eq!(selected, [1, 2, 3, 4, 5, 6, 7]);
    }
}
