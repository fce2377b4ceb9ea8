//! Why a link does not come up although somebody, or something, answers.

use serde::{Deserialize, Serialize};

/// What is wrong at the other end of a cable, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRefusal {
    /// One of [`LinkRefusal::CAUSES`].
    pub cause: String,
    /// What was found, with the names of the ports.
    pub reason: String,
    /// What to do.
    pub cure: String,
}

impl LinkRefusal {
    /// The stable names of all causes.
    pub const CAUSES: [&'static str; 7] = [
        "own_port",
        "own_guid",
        "twin_guid",
        "version",
        "crossed",
        "shared",
        "no_room",
    ];
}
