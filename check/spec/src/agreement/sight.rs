//! The events that a search must reach. Otherwise it shows nothing about them.

use super::world::World;
use crate::check::{Sight, sight};

/// An event that occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// An exchange was taken.
    Taken,
    /// One could not be prepared.
    Refused,
    /// An offer was refused as stale.
    Stale,
    /// Control learned that it was overtaken.
    Overtaken,
    /// Control adopted the configuration that the dataplane held.
    Adopted,
    /// The agreed configuration was reinstated in the dataplane.
    Reinstated,
    /// An offer whose reply was lost had been taken.
    ResolvedTaken,
    /// An offer whose reply was lost had not been taken.
    ResolvedNotTaken,
    /// The dataplane took leave.
    TookLeave,
    /// Ports were opened again.
    Reopened,
    /// A configuration that could not be reinstated was reinstated later.
    ReinstatedLate,
}

/// All of them, in the order of [`Observation`]. Steps record them.
pub const ALL: &[Sight<World>] = &[
    sight("an exchange was taken", |_| false),
    sight("an exchange could not be prepared", |_| false),
    sight("an offer was refused as stale", |_| false),
    sight("control learned that it was overtaken", |_| false),
    sight("control adopted the held configuration", |_| false),
    sight("the agreed configuration was reinstated", |_| false),
    sight("an unanswered offer had been taken", |_| false),
    sight("an unanswered offer had not been taken", |_| false),
    sight("the dataplane left gracefully", |_| false),
    sight("ports were opened again", |_| false),
    sight("an owed configuration was reinstated", |_| false),
];

impl World {
    /// Records that the event occurred.
    pub fn observed(&mut self, observation: Observation) {
        self.observed |= 1 << observation as u32;
    }
}
