//! Nodes, cables and the events between them.

use std::fmt;

use covalent_protocol::{
    FRAME_BYTES_MAX, LinkEvent, LinkState, Mode, Name, Node, NodeConfig, SubmitError,
};
use fastrand::Rng;

use crate::{
    cable::{Cable, End, Fate},
    ledger::{ACCOUNTS, Ask, BYTES_MIN, Ended, Exchange, Ledger, Life},
    plan::{FrameFaults, Plan},
    program::Program,
};

/// Paces after the last fault within which everything must have come to its end.
const PACES_TO_REST: u32 = 200;
/// Frames between two paces beyond which the nodes are held to talk for ever.
const FRAMES_PER_PACE_MAX: u32 = 20_000;
/// Lines of history that a failure shows.
const HISTORY_SHOWN: usize = 100;
/// No faults.
const WHOLE: FrameFaults = FrameFaults {
    lost: 0,
    corrupted: 0,
    duplicated: 0,
};

/// Something that may happen to a world.
type Event = fn(&mut World);

/// What a run that held did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Exchanges asked for.
    pub asked: u64,
    /// Exchanges that committed.
    pub committed: u64,
    /// Exchanges that were refused.
    pub refused: u64,
    /// Exchanges whose peer restarted.
    pub restarted: u64,
    /// Exchanges reversed and applied afresh.
    pub reversed: u64,
    /// Exchanges whose end was learned by asking.
    pub resolved: u64,
    /// Requests that arrived after their outcome was latched.
    pub late: u64,
    /// Links that failed.
    pub failures: u64,
    /// Frames that arrived.
    pub frames: u64,
    /// Nodes that crashed.
    pub crashes: u64,
    /// Exchanges that a peer forgot because it met too many others.
    pub forgotten: u64,
    /// Links whose epoch counted through its wrap.
    pub wrapped: u64,
    /// Exchanges that are in doubt for want of a cable when everything else has come to its end.
    pub in_doubt: u64,
}

/// A run in which a promise was broken.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed that replays it.
    pub seed: u64,
    /// What was broken.
    pub what: String,
    /// The end of its history; empty unless it was recorded.
    pub history: Vec<String>,
}

/// Nodes and cables.
pub struct World {
    plan: Plan,
    rng: Rng,
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    /// Ports without a cable.
    spares: Vec<End>,
    ledger: Ledger,
    report: Report,
    /// The swap of the plan is in effect.
    swapped: bool,
    /// What happened, if it is recorded.
    history: Option<Vec<String>>,
}

/// Runs a seed to its end.
///
/// # Errors
/// What was broken, with the seed.
pub fn run(seed: u64) -> Result<Report, Failure> {
    World::new(seed, false).run(seed)
}

impl World {
    /// The world of a seed, before its first event. `record` keeps a history.
    #[must_use]
    pub fn new(seed: u64, record: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let plan = Plan::new(&mut rng);
        let mut ports = vec![0; plan.nodes];
        let mut end = |node: usize| {
            let port = ports[node];
            ports[node] += 1;
            End {
                node,
                port,
                carrier: false,
            }
        };
        let spares: Vec<End> = plan.spares.iter().map(|&node| end(node)).collect();
        let cables = plan
            .cables
            .iter()
            .map(|&[a, b]| Cable::new([end(a), end(b)]))
            .collect();
        let mut world = Self {
            ledger: Ledger::new(plan.nodes, if plan.spares.is_empty() { &[] } else { &[0] }),
            spares,
            plan,
            rng,
            nodes: Vec::new(),
            cables,
            report: Report::default(),
            swapped: false,
            history: record.then(Vec::new),
        };
        world.nodes = (0..world.plan.nodes)
            .map(|node| world.make_node(node))
            .collect();
        for cable in 0..world.cables.len() {
            for end in [0, 1] {
                world.set_carrier(cable, end, true);
            }
        }
        world
    }

    /// Lets everything happen that the plan says, then stops the faults and holds the end against the ledger.
    ///
    /// # Errors
    /// What was broken, under the name of `seed`.
    pub fn run(mut self, seed: u64) -> Result<Report, Failure> {
        self.note(|world| format!("{:?}", world.plan));
        for _ in 0..self.plan.steps {
            self.step();
            if self.ledger.violation().is_some() {
                return Err(self.failure(seed));
            }
        }
        self.come_to_rest();
        if self.ledger.violation().is_none() {
            let cabled = |from, to| Self::cabled(&self.cables, from, to);
            self.ledger.close(cabled);
        }
        if self.ledger.violation().is_some() {
            Err(self.failure(seed))
        } else {
            Ok(self.finish())
        }
    }

