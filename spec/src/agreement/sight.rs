//! What a search must come by, or it shows nothing about it.

use super::world::World;

/// Something that came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// An exchange was taken.
    Taken,
    /// One was refused before any lane began.
    Refused,
    /// The opener refused one.
    Unprepared,
    /// One was undone.
    Undone,
    /// Ports were given back and came back as they were.
    Restored,
    /// An offer was refused as stale.
    Stale,
    /// Control heard that it was overtaken.
    Overtaken,
    /// Control adopted what the dataplane held.
    Adopted,
    /// The dataplane got back what was agreed.
    Reinstated,
    /// An offer whose answer was lost had been taken.
    ResolvedTaken,
    /// An offer whose answer was lost had not been taken.
    ResolvedNotTaken,
    /// The dataplane took leave.
    TookLeave,
    /// Ports were opened again.
    Reopened,
    /// What could not be reinstated was, later.
    ReinstatedLate,
}

/// All of them.
pub const ALL: &[(Came, &str)] = &[
    (Came::Taken, "an exchange was taken"),
    (
        Came::Refused,
        "an exchange was refused before any lane began",
    ),
    (Came::Unprepared, "an exchange was refused by the opener"),
    (Came::Undone, "an exchange was undone"),
    (Came::Restored, "ports that were given back came back"),
    (Came::Stale, "an offer was refused as stale"),
    (Came::Overtaken, "control heard that it was overtaken"),
    (Came::Adopted, "control adopted what was held"),
    (Came::Reinstated, "what was agreed was reinstated"),
    (Came::ResolvedTaken, "an unanswered offer had been taken"),
    (
        Came::ResolvedNotTaken,
        "an unanswered offer had not been taken",
    ),
    (Came::TookLeave, "the dataplane took leave"),
    (Came::Reopened, "ports were opened again"),
    (Came::ReinstatedLate, "what was owed was reinstated"),
];

impl World {
    /// Notes that it came by.
    pub fn came_by(&mut self, came: Came) {
        self.came_by |= 1 << came as u32;
    }
}
