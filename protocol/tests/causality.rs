//! Order without wall clocks: every event that a node knew of when it submitted or executed has a
//! smaller clock, for any nodes, order of frames and cuts. The executions of one node are counted
//! in their order.
#![allow(clippy::unwrap_used)]

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, LinkState, Mode, Moment, Name, Node,
    NodeConfig, Outcome, Refusal, Reply,
};
use proptest::prelude::*;

const NODES: usize = 3;
/// The two ends of each cable: all nodes see each other.
const CABLES: [[usize; 2]; 3] = [[0, 1], [1, 2], [2, 0]];
/// Exchanges of one run: a bit for each.
const EXCHANGES: usize = 120;

/// The exchanges known to be executed: one bit for each exchange.
type Known = u128;

/// The true state of all nodes, kept as the reference.
#[derive(Default)]
struct Truth {
    /// The knowledge of the submitter of each exchange at that time.
    submitted: Vec<Known>,
    /// When each exchange was executed, and by which node.
    executed: Vec<Option<(usize, Moment)>>,
    /// How many each node executed.
    counts: [u64; NODES],
}

impl Truth {
    fn submit(&mut self, known: Known) -> u64 {
        self.submitted.push(known);
        self.executed.push(None);
        self.submitted.len() as u64 - 1
    }

    /// The greatest clock among the exchanges in `known`.
    fn latest(&self, known: Known) -> u64 {
        let known = (0..self.executed.len()).filter(|id| known >> id & 1 == 1);
        let clocks = known.map(|id| {
            let (_, moment) = self.executed[id].expect("only executed verbs are known");
            moment.clock
        });
        clocks.max().unwrap_or(0)
    }

    fn execute(&mut self, node: usize, id: u64, moment: Moment, known: &mut Known) {
        let id = id as usize;
        *known |= self.submitted[id];
        let latest = self.latest(*known);
        assert!(
            moment.clock > latest,
            "{moment:?} of {id} comes after {latest}"
        );
        self.counts[node] += 1;
        assert_eq!(moment.count, self.counts[node], "of {id} at {node}");
        let before = self.executed[id].replace((node, moment));
        assert_eq!(before, None, "{id} is executed once");
        *known |= 1 << id;
    }
}

/// A program that includes in each exchange and each reply all that it knows.
struct Program {
    at: usize,
    known: Known,
    truth: Rc<RefCell<Truth>>,
    reported_clock: u64,
    ended: Vec<u64>,
}

fn number(payload: &[u8]) -> u64 {
    u64::from_le_bytes(*payload.first_chunk().unwrap())
}

impl Host for Program {
    fn admit(&mut self, _: &ExchangeId, _: Mode, payload: &[u8]) -> Result<(), Refusal> {
        match number(payload) % 7 {
            0 => Err(Refusal::Busy),
            _ => Ok(()),
        }
    }

    fn execute(&mut self, _: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        let id = number(payload);
        let moment = reply.moment();
        let mut truth = self.truth.borrow_mut();
        truth.execute(self.at, id, moment, &mut self.known);
        let reply_bytes = [&self.known.to_le_bytes()[..], &moment.clock.to_le_bytes()].concat();
        assert!(reply.set(&reply_bytes));
        Execution::Done
    }

    fn reverse(&mut self, _: &ExchangeId, _: &[u8]) {}

    fn on_clock(&mut self, clock: u64) {
        assert!(clock >= self.reported_clock);
        self.reported_clock = clock;
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        let truth = self.truth.borrow();
        match outcome {
            Outcome::Committed(reply) => {
                let (known, clock) = reply.split_at(16);
                self.known |= Known::from_le_bytes(known.try_into().unwrap());
                let (_, moment) = truth.executed[token as usize].expect("it was executed");
                assert_eq!(
                    moment.clock,
                    number(clock),
                    "the reply is that of the execution"
                );
            }
            Outcome::Refused(Refusal::Busy) => {}
            other => panic!("{other:?}"),
        }
        let latest = truth.latest(self.known);
        assert!(
            self.reported_clock > latest,
            "{} after {latest}",
            self.reported_clock
        );
        self.ended.push(token);
    }

    fn in_doubt(&mut self, _: u64, _: &ExchangeId) {}

    fn link_event(&mut self, _: LinkEvent) {}
}

struct Net {
    nodes: Vec<(Node, Program)>,
    truth: Rc<RefCell<Truth>>,
    /// Frames on each cable, by the end that they go to.
    cables: [[VecDeque<Vec<u8>>; 2]; 3],
    is_up: [bool; 3],
}

/// The port of `node` at `cable`.
fn port(cable: usize) -> u16 {
    cable as u16
}

impl Net {
    /// All links up; the clock of each node starts at its entry in `clocks`.
    fn up(clocks: [u64; NODES]) -> Self {
        let truth = Rc::new(RefCell::new(Truth::default()));
        let nodes = (0..NODES).map(|at| {
            let mut node = Node::new(NodeConfig {
                slots: 4,
                transactions_max: 2 * EXCHANGES,
                ..NodeConfig::new(10 + at as u64, 100 + at as u64, Name::new("node").unwrap())
            });
            for (cable, ends) in CABLES.iter().enumerate() {
                if ends.contains(&at) {
                    let mac = [2, 0, 0, 0, at as u8, cable as u8];
                    node.add_link(port(cable), mac).unwrap();
                }
            }
            node.observe(clocks[at]);
            let program = Program {
                at,
                known: 0,
                truth: truth.clone(),
                reported_clock: 0,
                ended: Vec::new(),
            };
            (node, program)
        });
        let mut net = Self {
            nodes: nodes.collect(),
            truth: truth.clone(),
            cables: Default::default(),
            is_up: [false; 3],
        };
        (0..CABLES.len()).for_each(|cable| net.carrier(cable, true));
        net.settle();
        for (node, _) in &net.nodes {
            assert!(node.links().all(|link| link.state == LinkState::Up));
        }
        net
    }