    /// One event.
    fn step(&mut self) {
        let weights = self.plan.weights.clone();
        let events: [(u32, Event); 12] = [
            (weights.submit, Self::submit),
            (weights.transmit, Self::transmit_somewhere),
            (weights.deliver, Self::deliver_somewhere),
            (weights.tick, Self::tick_somewhere),
            (weights.cut, Self::cut),
            (weights.heal, Self::heal),
            (weights.carrier, Self::carrier),
            (weights.transmit_failed, Self::transmit_failed),
            (weights.cancel, Self::cancel),
            (weights.crash, Self::crash),
            (weights.swap, Self::swap),
            (weights.noise, Self::noise),
        ];
        let total: u32 = events.iter().map(|(weight, _)| weight).sum();
        let mut draw = self.rng.u32(..total);
        for (weight, event) in events {
            if draw < weight {
                return event(self);
            }
            draw -= weight;
        }
    }

    fn submit(&mut self) {
        let from = self.rng.usize(..self.nodes.len());
        let to = (from + self.rng.usize(1..self.nodes.len())) % self.nodes.len();
        self.ask(from, to);
    }

    fn ask(&mut self, from: usize, to: usize) {
        if from == 0 && !self.plan.hub_asks {
            return;
        }
        let mode = if self.rng.u8(..10) < self.plan.two_phase_in_ten {
            Mode::TwoPhase
        } else {
            Mode::OnePhase
        };
        let ask = if self.rng.bool() {
            Ask::Count
        } else {
            Ask::Transfer {
                from: self.rng.usize(..ACCOUNTS),
                to: self.rng.usize(..ACCOUNTS),
                amount: self.rng.i64(1..100),
            }
        };
        let exchange = Exchange {
            from: self.ledger.life(from),
            to: self.known_life(from, to),
            mode,
            ask,
            request_bytes: self.rng.usize(BYTES_MIN..=self.plan.payload_bytes_max),
            reply_bytes: self.rng.usize(BYTES_MIN..=self.plan.payload_bytes_max),
            executed: None,
            ended: None,
            cancelled: false,
        };
        let (token, request) = self.ledger.ask(exchange);
        match self.nodes[from].submit(guid(to), mode, &request, token) {
            Ok(()) => self.note(|_| {
                format!("node {from} asks node {to}, exchange {token}, {mode:?}, {ask:?}")
            }),
            Err(SubmitError::Full | SubmitError::NoSuchPeer) => self.ledger.take_back(),
            Err(error) => self
                .ledger
                .blame(format!("exchange {token} was not taken: {error}")),
        }
    }

    fn transmit_somewhere(&mut self) {
        let (cable, end) = self.some_end();
        self.transmit(cable, end);
    }

    /// The port at an end of a cable gives out a frame.
    fn transmit(&mut self, cable: usize, end: usize) -> bool {
        let End { node, port, .. } = self.cables[cable].ends[end];
        let mut buffer = [0; FRAME_BYTES_MAX];
        let has_work = self.nodes[node].has_work(port);
        let Some(len) = self.nodes[node].poll_transmit(port, &mut buffer) else {
            return false;
        };
        if !has_work {
            self.ledger.blame(format!(
                "node {node} had a frame for port {port} but said that it had no work"
            ));
        }
        let faults = self.plan.frames.clone();
        let fate = self.cables[cable].give(1 - end, buffer[..len].to_vec(), &faults, &mut self.rng);
        self.note(|_| {
            let fate = if fate == Fate::UnderWay {
                String::new()
            } else {
                format!(", {fate:?}")
            };
            format!(
                "node {node} port {port} sends {}{fate}",
                kinds(&buffer[..len])
            )
        });
        true
    }

    fn deliver_somewhere(&mut self) {
        let (cable, end) = self.some_end();
        self.deliver(cable, end);
    }

    /// A frame arrives at an end of a cable.
    fn deliver(&mut self, cable: usize, end: usize) -> bool {
        let faults = self.plan.frames.clone();
        let Some((frame, again)) = self.cables[cable].take(end, &faults, &mut self.rng) else {
            return false;
        };
        let End { node, port, .. } = self.cables[cable].ends[end];
        self.note(|_| {
            format!(
                "node {node} port {port} hears {}{}",
                kinds(&frame),
                if again { ", not the last time" } else { "" }
            )
        });
        self.report.frames += 1;
        self.with(node, |node, program| node.on_frame(port, &frame, program));
        true
    }

