//! Configuration of a group member.

use super::{
    contact::{Contact, Incarnation, MEMBERS_MAX},
    token::Secret,
    wire::Terms,
};
use crate::Name;

/// How a group is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its name.
    pub name: Name,
    /// Where this member is reached.
    pub me: Contact,
    /// The key of the tokens by which this member authenticates others.
    pub secret: Secret,
    /// Former incarnation of the same application whose messages it queries; `None` for none.
    pub former: Option<Incarnation>,
    /// Number of members that found the group, 1 to [`MEMBERS_MAX`](super::MEMBERS_MAX); 0 to only
    /// join an existing one.
    pub founders: u8,
    /// Most members of the group, 2 to [`MEMBERS_MAX`](super::MEMBERS_MAX).
    pub members_max: u8,
    /// Whether the application has no state that a joining member needs.
    pub stateless: bool,
}

impl GroupConfig {
    /// Clamps to the bounds: 2 to [`MEMBERS_MAX`](super::MEMBERS_MAX) members, and no more founders
    /// than members.
    #[must_use]
    pub(super) fn bounded(mut self) -> Self {
        self.members_max = self.members_max.clamp(2, MEMBERS_MAX as u8);
        self.founders = self.founders.min(self.members_max);
        self
    }

    /// The terms that all members must share.
    pub(super) const fn terms(&self) -> Terms {
        Terms {
            stateless: self.stateless,
            members_max: self.members_max,
        }
    }
}
