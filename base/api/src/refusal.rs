//! Reasons why a link does not come up although the other end, or something else, answers.

use serde::{Deserialize, Serialize};

/// A problem at the other end of a cable, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct LinkRefusal {
    /// One of [`LinkRefusal::CAUSES`].
    pub cause: String,
    /// The finding, with the names of the ports.
    pub reason: String,
    /// How to resolve it.
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