    fn tick_somewhere(&mut self) {
        let node = self.rng.usize(..self.nodes.len());
        self.note(|_| format!("node {node} ticks"));
        self.with(node, |node, program| node.on_tick(program));
    }

    fn cut(&mut self) {
        let (cable, end) = self.some_end();
        let both = self.rng.bool();
        let loses = self.rng.bool();
        self.note(|_| {
            format!(
                "cable {cable} is cut towards {}",
                if both {
                    "both ends".into()
                } else {
                    end.to_string()
                }
            )
        });
        self.cables[cable].cut[end] = true;
        self.cables[cable].cut[1 - end] |= both;
        if loses {
            self.cables[cable].lose();
        }
        // Often, but not always, the ports notice.
        for end in [0, 1] {
            if self.rng.bool() {
                self.set_carrier(cable, end, false);
            }
        }
    }

    fn heal(&mut self) {
        let cable = self.rng.usize(..self.cables.len());
        self.note(|_| format!("cable {cable} is whole"));
        self.cables[cable].cut = [false; 2];
        for end in [0, 1] {
            self.set_carrier(cable, end, true);
        }
    }

    fn carrier(&mut self) {
        let (cable, end) = self.some_end();
        let up = !self.cables[cable].ends[end].carrier;
        self.set_carrier(cable, end, up);
    }

    fn set_carrier(&mut self, cable: usize, end: usize, up: bool) {
        self.cables[cable].ends[end].carrier = up;
        let End { node, port, .. } = self.cables[cable].ends[end];
        self.note(|_| {
            format!(
                "node {node} port {port} {} its carrier",
                if up { "finds" } else { "loses" }
            )
        });
        self.with(node, |node, program| node.on_carrier(port, up, program));
    }

    fn transmit_failed(&mut self) {
        let (cable, end) = self.some_end();
        let End { node, port, .. } = self.cables[cable].ends[end];
        self.note(|_| format!("node {node} port {port} cannot transmit"));
        self.with(node, |node, program| node.on_transmit_failed(port, program));
    }

    fn cancel(&mut self) {
        let Some(last) = self.ledger.exchanges().len().checked_sub(1) else {
            return;
        };
        let token = self.rng.usize(last.saturating_sub(20)..=last) as u64;
        let node = self.ledger.exchanges()[token as usize].from.node;
        self.note(|_| format!("node {node} does not care about exchange {token}"));
        self.ledger.cancel(token);
        self.nodes[node].cancel_interest(|open| open == token);
    }

    fn crash(&mut self) {
        let node = self.rng.usize(..self.nodes.len());
        self.note(|_| format!("node {node} loses its memory"));
        self.report.crashes += 1;
        self.collect(node);
        self.ledger.crash(node);
        self.nodes[node] = self.make_node(node);
        for cable in 0..self.cables.len() {
            for end in [0, 1] {
                let End {
                    node: at,
                    port,
                    carrier,
                } = self.cables[cable].ends[end];
                if at == node && carrier {
                    self.with(node, |node, program| node.on_carrier(port, true, program));
                }
            }
        }
    }

    fn swap(&mut self) {
        if !self.spares.is_empty() {
            return self.replug();
        }
        let Some([first, second]) = self.plan.swap else {
            return;
        };
        self.note(|_| format!("cables {first} and {second} are swapped"));
        for cable in [first, second] {
            for end in [0, 1] {
                self.set_carrier(cable, end, false);
            }
            self.cables[cable].lose();
        }
        let ends = [self.cables[first].ends[1], self.cables[second].ends[1]];
        (self.cables[first].ends[1], self.cables[second].ends[1]) = (ends[1], ends[0]);
        self.swapped = !self.swapped;
        for cable in [first, second] {
            for end in [0, 1] {
                self.set_carrier(cable, end, true);
            }
        }
    }

    /// The far end of cable 0 goes to another node.
    fn replug(&mut self) {
        let spare = self.rng.usize(..self.spares.len());
        for end in [0, 1] {
            self.set_carrier(0, end, false);
        }
        self.cables[0].lose();
        std::mem::swap(&mut self.cables[0].ends[1], &mut self.spares[spare]);
        let node = self.cables[0].ends[1].node;
        self.note(|_| format!("cable 0 leads to node {node}"));
        for end in [0, 1] {
            self.set_carrier(0, end, true);
        }
    }

