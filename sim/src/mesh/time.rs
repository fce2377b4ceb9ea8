//! What is going to happen, in its order.
//!
//! Time counts in units, of which a round trip of a link takes [`ROUND_TRIP_UNITS`]. Nothing else is a clock here.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Units that a frame is under way on a cable without jitter.
pub const FRAME_UNITS: u64 = 16;
/// Units of one round trip of a link: a node answers in the unit in which it hears.
pub const ROUND_TRIP_UNITS: u64 = 2 * FRAME_UNITS;

/// One thing that is going to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The frame that was sent first of those under way to an end of a cable arrives.
    Arrive {
        /// The cable.
        cable: u16,
        /// The end that hears it.
        end: u8,
    },
    /// A pace of a node passes.
    Pace {
        /// The node.
        node: u16,
    },
    /// A node may have heard nothing for a while.
    Quiet {
        /// The node.
        node: u16,
    },
    /// The fault with this number of the plan happens.
    Fault(u32),
    /// Somebody asks somebody for something.
    Ask,
    /// Somebody looks at the tree of a root.
    Look,
}

/// What is going to happen. Of two things at the same time the one that was scheduled first comes first.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
}

impl Agenda {
    /// Something happens at a time, in units from the beginning.
    pub fn add(&mut self, at_units: u64, event: Event) {
        self.events.push(Reverse((at_units, self.scheduled, event)));
        self.scheduled += 1;
    }

    /// The next thing that happens until a time, that one included, with its time.
    pub fn next(&mut self, until_units: u64) -> Option<(u64, Event)> {
        let Reverse((at, ..)) = *self.events.peek()?;
        if at > until_units {
            return None;
        }
        self.events.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_scheduled_first_comes_first_of_what_happens_together() {
        let mut agenda = Agenda::default();
        let arrive = |cable| Event::Arrive { cable, end: 0 };
        agenda.add(7, arrive(9));
        agenda.add(3, Event::Ask);
        agenda.add(7, arrive(1));
        assert_eq!(agenda.next(2), None);
        assert_eq!(agenda.next(7), Some((3, Event::Ask)));
        assert_eq!(agenda.next(7), Some((7, arrive(9))));
        assert_eq!(agenda.next(7), Some((7, arrive(1))));
        assert_eq!(agenda.next(u64::MAX), None);
    }
}
