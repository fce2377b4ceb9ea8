//! How often each event may happen.

use super::mutant::Mutant;

/// How often something of each kind may happen, or has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// The file is edited, and control is to put it in force.
    pub wishes: u8,
    /// Control dies.
    pub control_deaths: u8,
    /// The dataplane dies.
    pub dataplane_deaths: u8,
    /// The dataplane shuts down gracefully.
    pub leaves: u8,
    /// A connection breaks while both ends run.
    pub breaks: u8,
    /// A change cannot be prepared.
    pub failures: u8,
    /// Ports are to be opened again.
    pub reopens: u8,
    /// Something appears for which a failed reinstatement may have waited.
    pub appearances: u8,
    /// A second client sends a query and an offer.
    pub untrusted_users: u8,
}

/// A scenario to search.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// How often each event may happen.
    pub budget: Budget,
    /// The deliberate defect.
    pub mutant: Mutant,
    /// Invariants that are not checked. An invariant that looks ahead finds many mutants before
    /// they do anything.
    pub excused: Vec<&'static str>,
}

impl Scenario {
    /// Nothing goes wrong, and nothing is built wrong.
    #[must_use]
    pub fn new(name: &'static str, budget: Budget) -> Self {
        Self {
            name,
            budget,
            mutant: Mutant::None,
            excused: Vec::new(),
        }
    }
}
