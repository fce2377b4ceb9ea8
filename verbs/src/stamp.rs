//! Order without wall clocks.

use std::cmp::Ordering;

use covalent_api::guid::Guid;
use covalent_protocol::{Moment, verb::envelope::Told};

/// The place of a completion among those of all nodes, told without comparing wall clocks.
///
/// If a verb was submitted when a completion had been seen, by the same program or by one that had learned of it through
/// verbs, whatever nodes these passed, it has a greater [`lamport`](Self::lamport). What two programs told each other
/// by other ways, a socket or a file, is known to no stamp.
///
/// The clock of a node starts afresh with its daemon, and so do the counts; the first message of any neighbour brings the clock
/// up to all that this one knows. Each lane of a daemon has its own clock and counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The node that was asked. `None` where nobody could be.
    pub executor: Option<Guid>,
    /// The number of the execution among all of that node, from 1: of two verbs that one node executed, the one with the
    /// smaller number was executed first. 0 if it was not executed, or this is not known.
    pub executor_count: u64,
    /// The number of the completion among all that the own node has told its applications.
    pub initiator_count: u64,
    /// The clock of Lamport: that of the executor when it executed the verb; of what was not executed, or is in doubt, that
    /// of the own node when it said so.
    pub lamport: u64,
}

impl Stamp {
    pub(crate) fn new(told: &Told, executed: Option<Moment>) -> Self {
        let moment = executed.unwrap_or(Moment {
            count: 0,
            clock: told.clock,
        });
        Self {
            executor: Guid::new(told.executor),
            executor_count: moment.count,
            initiator_count: told.count,
            lamport: moment.clock,
        }
    }

    /// An order that agrees with cause and effect: if this one may have been known to whoever asked for the other, it is
    /// [`Ordering::Less`]. Executions of one node are in the order in which they were executed.
    ///
    /// Of two that knew nothing of each other, on different nodes, it says one or the other, or `None`. So `Less` does not say that the
    /// other knew of this one, only that this one did not know of the other: a clock of one number cannot tell what was
    /// concurrent. [`Ordering::Equal`] is said of the same execution only.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent_verbs::{Device, Target};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// let [near, far] = ["b", "c"].map(|node| verbs.open_region(Target::Name(node), "log"));
    /// let (near, far) = (near?, far?);
    /// verbs.fetch_add(&near, 0, 1)?;
    /// let first = verbs.last_stamp();
    /// verbs.fetch_add(&far, 0, 1)?;
    /// assert_eq!(first.order(&verbs.last_stamp()), Some(std::cmp::Ordering::Less));
    /// # Ok::<(), covalent_verbs::Error>(())
    /// ```
    #[must_use]
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        match self.lamport.cmp(&other.lamport) {
            Ordering::Equal => {
                let is_same = self.executor == other.executor
                    && self.executor_count == other.executor_count
                    && self.executor_count != 0;
                is_same.then_some(Ordering::Equal)
            }
            unequal => Some(unequal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn executed(executor: u64, executor_count: u64, lamport: u64) -> Stamp {
        Stamp {
            executor: Guid::new(executor),
            executor_count,
            initiator_count: 1,
            lamport,
        }
    }

    #[test]
    fn the_clock_orders_and_equal_clocks_order_nothing_but_the_same_execution() {
        let stamp = executed(1, 5, 10);
        assert_eq!(stamp.order(&executed(2, 1, 11)), Some(Ordering::Less));
        assert_eq!(executed(2, 1, 11).order(&stamp), Some(Ordering::Greater));
        assert_eq!(stamp.order(&executed(2, 5, 10)), None);
        assert_eq!(stamp.order(&executed(1, 5, 10)), Some(Ordering::Equal));
        assert_eq!(executed(1, 0, 10).order(&executed(1, 0, 10)), None);
    }

    #[test]
    fn what_was_not_executed_bears_the_clock_of_who_says_so() {
        let told = Told {
            executor: 3,
            count: 8,
            clock: 20,
        };
        let refused = Stamp::new(&told, None);
        assert_eq!((refused.executor_count, refused.lamport), (0, 20));
        let executed = Stamp::new(
            &told,
            Some(Moment {
                count: 2,
                clock: 15,
            }),
        );
        assert_eq!((executed.executor_count, executed.lamport), (2, 15));
        assert_eq!(
            (executed.executor, executed.initiator_count),
            (Guid::new(3), 8)
        );
    }
}
