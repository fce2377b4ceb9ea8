//! Changes to the frames that the kernel passes to a port.

use covalent_api::rule::{Action, Match};

/// One change of steering, applied by the lane at its loop boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SteerChange {
    /// Applies the action to matching frames. Replaces an earlier action for the same match.
    Insert(Match, Action),
    /// The match no longer has an action of its own. [`Match::Any`] returns to [`Action::Kernel`].
    Remove(Match),
    /// Applies the action to frames that no rule matches. The same as inserting [`Match::Any`].
    /// Initially the kernel gets these frames.
    Default(Action),
}
