//! Nodes, cables and their faults.
//!
//! | file | contents |
//! |---|---|
//! | here | nodes and cables, and the steps that they take |
//! | `lead` | operations for a driver that controls a world |
//! | `events` | one event after the other, as the plan weighs them |
//! | `beside` | a liar at its own cable |
//! | `hit` | registers and records in flight become arbitrary |
//! | `rest` | the faults stop and everything completes |

mod beside;
mod events;
mod hit;
mod lead;
mod rest;

use covalent_protocol::{FRAME_BYTES_MAX, Mode, Name, Node, NodeConfig, SubmitError};
use fastrand::Rng;

use crate::{
    book::{Ended, Exchange, NodeIncarnation},
    cable::{Cable, End, FrameOutcome},
    fact::{Fact, Place, Subject},
    harness::{Entry, Failure, Simulator},
    incarnation,
    journal::LastBatch,
    liar::Liar,
    mutant::Mutant,
    node_guid, node_name,
    operation::Operation,
    options::Options,
    payload,
    plan::Plan,
    program::{Deferred, Program, QUESTION},
    records::Content,
    region,
    report::Report,
    witness::Witness,
};

/// Requests in a thousand that a node refuses although it could serve them.
const REFUSED: u32 = 31;

/// Times that a world comes to rest after its faults have stopped.
const ROUNDS: u32 = 3;

/// Nodes and cables.
pub struct World {
    plan: Plan,
    options: Options,
    rng: Rng,
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    liar: Option<Liar>,
    /// Ports without a cable.
    spares: Vec<End>,
    witness: Witness,
    report: Report,
    /// The swap of the plan is in effect.
    swapped: bool,
    /// Until which event each node stands still.
    stalled_until: Vec<u32>,
    /// Step at which the faults pause, so that everything completes after arbitrary registers.
    unsettled_until: Option<u32>,
    /// Requests in a thousand that are refused.
    refused: u32,
    buffer: Box<[u8; FRAME_BYTES_MAX]>,
}

/// Runs a seed to its end.
///
/// # Errors
/// Returns the broken invariant with the seed.
pub fn run(seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    options.run(seed)
}

impl World {
    /// The world of a seed, before its first event. `record` keeps a trace.
    #[must_use]
    pub fn new(seed: u64, options: &Options, record: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut plan = Plan::new(&mut rng, options);
        match options.mutant {
            Some(Mutant::Reordering) => plan.frames.reordered = 60,
            Some(Mutant::CorruptsUnnoticed) => plan.frames.forged = 10,
            _ => {}
        }
        Self::with_plan(plan, options.clone(), rng, record)
    }

