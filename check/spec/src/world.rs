//! A state: nodes, their programs, and frames in flight.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{Hash, Hasher},
    sync::Arc,
};

use covalent_protocol::{
    FRAME_BYTES_MAX, LinkState, LinkView, Name, Node, NodeConfig,
    wire::{record::NO_PIGGYBACK, slice::Kind},
};

use crate::{
    check::is_same,
    forgery::Forgery,
    frame::Frame,
    mutant::Mutant,
    program::Program,
    scenario::{Budget, Scenario, Wish},
    unnumbered::Unnumbered,
};

/// A node and the program around it.
#[derive(Clone, Hash)]
pub struct Side {
    /// The production state machine.
    pub node: Node,
    /// Its books.
    pub program: Program,
    /// The filter in front of a node without numbers.
    pub unnumbered: Option<Unnumbered>,
}

/// A cable. `[0]` and `[1]` are its ends, as in [`Scenario::cables`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Cable {
    /// Frames in flight to each end.
    pub in_flight: [VecDeque<Frame>; 2],
    /// Frames that are sent to that end from now on are lost.
    pub cut: [bool; 2],
    /// That end lost its carrier.
    pub noticed: [bool; 2],
}

/// A slot of an initiator: node, port, slot.
pub type Slot = (usize, u16, u8);

/// The events of a run, for [`sight`](crate::sight).
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrived {
    /// Message 3 of an exchange on a record of another.
    pub message_3_rode: bool,
    /// Message 2 of an exchange on a record of another.
    pub message_2_rode: bool,
    /// The second part of a message of several frames.
    pub second_frame: bool,
}

/// A state of the search.
#[derive(Clone)]
pub struct World {
    /// Shared with the states before and after in which nothing happens to them.
    pub sides: Vec<Arc<Side>>,
    /// In the order of their numbers.
    pub cables: Vec<Cable>,
    /// Whether the second ends of the first two cables have changed places.
    pub moved: bool,
    /// Forged frames that reached an end in the middle of a handshake.
    pub disturbed: u8,
    /// The wishes of this run.
    pub wishes: Arc<[Wish]>,
    /// The faults so far; ticks and quiets are counted separately.
    pub spent: Budget,
    /// Ticks of each node.
    pub ticks: Vec<u8>,
    /// How often the caller of each node reported that it receives nothing.
    pub quiets: Vec<u8>,
    /// The sequence last started in each slot, and the epoch that it was started in.
    pub started: BTreeMap<Slot, (u32, u32)>,
    /// The arrivals on the way to this state. They decide nothing.
    pub arrived: Arrived,
    /// The sequences in each slot of which message 2 arrived.
    pub received: BTreeSet<(Slot, u32)>,
    /// Exchanges that initiators received as "undone" or "never seen", each with its sequence and
    /// epoch.
    pub called_undone: BTreeSet<(Slot, (u32, u32))>,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.sides, &self.cables, self.moved, &self.wishes).hash(state);
        self.disturbed.hash(state);
        (self.spent, &self.ticks, &self.quiets).hash(state);
        (&self.started, &self.received, &self.called_undone).hash(state);
    }
}

/// As the search does, which knows a state by its hash alone.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        is_same(self, other)
    }
}

/// Exchanges that a node may have at once: enough that one more is kept for its name.
pub const TRANSACTIONS_MAX: u32 = 4;

/// The GUID of a node.
#[must_use]
pub const fn guid(node: usize) -> u64 {
    0xa + node as u64
}

/// The name of a node.
#[must_use]
pub fn name(node: usize) -> Name {
    Name::new(["a", "b", "c"][node]).unwrap_or_else(|_| unreachable!())
}

/// The incarnation of a node that did not restart.
pub const INCARNATION: u64 = 100;

fn node(scenario: &Scenario, number: usize, incarnation: u8) -> Node {
    let mut node = Node::new(NodeConfig {
        slots: scenario.slots,
        keepalive_misses_max: scenario.keepalive_misses_max,
        event_ratio: scenario.event_ratio,
        transactions_max: TRANSACTIONS_MAX as usize,
        message_bytes_max: scenario.request_bytes.max(2),
        epoch_seed: if scenario.drawn {
            guid(number) << 8 | u64::from(incarnation)
        } else {
            0
        },
        ..NodeConfig::new(
            guid(number),
            INCARNATION + u64::from(incarnation),
            name(number),
        )
    });
    for (port, ends) in (0..).zip(&scenario.cables) {
        if ends.contains(&number) {
            let added = node.add_link(port, [2, 0, 0, 0, number as u8, port as u8]);
            debug_assert!(added.is_ok());
        }
    }
    node
}