    fn noise(&mut self) {
        let (cable, end) = self.some_end();
        let End { node, port, .. } = self.cables[cable].ends[end];
        let len = self.rng.usize(..1600);
        let mut frame: Vec<u8> = (0..len).map(|_| self.rng.u8(..)).collect();
        if let Some(ethertype) = frame.get_mut(12..14) {
            ethertype.copy_from_slice(&covalent_protocol::DEFAULT_ETHERTYPE.to_be_bytes());
        }
        self.note(|_| format!("node {node} port {port} hears noise"));
        self.with(node, |node, program| node.on_frame(port, &frame, program));
    }

    /// Stops the faults and lets everything come to its end.
    fn come_to_rest(&mut self) {
        self.note(|_| "the faults stop".into());
        self.plan.frames = WHOLE;
        if self.swapped {
            self.swap();
        }
        for cable in 0..self.cables.len() {
            self.cables[cable].cut = [false; 2];
            for end in [0, 1] {
                self.set_carrier(cable, end, true);
            }
        }
        // Whatever happened, those that are cabled must be able to use every slot.
        for cable in 0..self.cables.len() {
            let [a, b] = self.cables[cable].ends.map(|end| end.node);
            for _ in 0..=self.plan.slots.min(4) {
                self.ask(a, b);
                self.ask(b, a);
            }
        }
        for _ in 0..PACES_TO_REST {
            for node in 0..self.nodes.len() {
                self.with(node, |node, program| node.on_tick(program));
            }
            self.carry_everything();
            if self.ledger.violation().is_some() || self.at_rest() {
                return;
            }
        }
        let links: Vec<_> = self
            .nodes
            .iter()
            .flat_map(Node::links)
            .map(|link| (link.port, link.state))
            .collect();
        self.ledger.blame(format!(
            "no rest within {PACES_TO_REST} paces of the last fault: {links:?}"
        ));
    }

    fn carry_everything(&mut self) {
        for _ in 0..FRAMES_PER_PACE_MAX {
            let mut moved = false;
            for cable in 0..self.cables.len() {
                for end in [0, 1] {
                    moved |= self.transmit(cable, end);
                    moved |= self.deliver(cable, end);
                }
            }
            if !moved {
                return;
            }
        }
        self.ledger.blame(format!(
            "more than {FRAMES_PER_PACE_MAX} rounds of frames between two paces"
        ));
    }

    /// Every link is up, both ends hold the same epoch, and nothing is open.
    fn at_rest(&self) -> bool {
        let up = |end: &End| {
            self.nodes[end.node]
                .links()
                .any(|link| link.port == end.port && link.state == LinkState::Up)
        };
        // Where each cable leads to the same nodes as ever, nothing at all may be left.
        let idle = |node: &Node| {
            !self.spares.is_empty()
                || (node.links().all(|link| link.open_transactions == 0)
                    && node.in_doubt() == 0
                    && node.room() as usize == self.plan.transactions_max)
        };
        let waits = |exchange: &Exchange| {
            self.ledger.is_waited_for(exchange)
                && Self::cabled(&self.cables, exchange.from.node, exchange.to.node)
        };
        let epoch = |end: &End| {
            self.nodes[end.node]
                .links()
                .find(|link| link.port == end.port)
                .map(|link| link.epoch)
        };
        self.nodes.iter().all(idle)
            && self.cables.iter().flat_map(|cable| &cable.ends).all(up)
            && !self.ledger.exchanges().iter().any(waits)
            && self
                .cables
                .iter()
                .all(|cable| epoch(&cable.ends[0]) == epoch(&cable.ends[1]))
    }

    /// Whether a cable leads from one node to the other.
    fn cabled(cables: &[Cable], from: usize, to: usize) -> bool {
        cables.iter().any(|cable| {
            let ends = cable.ends.map(|end| end.node);
            ends == [from, to] || ends == [to, from]
        })
    }

