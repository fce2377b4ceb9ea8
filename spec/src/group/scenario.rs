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
    /// Ticks of all members since anything else happened of itself.
    pub ticks: u8,
}

/// How envelopes arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Those of one way do not wait for those of another, up to [`Scenario::reorder`] each. A node dies with its member:
    /// what is said to it ends nowhere, and the others learn of it from their link layers.
    Free,
    /// In the order in which all of them were said. A member dies alone: what is said to it ends [`End::Gone`].
    ///
    /// [`End::Gone`]: covalent_protocol::group::End::Gone
    InOrder {
        /// But those of these ways: each arrives when it likes, behind those before it.
        slow: Vec<[usize; 2]>,
        /// But the first one of each of these ways: it arrives when nothing else is under way, or later.
        held: Vec<[usize; 2]>,
    },
}

/// A check.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Members, each on a node of its own.
    pub members: usize,
    /// So many of the first are in a view at the start. Each other one begins when it likes, once.
    pub in_view: usize,
    /// So many of these, the last ones, are in a view of another group of the name.
    pub in_other: usize,
    /// Members with which those who begin found a group; 0 if they only join one.
    pub founders: u8,
    /// Whether there is no state, so that whoever joins votes at once.
    pub stateless: bool,
    /// Who leaves, each once and when it likes.
    pub leavers: Vec<usize>,
    /// Which application says of which other one that it should go, each once and when it likes.
    pub suspicions: Vec<[usize; 2]>,
    /// Whether members begin, leave, die and are suspected only where nothing is under way.
    pub unhurried: bool,
    /// How envelopes arrive.
    pub arrival: Arrival,
    /// Who asks for a message, one after the other; of one member several.
    pub asks: Vec<usize>,
    /// What may happen besides.
    pub budget: Budget,
    /// The parts that nodes may be divided into, by node.
    pub divisions: Vec<Vec<u8>>,
    /// Whether a division is mended.
    pub mended: bool,
    /// Whether the nodes are divided at the start, into the first of the divisions.
    pub divided: bool,
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
            in_view: members,
            in_other: 0,
            founders: 0,
            stateless: false,
            leavers: Vec::new(),
            suspicions: Vec::new(),
            unhurried: false,
            arrival: Arrival::Free,
            asks: Vec::new(),
            budget: Budget {
                deaths: 0,
                accusations: 0,
                divisions: 0,
                ticks: 0,
            },
            divisions: Vec::new(),
            mended: false,
            divided: false,
            reorder: 1,
            mortal: Vec::new(),
            doubters: Vec::new(),
            mutant: Mutant::None,
        }
    }

    /// Whether a member dies alone, and what is said to it ends as gone.
    #[must_use]
    pub const fn members_die_alone(&self) -> bool {
        matches!(self.arrival, Arrival::InOrder { .. })
    }

    /// Whether envelopes of a way arrive when they like.
    #[must_use]
    pub fn is_slow(&self, way: [usize; 2]) -> bool {
        match &self.arrival {
            Arrival::Free => true,
            Arrival::InOrder { slow, .. } => slow.contains(&way),
        }
    }

    /// Whether the first envelope of a way is held back.
    #[must_use]
    pub fn is_held(&self, way: [usize; 2]) -> bool {
        matches!(&self.arrival, Arrival::InOrder { held, .. } if held.contains(&way))
    }
}
