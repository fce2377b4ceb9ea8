//! What a check is about: who is cabled to whom, what they want of one another, and how often what may go wrong.

use covalent_protocol::Mode;

use crate::mutant::Mutant;

/// One exchange that a node wants with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wish {
    /// The node that starts it.
    pub from: usize,
    /// The node that executes it.
    pub to: usize,
    /// In one phase or in two.
    pub mode: Mode,
    /// Which attempt at it the responder refuses, counted from 1 over all that it hears of; 0 for none.
    pub refused_attempt: u8,
}

/// How often what may happen that no exchange needs. Each is a bound of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Frames lost on cables that are whole.
    pub losses: u8,
    /// Cuts of a cable, in one direction or in both.
    pub cuts: u8,
    /// Ticks of each node.
    pub ticks: u8,
    /// Restarts of any node.
    pub restarts: u8,
    /// Times that each node is told that its caller hears nothing.
    pub quiets: u8,
    /// Times that the program of a node goes, and with it who waits for what it asked for.
    pub cancels: u8,
    /// Frames that nobody sent, each of any of [`crate::forgery::ALL`] and at any end of a cable.
    pub forgeries: u8,
    /// Times that the second ends of the first two cables change places.
    pub moves: u8,
}

/// A check.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// How many nodes there are.
    pub nodes: usize,
    /// The two nodes at the ends of each cable. A cable's number is the port that it has at both.
    pub cables: Vec<[usize; 2]>,
    /// What the nodes want: each of these sets is a start.
    pub wishes: Vec<Vec<Wish>>,
    /// What may happen besides.
    pub budget: Budget,
    /// Exchanges that each end may have open on a link.
    pub slots: u8,
    /// Bytes of each request. Beyond [`covalent_protocol::wire::FRAME_PAYLOAD_BYTES_MAX`] it takes several frames.
    pub request_bytes: u16,
    /// Ticks without a word after which a link is declared dead.
    pub silent_paces_max: u32,
    /// Round trips of another link after which a link is declared dead.
    pub event_ratio: u32,
    /// Runs are followed until a record of an epoch has this number: balls that go to and fro while a link is being found out have no
    /// end otherwise that a search would come to.
    pub records_max: u32,
    /// Cables that nobody mends once they are cut.
    pub for_good: Vec<usize>,
    /// Whether all links are up at the start; else they have a carrier and nothing was said.
    pub up: bool,
    /// Whether the epochs of links begin at numbers that are drawn, as in the daemon.
    pub drawn: bool,
    /// Whether a node sends what it has as soon as it has it. Else that waits as long as it likes, and several things that are due share a
    /// frame or are overtaken by a failure.
    pub eager: bool,
    /// What is built wrong.
    pub mutant: Mutant,
    /// Invariants that are not asked of it.
    pub excused: Vec<&'static str>,
}

impl Scenario {
    /// One cable between two nodes, one slot, nothing wished and nothing going wrong.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            nodes: 2,
            cables: vec![[0, 1]],
            wishes: Vec::new(),
            budget: Budget::default(),
            slots: 1,
            request_bytes: 1,
            silent_paces_max: 4,
            event_ratio: 32,
            records_max: u32::MAX,
            for_good: Vec::new(),
            up: true,
            drawn: false,
            eager: true,
            mutant: Mutant::None,
            excused: Vec::new(),
        }
    }

    /// The end of a cable that a node holds, if it holds one.
    #[must_use]
    pub fn end(&self, cable: usize, node: usize) -> Option<usize> {
        self.cables[cable].iter().position(|&end| end == node)
    }
}

/// All starts in which each of `ends` wishes one exchange, in one phase or in two, with one of `refused` attempts refused.
#[must_use]
pub fn every_wish(ends: &[[usize; 2]], refused: &[u8]) -> Vec<Vec<Wish>> {
    let mut sets = vec![Vec::new()];
    for &[from, to] in ends {
        sets = sets
            .iter()
            .flat_map(|set: &Vec<Wish>| {
                [Mode::TwoPhase, Mode::OnePhase]
                    .into_iter()
                    .flat_map(move |mode| {
                        refused.iter().map(move |&refused_attempt| {
                            let wish = Wish {
                                from,
                                to,
                                mode,
                                refused_attempt,
                            };
                            let mut set = set.clone();
                            set.push(wish);
                            set
                        })
                    })
            })
            .collect();
    }
    sets
}