impl World {
    /// The start of a scenario, with one of its sets of wishes.
    #[must_use]
    pub fn new(scenario: &Scenario, wishes: &[Wish]) -> Self {
        let side = |number| {
            Arc::new(Side {
                node: node(scenario, number, 0),
                program: Program::new(scenario, wishes),
                unnumbered: scenario
                    .mutant
                    .is_unnumbered()
                    .then(|| Unnumbered::new(scenario.cables.len())),
            })
        };
        let mut world = Self {
            sides: (0..scenario.nodes).map(side).collect(),
            cables: vec![Cable::default(); scenario.cables.len()],
            moved: false,
            disturbed: 0,
            wishes: wishes.into(),
            spent: Budget::default(),
            ticks: vec![0; scenario.nodes],
            quiets: vec![0; scenario.nodes],
            started: BTreeMap::new(),
            arrived: Arrived::default(),
            received: BTreeSet::new(),
            called_undone: BTreeSet::new(),
        };
        for (cable, ends) in scenario.cables.iter().enumerate() {
            for &end in ends {
                world.input(scenario, end, |side| {
                    side.node.on_carrier(cable as u16, true, &mut side.program);
                });
            }
        }
        if scenario.up {
            world.deliver_all(scenario);
        }
        world
    }

    /// Something happens to a node.
    pub fn input(&mut self, scenario: &Scenario, node: usize, happens: impl FnOnce(&mut Side)) {
        let side = Arc::make_mut(&mut self.sides[node]);
        happens(side);
        if let Some(unnumbered) = &mut side.unnumbered {
            unnumbered.follow(&side.node);
        }
        if std::mem::take(&mut side.program.lost_sight) {
            side.resubmit_all(&self.wishes, node);
        }
        if scenario.eager {
            self.transmit_all(scenario, node);
        }
    }

    /// A node gives out all frames that it has.
    pub fn transmit_all(&mut self, scenario: &Scenario, node: usize) {
        for cable in 0..scenario.cables.len() {
            while self.transmit(scenario, node, cable) {}
        }
    }

    /// A node gives out the next frame for a cable.
    pub fn transmit(&mut self, scenario: &Scenario, node: usize, cable: usize) -> bool {
        let Some(end) = scenario.end(cable, node) else {
            return false;
        };
        // Copy a node only if it has a frame to send.
        if !self.sides[node].node.has_work(cable as u16) {
            return false;
        }
        let mut buffer = [0; FRAME_BYTES_MAX];
        let side = Arc::make_mut(&mut self.sides[node]);
        let Some(len) = side.node.poll_transmit(cable as u16, &mut buffer) else {
            return false;
        };
        let frame = Frame::new(&buffer[..len]);
        if let Some(unnumbered) = &mut side.unnumbered {
            unnumbered.send(cable, &frame);
        }
        for (_, header) in frame.messages() {
            if matches!(header.kind, Kind::Request | Kind::Tentative) {
                let slot = (node, cable as u16, header.slot);
                self.started
                    .insert(slot, (header.slot_sequence, header.epoch));
            }
        }
        let (cable, end) = self.far(cable, end);
        let cable = &mut self.cables[cable];
        if !cable.cut[end] {
            cable.in_flight[end].push_back(frame);
        }
        true
    }

    /// The frame at position `place` in flight arrives.
    pub fn deliver(&mut self, scenario: &Scenario, cable: usize, end: usize, place: usize) {
        let Some(frame) = self.cables[cable].in_flight[end].remove(place) else {
            return;
        };
        let node = scenario.cables[cable][end];
        for (_, header) in frame.messages() {
            if header.kind == Kind::Reflecting {
                let slot = (node, cable as u16, header.slot);
                self.received.insert((slot, header.slot_sequence));
            }
            self.arrived.second_frame |= header.shape.fragment > 0;
            if header.piggyback == NO_PIGGYBACK {
                continue;
            }
            let answers = matches!(
                header.kind,
                Kind::Reflecting | Kind::Committed | Kind::Refused | Kind::Resolved
            );
            self.arrived.message_2_rode |= answers;
            self.arrived.message_3_rode |= !answers;
            // A piggybacked message has no sequence of its own: it belongs to the last exchange
            // that its initiator started.
            let slot = (node, cable as u16, header.piggyback);
            if answers && let Some(&(sequence, _)) = self.started.get(&slot) {
                self.received.insert((slot, sequence));
            }
        }
        self.receive(scenario, cable, end, frame);
    }

    /// A forged frame arrives in the name of the node that was there first.
    pub fn forge(&mut self, scenario: &Scenario, cable: usize, end: usize, forgery: Forgery) {
        let peer = scenario.cables[cable][1 - end];
        let frame = forgery.frame(scenario, peer, cable as u16);
        let agrees = {
            let side = &self.sides[scenario.cables[cable][end]];
            let mut links = side.node.links();
            let is_it = |link: LinkView<'_>| usize::from(link.port) == cable;
            links.any(|link| is_it(link) && link.state == LinkState::Init)
        };
        self.disturbed += u8::from(agrees);
        self.receive(scenario, cable, end, frame);
    }

    /// Returns the cable and the end at which a frame arrives that is sent into an end of a cable.
    #[must_use]
    pub const fn far(&self, cable: usize, end: usize) -> (usize, usize) {
        if self.moved && cable < 2 {
            (1 - cable, 1 - end)
        } else {
            (cable, 1 - end)
        }
    }

