//! How a seat in a group is taken.

use std::time::Duration;

use covalent_protocol::{
    Name,
    group::{Contact, GroupConfig, Life, MEMBERS_MAX, Secret, WINDOW},
};

use super::look::LOOKS_MAX;
use crate::error::{Error, Result};

/// Bytes of a receive queue for each envelope that may wait in it, with what stands before it.
const ENVELOPE_BYTES: u64 = 4120;
/// Bytes of it for those who are no members.
const STRANGERS_BYTES: u64 = 32 * 1024;

/// How a seat in a group is taken.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use covalent_verbs::GroupOptions;
///
/// // One of the three that found the group, or who joins it later.
/// let options = GroupOptions::new().founders(3).members_max(5).pace(Duration::from_millis(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOptions {
    pub(super) founders: u8,
    pub(super) members_max: u8,
    pub(super) stateless: bool,
    pub(super) former: Option<Life>,
    pub(super) pace: Duration,
}

impl GroupOptions {
    /// To join a group of up to 8 members whose applications have state, with a pace of 20 ms.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            founders: 0,
            members_max: 8,
            stateless: false,
            former: None,
            pace: Duration::from_millis(20),
        }
    }

    /// With how many members the group is founded if there is none: 1 to [`GroupOptions::members_max()`], or 0 to wait for one to join. All who may found
    /// it give the same number, and it is the number of all of them: they found it once all know each other, and more than half of them are enough from then on. Where more
    /// than that ever give one, two groups of one name can come to be, which never merge.
    ///
    /// Who gave a number and was left out, or comes late, joins the group that there is. When all members have died, so has their state: so many
    /// members found it anew.
    #[must_use]
    pub const fn founders(mut self, founders: u8) -> Self {
        self.founders = founders;
        self
    }

    /// Whether members' applications have no state that one who joins would need. The same at all members.
    #[must_use]
    pub const fn stateless(mut self, stateless: bool) -> Self {
        self.stateless = stateless;
        self
    }

    /// An earlier stay of this application whose multicasts it asks about: [`GroupEvent::Fate`](crate::GroupEvent::Fate) tells how many of them were delivered, if members still
    /// know.
    #[must_use]
    pub const fn former(mut self, former: Life) -> Self {
        self.former = Some(former);
        self
    }

    /// For how many members room is made: 2 to [`MEMBERS_MAX`]. The same at all members.
    #[must_use]
    pub const fn members_max(mut self, members_max: u8) -> Self {
        self.members_max = members_max;
        self
    }

    /// How often something is said to a member to whom nothing else was: 1 ms to 1 s. It decides how soon the end of an application is noticed in an idle group, and
    /// nobody is ever taken for dead because a pace passed.
    #[must_use]
    pub const fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// # Errors
    /// [`Error::Invalid`] says which of them cannot be.
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
                "a group of up to {} members that {} found: expected no more founders than members",
                self.members_max, self.founders
            )));
        }
        let paces = Duration::from_millis(1)..=Duration::from_secs(1);
        if !paces.contains(&self.pace) {
            return Err(Error::Invalid(format!(
                "a group's pace of {:?}: expected 1 ms to 1 s",
                self.pace
            )));
        }
        Ok(())
    }

    /// Capacity of the receive queue: no honest member ever finds it full.
    pub(super) const fn queue_bytes(&self) -> u64 {
        self.members_max as u64 * WINDOW as u64 * ENVELOPE_BYTES + STRANGERS_BYTES
    }

    /// Verbs that the group may have under way: envelopes, a word outside of their order and a watch for each member, and looks for more.
    pub(super) const fn verbs_max(&self) -> usize {
        self.members_max as usize * (WINDOW + 2) + LOOKS_MAX
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
    fn what_cannot_be_is_refused_with_what_can() {
        let good = GroupOptions::new();
        for good in [
            good,
            good.members_max(2).pace(Duration::from_millis(1)),
            good.members_max(32).pace(Duration::from_secs(1)),
        ] {
            good.check().expect("it can be");
        }
        for (bad, says) in [
            (good.members_max(1), "2 to 32"),
            (good.members_max(33), "2 to 32"),
            (good.founders(9), "no more founders"),
            (good.pace(Duration::ZERO), "1 ms to 1 s"),
        ] {
            let error = bad.check().expect_err("it cannot be").to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