    /// Calls a node with its program.
    fn with(&mut self, node: usize, call: impl FnOnce(&mut Node, &mut Program<'_>)) {
        let mut events = Vec::new();
        let mut program = Program {
            node,
            ledger: &mut self.ledger,
            rng: &mut self.rng,
            events: &mut events,
        };
        call(&mut self.nodes[node], &mut program);
        for event in events {
            if let LinkEvent::Down { .. } = event {
                self.report.failures += 1;
            }
            self.note(|_| format!("node {node}: {event:?}"));
        }
    }

    /// Adds up what a node counted, before it is gone.
    fn collect(&mut self, node: usize) {
        for link in self.nodes[node].links() {
            self.report.reversed += link.counters.reversed;
            self.report.resolved += link.counters.resolved;
            self.report.late += link.counters.drops.late;
            self.report.wrapped += u64::from(link.epoch < self.plan.first_sequence);
        }
    }

    fn finish(mut self) -> Report {
        for node in 0..self.nodes.len() {
            self.collect(node);
            self.report.in_doubt += self.nodes[node].in_doubt();
        }
        self.report.forgotten = self.ledger.forgotten();
        let ended = |how| {
            self.ledger
                .exchanges()
                .iter()
                .filter(|exchange| exchange.ended == Some(how))
                .count() as u64
        };
        Report {
            asked: self.ledger.exchanges().len() as u64,
            committed: ended(Ended::Committed),
            refused: ended(Ended::Refused),
            restarted: ended(Ended::Restarted),
            ..self.report
        }
    }

    fn make_node(&mut self, at: usize) -> Node {
        let incarnation = u64::from(self.ledger.life(at).number) << 32 | 1;
        let name = Name::new(["a", "b", "c", "d", "e", "f"][at])
            .unwrap_or_else(|error| unreachable!("{error}"));
        let mut node = Node::new(NodeConfig {
            slots: self.plan.slots,
            silent_paces_max: self.plan.silent_paces_max,
            transactions_max: self.plan.transactions_max,
            message_bytes_max: self.plan.payload_bytes_max as u16,
            first_sequence: self.plan.first_sequence,
            ..NodeConfig::new(guid(at), incarnation, name)
        });
        let mut ports: Vec<u16> = self
            .cables
            .iter()
            .flat_map(|cable| cable.ends)
            .chain(self.spares.iter().copied())
            .filter(|end| end.node == at)
            .map(|end| end.port)
            .collect();
        ports.sort_unstable();
        for port in ports {
            let added = node.add_link(port, [2, 0, 0, 0, at as u8, port as u8]);
            debug_assert_eq!(added, Ok(()));
        }
        node
    }

    /// The life of the node `of` that the node `at` last shook hands with.
    fn known_life(&self, at: usize, of: usize) -> Life {
        let incarnation = self.nodes[at]
            .peers()
            .find(|peer| peer.guid == guid(of))
            .map_or(0, |peer| peer.incarnation);
        Life {
            node: of,
            number: (incarnation >> 32) as u32,
        }
    }

    fn some_end(&mut self) -> (usize, usize) {
        (self.rng.usize(..self.cables.len()), self.rng.usize(..2))
    }

    fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.history.is_some() {
            let line = line(self);
            self.history.get_or_insert_default().push(line);
        }
    }

    fn failure(self, seed: u64) -> Failure {
        let mut history = self.history.unwrap_or_default();
        history.drain(..history.len().saturating_sub(HISTORY_SHOWN));
        Failure {
            seed,
            what: self.ledger.violation().unwrap_or_default().to_owned(),
            history,
        }
    }
}

const fn guid(node: usize) -> u64 {
    node as u64 + 1
}

/// The kinds of the messages in a frame, for people.
fn kinds(frame: &[u8]) -> String {
    use covalent_protocol::wire::{frame, message::Message};
    let Ok(mut records) = frame::parse(frame, covalent_protocol::DEFAULT_ETHERTYPE) else {
        return "rubbish".into();
    };
    let mut names = Vec::new();
    while !records.is_empty() {
        let Ok((message, rest)) = Message::split(records) else {
            names.push("?".into());
            break;
        };
        let header = message.header;
        names.push(format!(
            "{:?} e{} r{} s{}:{}",
            header.kind, header.epoch, header.record_sequence, header.slot, header.slot_sequence
        ));
        records = rest;
    }
    names.join(", ")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.history {
            writeln!(f, "  {line}")?;
        }
        write!(
            f,
            "seed {}: {}\n  replay: COVALENT_SIM_SEED={} cargo test -p covalent-sim",
            self.seed, self.what, self.seed
        )
    }
}

impl std::error::Error for Failure {}