    fn with_plan(plan: Plan, options: Options, rng: Rng, record: bool) -> Self {
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
            witness: Witness::new(&plan, record),
            stalled_until: vec![0; plan.nodes],
            spares,
            plan,
            options,
            rng,
            nodes: Vec::new(),
            liar: None,
            cables,
            report: Report::default(),
            swapped: false,
            unsettled_until: None,
            refused: REFUSED,
            buffer: Box::new([0; FRAME_BYTES_MAX]),
        };
        world.nodes = (0..world.plan.nodes)
            .map(|node| world.make_node(node))
            .collect();
        if world.plan.weights.lie > 0 {
            world.add_liar();
        }
        for cable in 0..world.cables.len() {
            for end in [0, 1] {
                world.set_carrier(cable, end, true);
            }
        }
        world
    }

    /// Returns the plan of the seed.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Executes the plan, then stops the faults and lets everything complete. Returns the result
    /// under the name of `seed`, and the trace if it was recorded.
    pub fn run(mut self, seed: u64) -> (Result<Report, Box<Failure>>, Vec<Entry<Subject>>) {
        if self.plan.arbitrary {
            self.begin_arbitrary();
        }
        for step in 0..self.plan.steps {
            self.witness.step = step;
            self.event();
            if self.unsettled_until.is_some_and(|until| step >= until) {
                self.converge();
            }
            if self.witness.violation().is_some() {
                break;
            }
        }
        if self.unsettled_until.is_some() && self.witness.violation().is_none() {
            self.converge();
        }
        if self.witness.violation().is_none() {
            self.come_to_rest(ROUNDS);
        }
        let result = match self.witness.violation().cloned() {
            None => Ok(self.finish()),
            Some(violation) => Err(Box::new(Failure {
                seed,
                replay: self.options.command(seed),
                when: format!("step {}", violation.when),
                violation,
            })),
        };
        (result, self.witness.into_trace())
    }

    /// Submits a request that the seed picks from `from` to `to`.
    pub(crate) fn submit_random(&mut self, from: usize, to: usize) {
        if from == 0 && !self.plan.hub_initiates {
            return;
        }
        let mode = if self.rng.u8(..10) < self.plan.two_phase_in_ten {
            Mode::TwoPhase
        } else {
            Mode::OnePhase
        };
        let longest = self.plan.payload_bytes_max;
        let mut words = region::words(&self.witness.regions[to]);
        if self.rng.u8(..8) == 0 {
            // The initiator's view of the region is outdated.
            words[region::FIRST_ACCOUNT..].rotate_left(1);
        }
        let operation = Operation::draw(
            &mut self.rng,
            &words,
            longest.saturating_sub(payload::REQUEST_HEADER_BYTES),
        );
        let request_bytes = self.rng.usize(..=longest);
        let reply_bytes = self.rng.usize(..=longest);
        self.submit(from, to, mode, operation, request_bytes, reply_bytes);
    }

    /// Submits `operation` from `from` to `to`, in messages of at least the given sizes, larger if
    /// needed. Returns the token.
    pub(crate) fn submit(
        &mut self,
        from: usize,
        to: usize,
        mode: Mode,
        operation: Operation,
        request_bytes: usize,
        reply_bytes: usize,
    ) -> Option<u64> {
        let token = self.witness.book.next_token();
        let request = payload::request(token, &operation.encode(), request_bytes);
        // Frames leave later, so no frame about the exchange arrives before it is in the book.
        match self.nodes[from].submit(node_guid(to), mode, &request, token) {
            Ok(()) => {}
            Err(SubmitError::Full | SubmitError::NoSuchPeer) => return None,
            Err(error) => unreachable!("no request is longer than a node takes: {error}"),
        }
        let exchange = Exchange {
            from: self.witness.book.node_incarnation(from),
            to: self.known_incarnation(from, to),
            mode,
            operation,
            request,
            reply_bytes,
            executed: None,
            ended: None,
            sent_on: None,
            name: None,
            canceled: false,
            loose: false,
        };
        self.witness.see(Fact::Requested { token, exchange });
        Some(token)
    }

    /// The program that submitted an exchange queries it by its name.
    pub(crate) fn query_outcome(&mut self, token: u64) {
        let Some(exchange) = self.witness.book.exchange(token) else {
            return;
        };
        let (by, Some(name)) = (exchange.from, exchange.name) else {
            return;
        };
        let question = self.witness.book.questions().len() as u64;
        self.report.asked_again += 1;
        self.witness.see(Fact::Queried {
            by,
            question,
            token,
        });
        let mut taken = true;
        self.with(by.node, |node, program| {
            taken = node.query(&name, QUESTION | question, program).is_ok();
        });
        if !taken {
            self.witness.see(Fact::QueryRefused { question });
        }
    }

    /// The port at an end of a cable gives out a frame.
    pub(crate) fn transmit(&mut self, cable: usize, end: usize) -> bool {
        let End { node, port, .. } = self.cables[cable].ends[end];
        let announced = self.nodes[node].has_work(port);
        let Some(len) = self.nodes[node].poll_transmit(port, &mut self.buffer[..]) else {
            return false;
        };
        let frame = &self.buffer[..len];
        let frame_outcome =
            self.cables[cable].give(1 - end, frame.to_vec(), &self.plan.frames, &mut self.rng);
        self.report.damaged += u64::from(frame_outcome != FrameOutcome::InFlight);
        let in_flight = Content::of(frame).map_or(0, |content| {
            self.cables[cable].records_in_flight(1 - end, content.epoch)
        });
        self.witness.see(Fact::Sent {
            from: Place {
                cable,
                end,
                node,
                port,
            },
            frame,
            frame_outcome,
            in_flight,
            announced,
        });
        true
    }

    /// A frame arrives at an end of a cable.
    pub(crate) fn deliver(&mut self, cable: usize, end: usize) -> bool {
        let taken = self.cables[cable].take(end, &self.plan.frames, &mut self.rng);
        let Some((frame, repeated)) = taken else {
            return false;
        };
        let at = self.place(cable, end);
        self.report.frames += 1;
        self.witness.see(Fact::Received {
            at,
            frame: &frame,
            repeated,
        });
        self.witness.receiving = true;
        self.with(at.node, |node, program| {
            node.on_frame(at.port, &frame, program);
        });
        self.witness.receiving = false;
        true
    }

    /// Ticks a node.
    pub(crate) fn tick(&mut self, node: usize) {
        self.witness.see(Fact::Ticked { node });
        self.with(node, |node, program| node.on_tick(program));
    }

    /// A node's lane received nothing for a while, and notifies the node.
    pub(crate) fn quiet(&mut self, node: usize) {
        self.witness.see(Fact::Quiet { node });
        self.with(node, |node, _| node.on_quiet());
    }

    /// A cable drops everything from now on towards the ends that `towards` names, and the frames
    /// in flight if `loses`.
    pub(crate) fn cut(&mut self, cable: usize, towards: [bool; 2], loses: bool) {
        self.report.cuts += 1;
        let epochs: Vec<u32> = self.cables[cable].epochs_in_flight().collect();
        self.witness.see(Fact::Cut {
            cable,
            towards,
            lost_epochs: loses.then_some(&epochs),
        });
        for end in [0, 1] {
            self.cables[cable].cut[end] |= towards[end];
        }
        if loses {
            self.cables[cable].lose();
        }
    }

    /// A cable is whole again, and both of its ports see it.
    pub(crate) fn heal(&mut self, cable: usize) {
        self.witness.see(Fact::Healed { cable });
        self.cables[cable].cut = [false; 2];
        for end in [0, 1] {
            self.set_carrier(cable, end, true);
        }
    }

    pub(crate) fn set_carrier(&mut self, cable: usize, end: usize, up: bool) {
        let at = self.place(cable, end);
        if std::mem::replace(&mut self.cables[cable].ends[end].carrier, up) == up {
            return;
        }
        self.witness.see(Fact::Carrier { at, up });
        self.with(at.node, |node, program| {
            node.on_carrier(at.port, up, program);
        });
    }

    pub(crate) fn crash(&mut self, node: usize) {
        self.report.crashes += 1;
        self.collect(node);
        let at = self.cables_of(node);
        self.witness.see(Fact::Crashed { node, cables: &at });
        self.start(node, &at);
    }

    /// Restarts a node with its journal.
    pub(crate) fn restart(&mut self, node: usize, last: LastBatch) {
        let tears = self.options.mutant == Some(Mutant::TearsCommits);
        let Some(journal) = &mut self.witness.journals[node] else {
            return;
        };
        self.report.restarts += 1;
        let before = journal.last();
        let words = journal.replay(last, tears);
        let durable = journal.durable();
        self.report.unwritten += before - durable;
        self.collect(node);
        let at = self.cables_of(node);
        self.witness.see(Fact::Restarted {
            node,
            cables: &at,
            words: &words,
        });
        self.start(node, &at);
        self.nodes[node].on_durable(durable);
    }

    /// The disk of a node completes its write, and starts to write what was appended since. Returns
    /// whether there was anything.
    pub(crate) fn sync(&mut self, node: usize) -> bool {
        let Some(journal) = &mut self.witness.journals[node] else {
            return false;
        };
        let was_busy = journal.is_busy();
        journal.sync();
        journal.submit();
        let (durable, last) = (journal.durable(), journal.last());
        if was_busy {
            self.witness.see(Fact::Synced {
                node,
                durable,
                last,
            });
            self.with(node, |node, _| node.on_durable(durable));
        }
        was_busy
    }

    /// Begins an incarnation of a node, at these cables.
    fn start(&mut self, node: usize, cables: &[usize]) {
        self.nodes[node] = self.make_node(node);
        self.plug_liar(node);
        for &cable in cables {
            for end in [0, 1] {
                let End {
                    node: here,
                    port,
                    carrier,
                } = self.cables[cable].ends[end];
                if here == node && carrier {
                    self.with(node, |node, program| node.on_carrier(port, true, program));
                }
            }
        }
    }

    fn cables_of(&self, node: usize) -> Vec<usize> {
        (0..self.cables.len())
            .filter(|cable| self.cables[*cable].ends.iter().any(|end| end.node == node))
            .collect()
    }

    fn place(&self, cable: usize, end: usize) -> Place {
        let End { node, port, .. } = self.cables[cable].ends[end];
        Place {
            cable,
            end,
            node,
            port,
        }
    }

    /// Whether a cable leads from one node to the other.
    fn cabled(cables: &[Cable], from: usize, to: usize) -> bool {
        cables.iter().any(|cable| {
            let ends = cable.ends.map(|end| end.node);
            ends == [from, to] || ends == [to, from]
        })
    }

    /// Calls a node with its program.
    fn with(&mut self, at: usize, call: impl FnOnce(&mut Node, &mut Program<'_>)) {
        let mut deferred = Vec::new();
        self.witness.call += 1;
        let mut program = Program {
            node: at,
            witness: &mut self.witness,
            rng: &mut self.rng,
            cables: &self.cables,
            mutant: self.options.mutant,
            clock: 0,
            refused: self.refused,
            deferred: &mut deferred,
        };
        call(&mut self.nodes[at], &mut program);
        for then in deferred {
            match then {
                Deferred::LinkFailed => {
                    self.report.failures += 1;
                    if self.options.mutant == Some(Mutant::RetriesBlindly) {
                        self.retry_blindly(at);
                    }
                }
                Deferred::Guess(token) => {
                    let by = self.witness.book.node_incarnation(at);
                    self.witness.see(Fact::Reported {
                        by,
                        token,
                        outcome: covalent_protocol::Outcome::Committed(&[]),
                        clock: self.nodes[at].clock(),
                    });
                }
            }
        }
    }

    /// A wrong recovery: everything open is given up and submitted again.
    fn retry_blindly(&mut self, at: usize) {
        let book = &self.witness.book;
        let open: Vec<u64> = (0..)
            .zip(book.exchanges())
            .filter(|(_, exchange)| exchange.from.node == at && book.is_waited_for(exchange))
            .map(|(token, _)| token)
            .collect();
        self.nodes[at].cancel_interest(|token| open.contains(&token));
        for token in open {
            if let Some(exchange) = self.witness.book.exchange(token) {
                let peer = node_guid(exchange.to.node);
                // If there is no space for it any more, it is dropped.
                let _ = self.nodes[at].submit(peer, exchange.mode, &exchange.request, token);
            }
        }
    }

    /// Adds up a node's counters before it is gone.
    fn collect(&mut self, node: usize) {
        for link in self.nodes[node].links() {
            self.report.reversed += link.counters.reversed;
            self.report.resolved += link.counters.resolved;
            self.report.late += link.counters.drops.late;
            self.report.wrapped += u64::from(link.epoch < self.plan.first_sequence);
        }
    }

    fn finish(&mut self) -> Report {
        for node in 0..self.nodes.len() {
            self.collect(node);
            self.report.in_doubt += self.nodes[node].in_doubt();
        }
        let exchanges = self.witness.book.exchanges();
        let ended = |how| {
            exchanges
                .iter()
                .filter(|exchange| exchange.ended == Some(how))
                .count() as u64
        };
        Report {
            asked: exchanges.len() as u64,
            committed: ended(Ended::Committed),
            refused: ended(Ended::Refused),
            restarted: ended(Ended::Restarted),
            doubted: exchanges
                .iter()
                .filter(|exchange| exchange.name.is_some())
                .count() as u64,
            forgotten: self.witness.book.forgotten(),
            ..self.report
        }
    }

    fn make_node(&mut self, at: usize) -> Node {
        let mut node = Node::new(self.node_config(at));
        if self.announced_incarnation(at).number == 0 {
            node.observe(self.plan.clocks[at]);
        }
        for port in self.ports_of(at) {
            let added = node.add_link(port, [2, 0, 0, 0, at as u8, port as u8]);
            debug_assert_eq!(added, Ok(()));
            node.set_window(port, self.plan.window_records[at]);
        }
        node
    }

    /// Returns the incarnation that a node reports to its peers.
    fn announced_incarnation(&self, at: usize) -> NodeIncarnation {
        match self.options.mutant {
            Some(Mutant::HidesRestarts) => NodeIncarnation {
                node: at,
                number: 0,
            },
            _ => self.witness.book.node_incarnation(at),
        }
    }

    fn node_config(&self, at: usize) -> NodeConfig {
        let node_incarnation = self.announced_incarnation(at);
        let name = Name::new(node_name(at)).unwrap_or_else(|error| unreachable!("{error}"));
        NodeConfig {
            slots: self.plan.slots,
            keepalive_misses_max: self.plan.keepalive_misses_max,
            transactions_max: self.plan.transactions_max,
            event_ratio: self.plan.event_ratio,
            message_bytes_max: self.plan.message_bytes_max(),
            first_sequence: self.plan.first_sequence,
            epoch_seed: if self.plan.draws_epochs()
                && self.options.mutant != Some(Mutant::GuessableEpochs)
            {
                (node_guid(at) << 32 | u64::from(node_incarnation.number)) ^ 0x5eed_5eed_5eed_5eed
            } else {
                0
            },
            ..NodeConfig::new(node_guid(at), incarnation(node_incarnation), name)
        }
    }

    fn ports_of(&self, at: usize) -> Vec<u16> {
        let mut ports: Vec<u16> = self
            .cables
            .iter()
            .flat_map(|cable| cable.ends)
            .chain(self.spares.iter().copied())
            .filter(|end| end.node == at)
            .map(|end| end.port)
            .collect();
        ports.sort_unstable();
        ports
    }

    /// Returns the incarnation of the node `of` in the last handshake with the node `at`.
    fn known_incarnation(&self, at: usize, of: usize) -> NodeIncarnation {
        let incarnation = self.nodes[at]
            .peers()
            .find(|peer| peer.guid == node_guid(of))
            .map_or(0, |peer| peer.incarnation);
        NodeIncarnation {
            node: of,
            number: (incarnation >> 32) as u32,
        }
    }
}
