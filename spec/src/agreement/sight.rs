//! The events that a search must reach. Otherwise it shows nothing about them.

use super::world::World;

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

/// All of them.
pub const ALL: &[(Observation, &str)] = &[
    (Observation::Taken, "an exchange was taken"),
    (Observation::Refused, "an exchange could not be prepared"),
    (Observation::Stale, "an offer was refused as stale"),
    (
        Observation::Overtaken,
        "control learned that it was overtaken",
    ),
    (
        Observation::Adopted,
        "control adopted the held configuration",
    ),
    (
        Observation::Reinstated,
        "the agreed configuration was reinstated",
    ),
    (
        Observation::ResolvedTaken,
        "an unanswered offer had been taken",
    ),
    (
        Observation::ResolvedNotTaken,
        "an unanswered offer had not been taken",
    ),
    (Observation::TookLeave, "the dataplane left gracefully"),
    (Observation::Reopened, "ports were opened again"),
    (
        Observation::ReinstatedLate,
        "an owed configuration was reinstated",
    ),
];

impl World {
    /// Records that the event occurred.
    pub fn observed(&mut self, observation: Observation) {
        self.observed |= 1 << observation as u32;
    }
}
