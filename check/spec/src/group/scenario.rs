//! The subject of a check of groups.

use super::mutant::Mutant;

/// How often each spontaneous event may happen. Each count is a bound of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Members that die, of any rank and at any step.
    pub deaths: u8,
    /// Times that a link layer considers an existing path lost. It finds the path again, or the run
    /// ends in this state.
    pub accusations: u8,
    /// Times that the nodes are divided.
    pub divisions: u8,
    /// Ticks of all members since anything else happened of itself.
    pub ticks: u8,
}

/// How envelopes arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// Envelopes of one path do not wait for those of another, up to [`Scenario::reorder`] on each.
    /// A node dies with its member: envelopes to it are lost, and the others learn of the death
    /// from their link layers.
    Free,
    /// Envelopes arrive in the order in which all of them were sent. A member dies alone: envelopes
    /// to it end as [`End::Gone`].
    ///
    /// [`End::Gone`]: covalent_protocol::group::End::Gone
    InOrder {
        /// Except those of these paths: each arrives at any time, after the earlier ones of its
        /// path.
        slow: Vec<[usize; 2]>,
        /// Except the first one of each of these paths: it arrives when nothing else is in flight,
        /// or later.
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
    /// Number of members with which new members found a group; 0 if they only join one.
    pub founders: u8,
    /// Whether there is no state, so that a joiner votes at once.
    pub stateless: bool,
    /// Members that leave, each once and at any time.
    pub leavers: Vec<usize>,
    /// Pairs of members: the application of the first one suspects the second one, once and at any
    /// time.
    pub suspicions: Vec<[usize; 2]>,
    /// Whether members begin, leave, die and are suspected only if nothing is in flight.
    pub unhurried: bool,
    /// How envelopes arrive.
    pub arrival: Arrival,
    /// Members that multicast a message. One member may multicast several, one after the other.
    pub multicasts: Vec<usize>,
    /// Bounds of the other events.
    pub budget: Budget,
    /// The parts that nodes may be divided into, by node.
    pub divisions: Vec<Vec<u8>>,
    /// Whether a division is mended.
    pub mended: bool,
    /// Whether the nodes are divided at the start, into the first of the divisions.
    pub divided: bool,
    /// Number of envelopes on a path of which any may arrive next. 1: they arrive in the order in
    /// which they were sent.
    pub reorder: usize,
    /// Members that may die, by rank. Empty: any member.
    pub mortal: Vec<usize>,
    /// Pairs of members: the link layer of the first one may consider the existing path to the
    /// second one lost.
    pub doubters: Vec<[usize; 2]>,
    /// The deliberate defect.
    pub mutant: Mutant,
}

impl Scenario {
    /// Members that send nothing, without faults.
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
            multicasts: Vec::new(),
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

    /// Whether a member dies alone, and envelopes to it end as gone.
    #[must_use]
    pub const fn members_die_alone(&self) -> bool {
        matches!(self.arrival, Arrival::InOrder { .. })
    }

    /// Whether envelopes of a way arrive when they like.
    #[must_use]
    pub fn is_slow(&self, path: [usize; 2]) -> bool {
        match &self.arrival {
            Arrival::Free => true,
            Arrival::InOrder { slow, .. } => slow.contains(&path),
        }
    }

    /// Whether the first envelope of a way is held back.
    #[must_use]
    pub fn is_held(&self, path: [usize; 2]) -> bool {
        matches!(&self.arrival, Arrival::InOrder { held, .. } if held.contains(&path))
    }
}
