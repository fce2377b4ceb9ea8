//! Order without wall clocks.

use std::cmp::Ordering;

use covalent_api::guid::Guid;
use covalent_protocol::{Moment, verb::envelope::ReportStamp};

/// The position of a completion among those of all nodes, determined without comparing wall clocks.
///
/// If a program submits a verb after it saw a completion, the verb has a greater
/// [`lamport`](Self::lamport). The same applies to a program that learned of the completion through
/// verbs, whatever nodes these passed. Stamps do not cover communication by other means, such as a
/// socket or a file.
///
/// A node's clock and its counts restart with its daemon. The first message of any neighbor brings
/// the clock up to everything that the neighbor knows. Each lane of a daemon has its own clock and
/// counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The node that the verb addressed. `None` if no node could be addressed.
    pub executor: Option<Guid>,
    /// Number of the execution among all executions of that node, from 1. Of two verbs that one
    /// node executed, the one with the smaller number was executed first. 0 if the verb was not
    /// executed, or if this is unknown.
    pub executor_count: u64,
    /// Number of the completion among all that the local node has reported to its applications.
    pub initiator_count: u64,
    /// Lamport clock. It is the executor's clock when it executed the verb. For a verb that was not
    /// executed or is in doubt, it is the local node's clock when it reported that.
    pub lamport: u64,
}

impl Stamp {
    pub(crate) fn new(report: &ReportStamp, executed: Option<Moment>) -> Self {
        let moment = executed.unwrap_or(Moment {
            count: 0,
            clock: report.clock,
        });
        Self {
            executor: Guid::new(report.executor),
            executor_count: moment.count,
            initiator_count: report.count,
            lamport: moment.clock,
        }
    }

    /// Orders two completions consistently with causality. If this one may have been known to the
    /// program that requested the other, the result is [`Ordering::Less`]. Executions of one node
    /// have the order in which they were executed.
    ///
    /// Two completions on different nodes may be unrelated. Their result is then either order, or
    /// `None`. `Less` therefore does not mean that the other knew of this one, only that this one
    /// did not know of the other. A clock of one number cannot show that two completions were
    /// concurrent. [`Ordering::Equal`] is returned only for the same execution.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent::{Device, Target, Timeout};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// let near = verbs.open_region(Target::Name("b"), "log", Timeout::FOREVER)?;
    /// let far = verbs.open_region(Target::Name("c"), "log", Timeout::FOREVER)?;
    /// verbs.fetch_add(&near, 0, 1, Timeout::FOREVER)?;
    /// let first = verbs.last_stamp();
    /// verbs.fetch_add(&far, 0, 1, Timeout::FOREVER)?;
    /// assert_eq!(first.order(&verbs.last_stamp()), Some(std::cmp::Ordering::Less));
    /// # Ok::<(), covalent::Error>(())
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
    fn a_verb_not_executed_has_the_clock_of_the_reporting_node() {
        let report = ReportStamp {
            executor: 3,
            count: 8,
            clock: 20,
        };
        let refused = Stamp::new(&report, None);
        assert_eq!((refused.executor_count, refused.lamport), (0, 20));
        let executed = Stamp::new(
            &report,
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
