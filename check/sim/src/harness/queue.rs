//! Scheduled events, by time.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

/// Units ahead of now that each have a queue of their own. Frames and their waits are not further
/// ahead.
const SOON_UNITS: u64 = 64;

/// Scheduled events, with the time in units. Simultaneous events happen in the order in which they
/// were scheduled.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    /// Time of the last event taken. No earlier event is pending.
    now_units: u64,
    /// Events less than [`SOON_UNITS`] ahead, by their time modulo that. A heap of all frames in
    /// flight in a large mesh would fit no cache.
    soon: Vec<VecDeque<T>>,
    soon_count: usize,
    /// Events scheduled further ahead, and thus before any event in `soon` of the same time.
    later: BinaryHeap<Reverse<Later<T>>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Later<T> {
    at_units: u64,
    order: u64,
    event: T,
}

impl<T> Ord for Later<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_units, self.order).cmp(&(other.at_units, other.order))
    }
}

impl<T> PartialOrd for Later<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Later<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Later<T> {}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self {
            now_units: 0,
            soon: (0..SOON_UNITS).map(|_| VecDeque::new()).collect(),
            soon_count: 0,
            later: BinaryHeap::new(),
            scheduled: 0,
        }
    }
}

impl<T> EventQueue<T> {
    /// Something happens at a time that is not over, in units from the beginning.
    pub fn add(&mut self, at_units: u64, event: T) {
        debug_assert!(at_units >= self.now_units, "{at_units} is too late");
        if at_units < self.now_units + SOON_UNITS {
            self.soon[(at_units % SOON_UNITS) as usize].push_back(event);
            self.soon_count += 1;
        } else {
            let order = self.scheduled;
            self.later.push(Reverse(Later {
                at_units,
                order,
                event,
            }));
            self.scheduled += 1;
        }
    }

    /// The next thing that happens until a time, that one included, with its time.
    pub fn next(&mut self, until_units: u64) -> Option<(u64, T)> {
        let mut at = self.now_units;
        while at <= until_units {
            let later = self.later.peek().map(|Reverse(later)| later.at_units);
            let event = if later == Some(at) {
                self.later.pop().map(|Reverse(later)| later.event)
            } else {
                self.take_soon(at)
            };
            if let Some(event) = event {
                self.now_units = at;
                return Some((at, event));
            }
            // If `soon` is empty, skip to the first later event.
            at = if self.soon_count > 0 { at + 1 } else { later? };
        }
        None
    }

    fn take_soon(&mut self, at_units: u64) -> Option<T> {
        let event = self.soon[(at_units % SOON_UNITS) as usize].pop_front()?;
        self.soon_count -= 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_events_occur_in_scheduling_order() {
        let mut queue = EventQueue::default();
        for (at, event) in [(7, 'b'), (3, 'a'), (7, 'c')] {
            queue.add(at, event);
        }
        assert_eq!(queue.next(2), None);
        let mut next = || queue.next(7);
        assert_eq!(
            [next(), next(), next(), next()],
            [Some((3, 'a')), Some((7, 'b')), Some((7, 'c')), None]
        );
    }

    #[test]
    fn events_scheduled_far_ahead_keep_their_order() {
        let mut queue = EventQueue::default();
        let far = 3 * SOON_UNITS + 5;
        for (at, event) in [(far, '1'), (far + 1, '4'), (far, '2'), (far - 2, 'x')] {
            queue.add(at, event);
        }
        assert_eq!(queue.next(far - 3), None);
        assert_eq!(queue.next(far), Some((far - 2, 'x')));
        queue.add(far, '3');
        queue.add(far - 2, 'y');
        queue.add(far + SOON_UNITS - 3, '5');
        assert_eq!(queue.next(far), Some((far - 2, 'y')));
        let mut next = || queue.next(u64::MAX);
        for event in ['1', '2', '3'] {
            assert_eq!(next(), Some((far, event)));
        }
        assert_eq!(next(), Some((far + 1, '4')));
        assert_eq!(next(), Some((far + SOON_UNITS - 3, '5')));
        assert_eq!(next(), None);
    }
}
