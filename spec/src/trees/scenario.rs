//! What a check of trees is about.

use super::mutant::Mutant;

/// How often what may happen that nobody asked for. Each is a bound of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Links that fail, any of them at any step.
    pub cuts: u8,
    /// Links that come up again.
    pub mends: u8,
    /// Paces of each node, when nothing else is left to happen.
    pub paces: u8,
}

/// A check. The root is node 0.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The nodes at the ends of each cable.
    pub cables: Vec<[usize; 2]>,
    /// What may happen.
    pub budget: Budget,
    /// A node, and how many ways there are of what its table holds at the start instead of what it should.
    pub garbage: Option<(usize, u64)>,
    /// What is built wrong.
    pub mutant: Mutant,
}

impl Scenario {
    /// How many nodes the cables join.
    #[must_use]
    pub fn nodes(&self) -> usize {
        let ends = self.cables.iter().flatten();
        ends.max().map_or(0, |last| last + 1)
    }
}
