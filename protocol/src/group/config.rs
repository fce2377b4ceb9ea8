//! What a group is started with.

use super::{
    contact::{Contact, Life, MEMBERS_MAX},
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
    /// Former stay of the same application whose messages it asks about; `None` for none.
    pub former: Option<Life>,
    /// Members with which the group is founded, 1 to [`MEMBERS_MAX`](super::MEMBERS_MAX); 0 to join an existing one only.
    pub founders: u8,
    /// Most members that room is made for, 2 to [`MEMBERS_MAX`](super::MEMBERS_MAX).
    pub members_max: u8,
    /// Whether the application has no state that one who joins would need.
    pub stateless: bool,
}

impl GroupConfig {
    /// The same within the bounds: at least 2 members, at most [`MEMBERS_MAX`](super::MEMBERS_MAX), and no more founders than members.
    #[must_use]
    pub(super) fn bounded(mut self) -> Self {
        self.members_max = self.members_max.clamp(2, MEMBERS_MAX as u8);
        self.founders = self.founders.min(self.members_max);
        self
    }

    /// What all members must be agreed on.
    pub(super) const fn terms(&self) -> Terms {
        Terms {
            stateless: self.stateless,
            members_max: self.members_max,
        }
    }
}
