//! Scheduled events, in order.
//!
//! Time counts in units: a round trip of a link takes [`ROUND_TRIP_UNITS`]. There is no other
//! clock.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// Units that a frame is in flight on a cable without jitter.
pub const FRAME_UNITS: u64 = 16;
/// Units of one round trip of a link: a node replies in the unit in which it receives.
pub const ROUND_TRIP_UNITS: u64 = 2 * FRAME_UNITS;

/// One thing that is going to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The oldest frame in flight to an end of a cable arrives.
    Arrive {
        /// The cable.
        cable: u16,
        /// The receiving end.
        end: u8,
    },
    /// A node ticks.
    Tick {
        /// The node.
        node: u16,
    },
    /// A node may have received nothing for a while.
    Quiet {
        /// The node.
        node: u16,
    },
    /// The fault with this number of the plan happens.
    Fault(u32),
    /// Nodes submit requests.
    Submit,
    /// The tree of a root is checked.
    Sample,
    /// The oldest frame in flight on the liar's cable arrives.
    ArriveBeside {
        /// Whether the liar receives it.
        at_liar: bool,
    },
    /// The liar ticks.
    TickBeside,
    /// The liar sends something.
    Lie,
}

/// Units ahead of now that each have a queue of their own. Frames and their waits are not further
/// ahead.
const SOON_UNITS: u64 = 64;

/// Scheduled events. Simultaneous events happen in the order in which they were scheduled.
#[derive(Debug)]
pub(super) struct Agenda {
    /// Time of the last event taken. No earlier event is pending.
    now_units: u64,
    /// Events less than [`SOON_UNITS`] ahead, by their time modulo that. A heap of all frames in
    /// flight in a large mesh would fit no cache.
    soon: Vec<VecDeque<Event>>,
    soon_count: usize,
    /// Events scheduled further ahead, and thus before any event in `soon` of the same time.
    later: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
}

impl Default for Agenda {
    fn default() -> Self {
        Self {
            now_units: 0,
            soon: vec![VecDeque::new(); SOON_UNITS as usize],
            soon_count: 0,
            later: BinaryHeap::new(),
            scheduled: 0,
        }
    }
}

impl Agenda {
    /// Something happens at a time that is not over, in units from the beginning.
    pub fn add(&mut self, at_units: u64, event: Event) {
        debug_assert!(at_units >= self.now_units, "{event:?} is too late");
        if at_units < self.now_units + SOON_UNITS {
            self.soon[(at_units % SOON_UNITS) as usize].push_back(event);
            self.soon_count += 1;
        } else {
            self.later.push(Reverse((at_units, self.scheduled, event)));
            self.scheduled += 1;
        }
    }

    /// The next thing that happens until a time, that one included, with its time.
    pub fn next(&mut self, until_units: u64) -> Option<(u64, Event)> {
        let mut at = self.now_units;
        while at <= until_units {
            let later = self.later.peek().map(|Reverse((at, ..))| *at);
            let event = if later == Some(at) {
                self.later.pop().map(|Reverse((.., event))| event)
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

    fn take_soon(&mut self, at_units: u64) -> Option<Event> {
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
        let mut agenda = Agenda::default();
        let arrive = |cable| Event::Arrive { cable, end: 0 };
        agenda.add(7, arrive(9));
        agenda.add(3, Event::Submit);
        agenda.add(7, arrive(1));
        assert_eq!(agenda.next(2), None);
        assert_eq!(agenda.next(7), Some((3, Event::Submit)));
        assert_eq!(agenda.next(7), Some((7, arrive(9))));
        assert_eq!(agenda.next(7), Some((7, arrive(1))));
        assert_eq!(agenda.next(u64::MAX), None);
    }

    #[test]
    fn events_scheduled_far_ahead_keep_their_order() {
        let mut agenda = Agenda::default();
        let arrive = |cable| Event::Arrive { cable, end: 0 };
        let far = 3 * SOON_UNITS + 5;
        agenda.add(far, arrive(1));
        agenda.add(far + 1, arrive(4));
        agenda.add(far, arrive(2));
        agenda.add(far - 2, Event::Sample);
        assert_eq!(agenda.next(far - 3), None);
        assert_eq!(agenda.next(far), Some((far - 2, Event::Sample)));
        agenda.add(far, arrive(3));
        agenda.add(far - 2, Event::Submit);
        agenda.add(far + SOON_UNITS - 3, arrive(5));
        assert_eq!(agenda.next(far), Some((far - 2, Event::Submit)));
        let mut next = || agenda.next(u64::MAX);
        for cable in [1, 2, 3] {
            assert_eq!(next(), Some((far, arrive(cable))));
        }
        assert_eq!(next(), Some((far + 1, arrive(4))));
        assert_eq!(next(), Some((far + SOON_UNITS - 3, arrive(5))));
        assert_eq!(next(), None);
    }
}