    fn carrier(&mut self, cable: usize, up: bool) {
        self.cables[cable].iter_mut().for_each(VecDeque::clear);
        self.is_up[cable] = up;
        for at in CABLES[cable] {
            let (node, program) = &mut self.nodes[at];
            node.on_carrier(port(cable), up, program);
        }
    }

    fn send(&mut self) {
        let mut buffer = [0; FRAME_BYTES_MAX];
        for (cable, ends) in CABLES.iter().enumerate() {
            for (end, &at) in ends.iter().enumerate() {
                while let Some(len) = self.nodes[at].0.poll_transmit(port(cable), &mut buffer) {
                    self.cables[cable][1 - end].push_back(buffer[..len].to_vec());
                }
            }
        }
    }

    /// One frame arrives at an end of a cable.
    fn deliver(&mut self, cable: usize, end: usize) -> bool {
        let Some(frame) = self.cables[cable][end].pop_front() else {
            return false;
        };
        let (node, program) = &mut self.nodes[CABLES[cable][end]];
        node.on_frame(port(cable), &frame, program);
        true
    }

    fn tick(&mut self) {
        for (node, program) in &mut self.nodes {
            node.on_tick(program);
        }
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.send();
            let mut moved = false;
            for cable in 0..CABLES.len() {
                moved |= self.deliver(cable, 0) | self.deliver(cable, 1);
            }
            if !moved {
                return;
            }
        }
        panic!("it never became quiescent");
    }

    /// The program at `from` submits an exchange to the node at `to`, which may be its own.
    fn request(&mut self, from: usize, to: usize, mode: Mode) {
        let (node, program) = &mut self.nodes[from];
        let id = self.truth.borrow_mut().submit(program.known);
        if from == to {
            let moment = node.execute_here();
            let mut truth = self.truth.borrow_mut();
            truth.execute(from, id, moment, &mut program.known);
            program.ended.push(id);
        } else {
            node.submit(10 + to as u64, mode, &id.to_le_bytes(), id)
                .unwrap();
        }
    }

    fn ended(&self) -> usize {
        self.nodes
            .iter()
            .map(|(_, program)| program.ended.len())
            .sum()
    }
}

const ERA: u64 = 1 << 32;

/// Where a clock starts: at nothing, shortly before its lower half wraps, eras ahead.
fn start() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        (0..300_u64).prop_map(|before| ERA - before),
        (1..5_u64, 0..300_u64).prop_map(|(eras, before)| eras * ERA - before),
        (0..1_u64 << 47),
    ]
}

proptest! {
    #[test]
    fn known_causes_have_smaller_clocks(
        clocks in [start(), start(), start()],
        choices in prop::collection::vec(any::<u16>(), 300..900),
    ) {
        let mut net = Net::up(clocks);
        let mut requests = 0;
        let calm = (0..6_u16).cycle().take(20_000);
        for (turn, choice) in choices.into_iter().chain(calm).enumerate() {
            let (what, value) = (choice % 32, usize::from(choice / 32));
            match what {
                8..=12 if requests < EXCHANGES => {
                    let mode = [Mode::OnePhase, Mode::TwoPhase][value % 2];
                    net.request(value / 2 % NODES, value / 6 % NODES, mode);
                    requests += 1;
                }
                13 => net.carrier(value % 3, false),
                14 | 15 => net.tick(),
                _ => {
                    net.deliver(usize::from(choice) % 3, usize::from(choice) / 3 % 2);
                }
            }
            if turn % 64 == 63 {
                for cable in 0..CABLES.len() {
                    if !net.is_up[cable] {
                        net.carrier(cable, true);
                    }
                }
                net.tick();
            }
            net.send();
            if turn > 900 && net.ended() == requests {
                break;
            }
        }
        prop_assert_eq!(net.ended(), requests);
    }
}

#[test]
fn an_era_is_sent_only_together_with_a_message() {
    let mut net = Net::up([0; NODES]);
    let mut buffer = [0; FRAME_BYTES_MAX];
    let (node, _) = &mut net.nodes[0];
    node.observe(9 * ERA);
    assert!(!node.has_work(port(0)));
    assert_eq!(node.poll_transmit(port(0), &mut buffer), None);
    net.request(0, 1, Mode::OnePhase);
    let (node, _) = &net.nodes[0];
    assert!(node.has_work(port(0)));
    net.settle();
    assert_eq!(net.ended(), 1);
}

/// A chain over three nodes: the first is eras ahead of the others, and they receive nothing of it
/// but its reply.
#[test]
fn a_node_that_meets_a_clock_far_ahead_orders_its_executions_after_it() {
    for ahead in [0, ERA - 20, ERA, 7 * ERA + 5, (1 << 40) - 3] {
        let mut net = Net::up([ahead, 0, 0]);
        for (from, to) in [(1, 0), (2, 1), (1, 2), (2, 2), (0, 2), (1, 1)] {
            for mode in [Mode::OnePhase, Mode::TwoPhase] {
                net.request(from, to, mode);
                net.settle();
            }
        }
        assert_eq!(net.ended(), 12);
        let truth = net.truth.borrow();
        let clocks = truth
            .executed
            .iter()
            .flatten()
            .map(|(_, moment)| moment.clock);
        assert!(clocks.max() > Some(ahead));
    }
}
