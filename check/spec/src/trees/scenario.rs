//! The subject of a check of trees.

use super::mutant::Mutant;

/// How often each spontaneous event may happen. Each count is a bound of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Links that fail, any of them at any step.
    pub cuts: u8,
    /// Links that come up again.
    pub mends: u8,
    /// Ticks of each node, if nothing else is left to happen.
    pub ticks: u8,
}

/// A check. The root is node 0.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The nodes at the ends of each cable.
    pub cables: Vec<[usize; 2]>,
    /// Bounds of the events.
    pub budget: Budget,
    /// A node whose table holds something wrong at the start, and the number of variants.
    pub garbage: Option<(usize, u64)>,
    /// The deliberate defect.
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
