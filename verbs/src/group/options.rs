//! How a seat in a group is taken.

use std::time::Duration;

use covalent_protocol::group::{MEMBERS_MAX, WINDOW};

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
/// let options = GroupOptions::new().members_max(5).pace(Duration::from_millis(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOptions {
    pub(super) members_max: u8,
    pub(super) pace: Duration,
}

impl GroupOptions {
    /// For up to 8 members, with a pace of 20 ms.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            members_max: 8,
            pace: Duration::from_millis(20),
        }
    }

    /// For how many members room is made: 2 to [`MEMBERS_MAX`].
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

    /// Verbs that the group may have under way: envelopes and a watch for each member.
    pub(super) const fn verbs_max(&self) -> usize {
        self.members_max as usize * (WINDOW + 1)
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
            (good.pace(Duration::ZERO), "1 ms to 1 s"),
        ] {
            let error = bad.check().expect_err("it cannot be").to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
