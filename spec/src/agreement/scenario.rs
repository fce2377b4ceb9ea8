//! How often what may happen.

use super::mutant::Mutant;

/// How often something of each kind may happen, or has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Somebody edits the file and wishes for it.
    pub wishes: u8,
    /// Control dies.
    pub control_deaths: u8,
    /// The dataplane dies.
    pub dataplane_deaths: u8,
    /// The dataplane is stopped in order.
    pub leaves: u8,
    /// A connection breaks while both live.
    pub breaks: u8,
    /// The opener or a lane cannot do what it is told.
    pub failures: u8,
    /// Ports are to be opened again.
    pub reopens: u8,
    /// Something appears for which what could not be reinstated may have waited.
    pub appearances: u8,
    /// A second client asks and offers.
    pub strangers: u8,
}

/// What is searched.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// How often what may happen.
    pub budget: Budget,
    /// Whether exchanges may have ports given back, closed and opened.
    pub vacates: bool,
    /// What is built wrong.
    pub mutant: Mutant,
    /// Invariants that are not looked at: what looks ahead finds many a mutant before it does anything.
    pub excused: Vec<&'static str>,
}

impl Scenario {
    /// Nothing goes wrong, and nothing is built wrong.
    #[must_use]
    pub fn new(name: &'static str, budget: Budget) -> Self {
        Self {
            name,
            budget,
            vacates: false,
            mutant: Mutant::None,
            excused: Vec::new(),
        }
    }
}
