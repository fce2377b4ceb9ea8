//! The subject of a check: the cables, the exchanges that nodes want, and how often each fault may
//! happen.

use covalent_protocol::Mode;

use crate::mutant::Mutant;

/// One exchange that a node starts with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wish {
    /// The node that starts it.
    pub from: usize,
    /// The node that executes it.
    pub to: usize,
    /// In one phase or in two.
    pub mode: Mode,
    /// The attempt that the responder refuses, counted from 1 over all that it receives; 0 for
    /// none.
    pub refused_attempt: u8,
}

/// How often each event may happen that no exchange needs. Each count is a bound of the search.
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
    /// Times that the caller of each node reports that it receives nothing.
    pub quiets: u8,
    /// Times that the program of a node exits, and with it the callers that wait for its exchanges.
    pub cancels: u8,
    /// Forged frames, each of any kind in [`ALL`](crate::forgery::ALL) and at any end of a cable.
    pub forgeries: u8,
    /// Times that the second ends of the first two cables change places.
    pub moves: u8,
    /// Frames in flight that will arrive once more, behind all that are in flight with them.
    pub copies: u8,
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
    /// The wishes of the nodes: each of these sets is a start.
    pub wishes: Vec<Vec<Wish>>,
    /// Bounds of the other events.
    pub budget: Budget,
    /// Exchanges that each end may have open on a link.
    pub slots: u8,
    /// Bytes of each request. A request longer than
    /// [`covalent_protocol::wire::FRAME_PAYLOAD_BYTES_MAX`] takes several frames.
    pub request_bytes: u16,
    /// Ticks without a frame after which a link is declared dead.
    pub keepalive_misses_max: u32,
    /// Round trips of another link after which a link is declared dead.
    pub event_ratio: u32,
    /// The search follows runs until a record of an epoch has this number. Otherwise the keepalives
    /// that are exchanged while a link is being probed never end.
    pub records_max: u32,
    /// Cables that are never repaired once they are cut.
    pub for_good: Vec<usize>,
    /// Whether all links are up at the start. Otherwise they have a carrier, and no frame was sent.
    pub up: bool,
    /// Whether the epochs of links begin at numbers that are drawn, as in the daemon.
    pub drawn: bool,
    /// Whether a node sends data as soon as it has it. Otherwise the data waits for any time:
    /// several pending messages share a frame, or a failure overtakes them.
    pub eager: bool,
    /// The deliberate defect.
    pub mutant: Mutant,
    /// Invariants that are not checked.
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
            keepalive_misses_max: 4,
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

    /// Returns the end of a cable that a node holds, if it holds one.
    #[must_use]
    pub fn end(&self, cable: usize, node: usize) -> Option<usize> {
        self.cables[cable].iter().position(|&end| end == node)
    }
}

/// Returns all starts in which each of `ends` wishes one exchange, in one phase or in two, with one
/// of the `refused` attempts refused.
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