    fn receive(&mut self, scenario: &Scenario, cable: usize, end: usize, mut frame: Frame) {
        let node = scenario.cables[cable][end];
        // The sender, for a receiver that identifies it by the port.
        let peer = scenario.cables[cable][1 - end];
        let port = cable as u16;
        let side = &self.sides[node];
        frame = scenario
            .mutant
            .as_received(side, port, [guid(node), guid(peer)], frame);
        if !scenario.mutant.is_unnumbered() {
            self.record_undone(node, &frame);
        }
        self.input(scenario, node, |side| {
            if let Some(unnumbered) = &mut side.unnumbered {
                frame = unnumbered.receive(cable, &frame);
            }
            side.node
                .on_frame(cable as u16, frame.bytes(), &mut side.program);
        });
    }

    /// Records the exchanges of `node` that a frame reports as "undone". In these scenarios an
    /// initiator relays nothing, and queries neighbors about slot 0 only.
    fn record_undone(&mut self, node: usize, frame: &Frame) {
        if self.wishes.iter().all(|wish| wish.from != node) {
            return;
        }
        for ending in frame.endings() {
            let slot = (node, ending.port, ending.slot);
            if let Some(&started) = self.started.get(&slot)
                && started.0 == ending.sequence
                && ending.is_undone
            {
                self.called_undone.insert((slot, started));
            }
        }
    }

    /// Delivers all frames in flight, and the frames sent in response, until none is in flight.
    /// Returns false if this has no end.
    pub fn deliver_all(&mut self, scenario: &Scenario) -> bool {
        for _ in 0..1_000 {
            for node in 0..scenario.nodes {
                self.transmit_all(scenario, node);
            }
            let mut idle = true;
            for cable in 0..self.cables.len() {
                for end in [0, 1] {
                    if !self.cables[cable].in_flight[end].is_empty() {
                        idle = false;
                        self.deliver(scenario, cable, end, 0);
                    }
                }
            }
            if idle {
                return true;
            }
        }
        false
    }

    /// An end of a cable loses its carrier.
    pub fn notice(&mut self, scenario: &Scenario, cable: usize, end: usize) {
        self.cables[cable].noticed[end] = true;
        self.input(scenario, scenario.cables[cable][end], |side| {
            side.node.on_carrier(cable as u16, false, &mut side.program);
        });
    }

    /// A cable is whole again, at both ends.
    pub fn mend(&mut self, scenario: &Scenario, cable: usize) {
        self.cables[cable].cut = [false; 2];
        for end in [0, 1] {
            if std::mem::take(&mut self.cables[cable].noticed[end]) {
                self.input(scenario, scenario.cables[cable][end], |side| {
                    side.node.on_carrier(cable as u16, true, &mut side.program);
                });
            }
        }
    }

    /// A node and its program lose their memory.
    pub fn restart(&mut self, scenario: &Scenario, number: usize) {
        let incarnation = self.spent.restarts;
        Arc::make_mut(&mut self.sides[number]).node = node(scenario, number, incarnation);
        Arc::make_mut(&mut self.sides[number]).program.restart();
        for (cable, ends) in scenario.cables.iter().enumerate() {
            for end in [0, 1] {
                if ends[end] == number && !self.cables[cable].noticed[end] {
                    self.input(scenario, number, |side| {
                        side.node.on_carrier(cable as u16, true, &mut side.program);
                    });
                }
            }
        }
    }

    /// The next wish of a node that was not submitted.
    #[must_use]
    pub fn next_wish(&self, node: usize) -> Option<usize> {
        let submitted = &self.sides[node].program.submitted;
        (0..self.wishes.len()).find(|&wish| self.wishes[wish].from == node && !submitted[wish])
    }
}

impl Side {
    /// Submits a wish. Returns false if its peer is unknown.
    pub fn submit(&mut self, wishes: &[Wish], wish: usize) -> bool {
        let Wish { to, mode, .. } = wishes[wish];
        let request = self.program.request(wish);
        let taken = self.node.submit(guid(to), mode, &request, wish as u64);
        self.program.submitted[wish] |= taken.is_ok();
        taken.is_ok()
    }

    /// The program exits, and no caller waits for its exchanges any more.
    pub fn cancel(&mut self) {
        self.program.cancel();
        if self.program.mutant() != Mutant::KeepCallers {
            self.node.cancel_interest(|_| true);
        }
    }

    /// Starts all wishes without a reported end again, whatever their outcome:
    /// [`Mutant::FireAndForget`].
    fn resubmit_all(&mut self, wishes: &[Wish], node: usize) {
        self.node.cancel_interest(|_| true);
        for wish in 0..wishes.len() {
            let program = &self.program;
            if wishes[wish].from == node
                && program.submitted[wish]
                && program.reported[wish].is_none()
            {
                self.submit(wishes, wish);
            }
        }
    }
}
