//! Changes of what the kernel below hands to a port.

use covalent_api::rule::{Action, Match};

/// One change of steering, applied by the lane at its loop boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SteerChange {
    /// Frames that match go where the action says. Replaces an earlier action for the same match.
    Insert(Match, Action),
    /// The match no longer has an action of its own. [`Match::Any`] returns to [`Action::Kernel`].
    Remove(Match),
    /// Frames that no rule matches go where the action says. The same as inserting [`Match::Any`]; at first the kernel gets them.
    Default(Action),
}
