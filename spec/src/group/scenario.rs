//! What a check of groups is about.

use super::mutant::Mutant;

/// How often what may happen that nobody asked for. Each is a bound of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Members that die, of any rank and at any step.
    pub deaths: u8,
    /// Times that some link layer holds a way for lost that is there. It finds it again, or the run ends with that.
    pub accusations: u8,
    /// Times that the nodes are divided.
    pub divisions: u8,
}

/// A check.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Members. All are in a view at the start.
    pub members: usize,
    /// Who asks for a message, one after the other; of one member several.
    pub asks: Vec<usize>,
    /// What may happen besides.
    pub budget: Budget,
    /// The parts that nodes may be divided into, by node.
    pub divisions: Vec<Vec<u8>>,
    /// Whether a division is mended.
    pub mended: bool,
    /// Envelopes of one to another that may arrive next: 1 for the order in which they were said.
    pub reorder: usize,
    /// Who may die, by rank; empty for anybody.
    pub mortal: Vec<usize>,
    /// Which link layers may take a way for lost that is there, and to whom.
    pub doubters: Vec<[usize; 2]>,
    /// What is built wrong.
    pub mutant: Mutant,
}

impl Scenario {
    /// Members that say nothing and whom nothing befalls.
    #[must_use]
    pub const fn new(name: &'static str, members: usize) -> Self {
        Self {
            name,
            members,
            asks: Vec::new(),
            budget: Budget {
                deaths: 0,
                accusations: 0,
                divisions: 0,
            },
            divisions: Vec::new(),
            mended: false,
            reorder: 1,
            mortal: Vec::new(),
            doubters: Vec::new(),
            mutant: Mutant::None,
        }
    }
}
