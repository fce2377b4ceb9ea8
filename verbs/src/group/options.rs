//! How a seat in a group is taken.

use std::time::Duration;

use covalent_protocol::{
    Name,
    group::{Contact, GroupConfig, Incarnation, MEMBERS_MAX, Secret, WINDOW},
};

use super::discovery::LOOKUPS_MAX;
use crate::{Error, Result};

/// Bytes of a receive queue for each envelope that may wait in it, with its header.
const ENVELOPE_BYTES: u64 = 4120;
/// Bytes of the queue for senders that are not members.
const STRANGERS_BYTES: u64 = 32 * 1024;

/// How a seat in a group is taken.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use covalent::GroupOptions;
///
/// // For one of the three founders of a group, or for a member that joins later.
/// let tick = Duration::from_millis(5);
/// let options = GroupOptions::new().founders(3).members_max(5).tick_interval(tick);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOptions {
    pub(super) founders: u8,
    pub(super) members_max: u8,
    pub(super) stateless: bool,
    pub(super) former: Option<Incarnation>,
    pub(super) tick_interval: Duration,
}

impl GroupOptions {
    /// Options for joining a group of up to 8 members whose applications have state, with a tick of
    /// 20 ms.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            founders: 0,
            members_max: 8,
            stateless: false,
            former: None,
            tick_interval: Duration::from_millis(20),
        }
    }

    /// Sets how many members found the group if there is none: 1 to
    /// [`GroupOptions::members_max()`], or 0 to wait for a group to join. All possible founders
    /// give the same number: the count of all of them. They found the group once all know each
    /// other. From then on, more than half of them are enough. If more members than this number
    /// ever give one, two groups of one name can form, and they never merge.
    ///
    /// A founder that was excluded, or that arrives late, joins the existing group. When all
    /// members have failed, their state is lost, and this many members found the group again.
    #[must_use]
    pub const fn founders(mut self, founders: u8) -> Self {
        self.founders = founders;
        self
    }

    /// Sets whether the members' applications have no state that a joining member needs. All
    /// members give the same value.
    #[must_use]
    pub const fn stateless(mut self, stateless: bool) -> Self {
        self.stateless = stateless;
        self
    }

    /// Sets an earlier incarnation of this application to query.
    /// [`GroupEvent::Outcome`](crate::GroupEvent::Outcome) reports how many of its multicasts were
    /// delivered, if members still know.
    #[must_use]
    pub const fn former(mut self, former: Incarnation) -> Self {
        self.former = Some(former);
        self
    }

    /// Sets the maximum number of members: 2 to [`MEMBERS_MAX`]. All members give the same number.
    #[must_use]
    pub const fn members_max(mut self, members_max: u8) -> Self {
        self.members_max = members_max;
        self
    }

    /// Sets the tick: how often a member sends something to a member that it sent nothing else. 1
    /// ms to 1 s. It determines how soon the exit of an application is noticed in an idle group. A
    /// member is never declared failed because a tick passed.
    #[must_use]
    pub const fn tick_interval(mut self, tick_interval: Duration) -> Self {
        self.tick_interval = tick_interval;
        self
    }

    /// # Errors
    /// [`Error::Invalid`] names the invalid option.
    pub(super) fn check(&self) -> Result<()> {
        let members = 2..=MEMBERS_MAX;
        if !members.contains(&usize::from(self.members_max)) {
            return Err(Error::Invalid(format!(
                "a group of up to {} members: expected 2 to {MEMBERS_MAX}",
                self.members_max
            )));
        }
        if self.founders > self.members_max {
            return Err(Error::Invalid(format!(
                "a group of up to {} members with {} founders: expected no more founders than \
                 members",
                self.members_max, self.founders
            )));
        }
        let tick_intervals = Duration::from_millis(1)..=Duration::from_secs(1);
        if !tick_intervals.contains(&self.tick_interval) {
            return Err(Error::Invalid(format!(
                "a group's tick (`pace`) of {:?}: expected 1 ms to 1 s",
                self.tick_interval
            )));
        }
        Ok(())
    }

    /// Capacity of the receive queue: no honest member ever finds it full.
    pub(super) const fn queue_bytes(&self) -> u64 {
        self.members_max as u64 * WINDOW as u64 * ENVELOPE_BYTES + STRANGERS_BYTES
    }

    /// Maximum number of verbs in flight: for each member its envelopes, one message outside of
    /// their order and a watch, plus the lookups.
    pub(super) const fn verbs_max(&self) -> u32 {
        (self.members_max as usize * (WINDOW + 2) + LOOKUPS_MAX) as u32
    }

    /// How the machine is to be run.
    pub(super) const fn config(&self, name: Name, me: Contact, secret: Secret) -> GroupConfig {
        GroupConfig {
            name,
            me,
            secret,
            former: self.former,
            founders: self.founders,
            members_max: self.members_max,
            stateless: self.stateless,
        }
    }
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_options_are_refused_with_the_valid_range() {
        let good = GroupOptions::new();
        for good in [
            good,
            good.members_max(2).tick_interval(Duration::from_millis(1)),
            good.members_max(32).tick_interval(Duration::from_secs(1)),
        ] {
            good.check().expect("it can be");
        }
        for (bad, expected) in [
            (good.members_max(1), "2 to 32"),
            (good.members_max(33), "2 to 32"),
            (good.founders(9), "no more founders"),
            (good.tick_interval(Duration::ZERO), "1 ms to 1 s"),
        ] {
            let error = bad.check().expect_err("it cannot be").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
