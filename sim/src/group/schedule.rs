//! Scheduled events, by time.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Things that are going to happen, in the order of (time, when it was put in).
#[derive(Debug, Clone)]
pub struct Schedule<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    entered: u64,
}

#[derive(Debug, Clone)]
struct Entry<T> {
    at: u64,
    order: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            entered: 0,
        }
    }
}

impl<T> Schedule<T> {
    /// Schedules an event at a time, in units.
    pub fn put(&mut self, at: u64, what: T) {
        self.heap.push(Reverse(Entry {
            at,
            order: self.entered,
            what,
        }));
        self.entered += 1;
    }

    /// Removes the next event, if it is not after `until`.
    pub fn take(&mut self, until: u64) -> Option<(u64, T)> {
        if self.heap.peek()?.0.at > until {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_entries_come_out_in_insertion_order() {
        let mut schedule = Schedule::default();
        for (at, what) in [(5, 'c'), (3, 'a'), (3, 'b'), (9, 'd')] {
            schedule.put(at, what);
        }
        let mut taken = Vec::new();
        while let Some(next) = schedule.take(8) {
            taken.push(next);
        }
        assert_eq!(taken, [(3, 'a'), (3, 'b'), (5, 'c')]);
        assert_eq!(schedule.take(9), Some((9, 'd')));
    }
}
