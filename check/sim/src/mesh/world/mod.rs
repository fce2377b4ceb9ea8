//! Nodes, cables and time.

mod beside;
mod request;
mod rest;

use covalent_protocol::{FRAME_BYTES_MAX, FabricConfig, Mode, Name, Node, NodeConfig};
use fastrand::Rng;

use super::{
    book::Reported,
    content::Content,
    errand::Answer,
    fact::{Counts, MeshFact, View},
    fault::MeshFault,
    figures::MeshReport,
    lens::Lens,
    liar::Liar,
    load::MeshLoad,
    mutant::MeshMutant,
    options::{FaultClass, MeshOptions},
    plan,
    program::{self, Deferred, Program, guid},
    room::Room,
    scene::{MeshScene, Route},
    share::Share,
    time::{Event, ROUND_TRIP_UNITS},
    trace::Trace,
    wire::{Cable, Frame},
    witness::Witness,
};
use crate::{
    harness::{EventQueue, Failure, Simulator},
    shape::{Shape, Spot},
};

/// Missed keepalives after which a link is dead.
pub(super) const KEEPALIVE_MISSES_MAX: u32 = 4;
/// Round trips of all other links together after which an unresponsive link is dead: more than
/// eight links make while one is in flight on the slowest cable.
const EVENT_RATIO: u32 = 32;
/// Exchanges that may be open on a link for each side.
const SLOTS: u8 = 2;
/// Exchanges of a node that may be in flight at once.
const TRANSACTIONS_MAX: usize = 16;
/// Units without a frame after which a lane reports silence to its node.
const QUIET_UNITS: u64 = ROUND_TRIP_UNITS;
/// Maximum number of such reports before a frame or a tick arrives.
const QUIET_MAX: u32 = 8;
/// Nodes of the largest mesh in which a node replies to each frame separately. In a larger one it
/// replies to all simultaneous frames together, as a lane does with a burst: otherwise most frames
/// would have one advert each.
const ALONE_MAX: usize = 128;
/// Units between two looks at the tree of a root.
const SAMPLE_UNITS: u64 = ROUND_TRIP_UNITS;

/// A node and its environment.
struct Station {
    /// `None` while it is off.
    node: Option<Node>,
    share: Share,
    ports: Vec<Spot>,
    stalled_until: u64,
    received_at: u64,
    /// A check is scheduled whether it has received nothing for a while.
    quiet_scheduled: bool,
    /// How often silence was reported to it since it received a frame.
    silence_reports: u32,
}

/// Nodes and cables, and time that passes.
pub struct MeshWorld {
    options: MeshOptions,
    seed: u64,
    /// The command that makes this run again.
    replay: String,
    rng: Rng,
    queue: EventQueue<Event>,
    stations: Vec<Station>,
    cables: Vec<Cable>,
    witness: Witness,
    plan: Vec<MeshFault>,
    is_submitting: bool,
    lens: Lens,
    liar: Option<Liar>,
    room: Room,
    buffer: Box<[u8; FRAME_BYTES_MAX]>,
}

impl MeshWorld {
    /// The world of a seed, before any frame: every node is on and every cable whole. `trace`
    /// records the events, if given.
    #[must_use]
    pub fn new(shape: Shape, options: &MeshOptions, seed: u64, trace: Option<Trace>) -> Self {
        let nodes = shape.nodes;
        let mut rng = Rng::with_seed(seed);
        let mut wires = rng.fork();
        let is_lied_to = options.faults.has(FaultClass::Liar);
        let room = Room::draw(options.load, nodes, is_lied_to, &mut rng);
        let cables: Vec<Cable> = (shape.cables.iter())
            .map(|_| Cable::new(options.jitter_percent, &mut wires))
            .collect();
        let slowest = cables.iter().map(Cable::round_trip_units).max();
        let mut world = Self {
            cables,
            stations: (shape.ports().into_iter())
                .map(|ports| Station {
                    node: None,
                    share: Share::new(nodes),
                    ports,
                    stalled_until: 0,
                    received_at: 0,
                    quiet_scheduled: false,
                    silence_reports: 0,
                })
                .collect(),
            witness: Witness::new(
                shape,
                room.paths > 0,
                slowest.unwrap_or(ROUND_TRIP_UNITS),
                trace,
            ),
            options: options.clone(),
            replay: options.command(seed),
            seed,
            rng,
            queue: EventQueue::default(),
            plan: Vec::new(),
            is_submitting: false,
            lens: Lens::default(),
            liar: None,
            room,
            buffer: Box::new([0; FRAME_BYTES_MAX]),
        };
        if is_lied_to {
            world.add_liar();
        }
        for at in 0..world.stations.len() {
            let node = at as u16;
            world.start(at);
            // Each node has a tick phase of its own.
            let phase = world.rng.u64(..options.tick_units());
            world.queue.add(phase, Event::Tick { node });
        }
        world.queue.add(SAMPLE_UNITS, Event::Sample);
        world
    }

    /// The same, of a run that another command makes again.
    pub(super) fn replayed_by(mut self, command: String) -> Self {
        self.replay = command;
        self
    }

    /// How the mesh stands.
    #[must_use]
    pub const fn scene(&self) -> &MeshScene {
        &self.witness.scene
    }

    /// Units since the beginning.
    #[must_use]
    pub const fn now_units(&self) -> u64 {
        self.witness.scene.now_units
    }

    /// Whether an invariant was broken.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        self.witness.violation().is_some()
    }

    /// Executes all events until a time, in units from the beginning, or until an invariant is
    /// broken.
    pub fn run_until(&mut self, units: u64) {
        while !self.is_broken()
            && let Some((at, event)) = self.queue.next(units)
        {
            self.witness.scene.now_units = at;
            self.happen(event);
        }
        if !self.is_broken() {
            self.witness.scene.now_units = units;
        }
    }

    /// Lets `frames` frames arrive, one after the other, or as many as arrive until a time.
    pub fn run_frames(&mut self, frames: u32, until_units: u64) {
        let mut left = frames;
        while left > 0
            && !self.is_broken()
            && let Some((at, event)) = self.queue.next(until_units)
        {
            self.witness.scene.now_units = at;
            left -= u32::from(matches!(event, Event::Arrive { .. }));
            self.happen(event);
        }
    }

    /// Starts or stops the load of the options.
    pub fn set_load(&mut self, on: bool) {
        self.set_lying(on);
        let on = on && self.options.load != MeshLoad::None;
        if on && !self.is_submitting {
            self.queue.add(self.now_units(), Event::Submit);
        }
        self.is_submitting = on;
    }

    /// Schedules the faults of a plan, in units from now. Returns the time of the last one, in
    /// units from the beginning.
    pub(super) fn schedule(&mut self, plan: plan::Plan) -> u64 {
        let begin = self.now_units();
        let mut end = begin;
        for (at, fault) in plan {
            let number = self.plan.len() as u32;
            self.plan.push(fault);
            end = end.max(begin + at);
            self.queue.add(begin + at, Event::Fault(number));
        }
        end
    }

    /// Returns the position of each node in the tree of a root.
    fn views(&self, root: usize) -> Vec<Option<View>> {
        let view = |station: &Station| {
            let node = station.node.as_ref()?;
            let tree = node.tree(guid(root))?;
            // The liar is no part of the mesh.
            let is_of_mesh = |port: &u16| usize::from(*port) < station.ports.len();
            let port = |index| node.port_at(index).filter(is_of_mesh);
            let bit = |index| port(index).map_or(0, |port| 1 << port);
            Some(View {
                standing: tree.standing,
                parent: (tree.parent.and_then(port))
                    .map(|port| station.ports[usize::from(port)].cable),
                hops: tree.hops,
                label: tree.label,
                children: tree.children.iter().map(bit).fold(0, |all, bit| all | bit),
            })
        };
        self.stations.iter().map(view).collect()
    }

    /// Shows the tree of a root.
    fn show_tree(&mut self, root: usize, at_rest: bool) {
        let views = self.views(root);
        self.witness.see(&MeshFact::Tree {
            root: root as u16,
            views: &views,
            at_rest,
        });
    }

    /// Makes every cable whole and starts every node.
    pub fn mend_everything(&mut self) {
        for node in 0..self.stations.len() as u16 {
            if self.stations[usize::from(node)].node.is_none() {
                self.fault(MeshFault::Start { node });
            }
        }
        for cable in 0..self.cables.len() as u16 {
            if !self.scene().carries(usize::from(cable)) {
                self.fault(MeshFault::Mend { cable });
            }
        }
    }

    /// A fault happens, or ends.
    pub fn fault(&mut self, fault: MeshFault) {
        self.witness.see(&MeshFact::Fault(&fault));
        match fault {
            MeshFault::Cut {
                cable,
                towards,
                noticed,
            } => {
                self.cables[usize::from(cable)].cut(towards);
                for end in [0, 1] {
                    if noticed[end] {
                        self.set_carrier(cable, end, false);
                    }
                }
            }
            MeshFault::Loss { cable, thousandths } => {
                self.cables[usize::from(cable)].lost_thousandths = thousandths;
            }
            MeshFault::Mend { cable } => {
                let mended = &mut self.cables[usize::from(cable)];
                mended.whole = [true; 2];
                mended.lost_thousandths = 0;
                for end in [0, 1] {
                    self.set_carrier(cable, end, true);
                }
            }
            MeshFault::Crash { node, noticed } => {
                self.stations[usize::from(node)].node = None;
                self.stations[usize::from(node)].share = Share::new(self.stations.len());
                for spot in self.stations[usize::from(node)].ports.clone() {
                    if noticed {
                        self.set_carrier(spot.cable, usize::from(1 - spot.end), false);
                    }
                }
            }
            MeshFault::Start { node } => {
                self.start(usize::from(node));
                for spot in self.stations[usize::from(node)].ports.clone() {
                    let cable = &self.cables[usize::from(spot.cable)];
                    if cable.whole == [true; 2] {
                        self.set_carrier(spot.cable, usize::from(1 - spot.end), true);
                    }
                }
            }
            MeshFault::Stall { node, for_units } => {
                self.stations[usize::from(node)].stalled_until = self.now_units() + for_units;
            }
        }
    }

    /// Returns the report and the trace.
    ///
    /// # Errors
    /// Returns the broken invariant.
    pub fn finish(self) -> (Result<MeshReport, Box<Failure>>, Option<Trace>) {
        let result = match self.witness.violation() {
            None => {
                let fingerprint = self.witness.fingerprint();
                Ok(self.witness.figures.report(self.scene(), fingerprint))
            }
            Some(violation) => Err(Box::new(Failure {
                seed: self.seed,
                replay: self.replay,
                when: format!(
                    "after {:.1} round trips",
                    self.witness.scene.now_units as f64 / ROUND_TRIP_UNITS as f64
                ),
                violation: violation.clone(),
            })),
        };
        (result, self.witness.trace)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { cable, end } => self.arrive(cable, end, event),
            Event::Tick { node } => {
                let at = usize::from(node);
                let next = self.now_units() + self.options.tick_units();
                self.queue.add(next, event);
                if self.stations[at].stalled_until <= self.now_units() {
                    self.stations[at].silence_reports = 0;
                    self.with(at, |node, program| node.on_tick(program));
                    self.take_messages(at);
                    self.expect_quiet(at);
                }
            }
            Event::Sample => {
                let root = self.rng.usize(..self.stations.len());
                self.show_tree(root, false);
                if let Some(counts) = self.counts(root) {
                    self.witness.see(&MeshFact::Sampled(&counts));
                }
                self.queue.add(self.now_units() + SAMPLE_UNITS, event);
            }
            Event::Quiet { node } => self.quiet(usize::from(node)),
            Event::Fault(number) => self.fault(self.plan[number as usize]),
            Event::Submit => self.submit_around(event),
            Event::ArriveBeside { at_liar } => self.arrive_beside(at_liar, event),
            Event::TickBeside => self.tick_beside(event),
            Event::Lie => self.lie(event),
        }
    }

    fn arrive(&mut self, cable: u16, end: u8, event: Event) {
        let at = usize::from(self.scene().node_at(Spot { cable, end }));
        let now_units = self.now_units();
        let (place, to) = (usize::from(cable), usize::from(end));
        // Already taken, together with a frame at another port.
        if self.answers_together() && !self.cables[place].has_arrived(to, now_units) {
            return;
        }
        if self.stations[at].stalled_until > now_units {
            self.queue.add(self.stations[at].stalled_until, event);
            return;
        }
        if self.answers_together() {
            self.arrive_together(at);
        } else if let Some(mut frame) = self.cables[place].take(to) {
            self.receive(at, Spot { cable, end }, &mut frame);
            self.flush(at);
            self.show_seekers(at, &frame);
            self.expect_quiet(at);
        }
    }

    /// Whether nodes reply to simultaneous frames together.
    const fn answers_together(&self) -> bool {
        self.stations.len() > ALONE_MAX
    }

    /// Everything that arrives at a node now.
    fn arrive_together(&mut self, at: usize) {
        let now_units = self.now_units();
        let mut received_any = false;
        for port in 0..self.stations[at].ports.len() {
            let spot = self.stations[at].ports[port];
            let (cable, end) = (usize::from(spot.cable), usize::from(spot.end));
            while let Some(frame) = self.cables[cable].take_arrived(end, now_units) {
                if let Some(mut frame) = frame {
                    self.receive(at, spot, &mut frame);
                    self.show_seekers(at, &frame);
                    received_any = true;
                }
            }
        }
        if received_any {
            self.flush(at);
            self.expect_quiet(at);
        }
    }

    /// A node takes a frame, and does not answer it yet.
    fn receive(&mut self, at: usize, spot: Spot, frame: &mut Frame) {
        let Spot { cable, end } = spot;
        if let Some(mutant) = self.options.mutant.filter(|mutant| mutant.is_lens())
            && let Some(node) = &self.stations[at].node
        {
            if self.scene().link(usize::from(cable))[usize::from(end)].is_none() {
                self.lens.forget(spot);
            }
            self.lens
                .show(mutant, spot, guid(at), node, &mut frame.bytes);
        }
        let port = self.port_of(at, cable, end);
        self.stations[at].received_at = self.now_units();
        self.stations[at].silence_reports = 0;
        self.call(at, |node, program| {
            node.on_frame(port, &frame.bytes, program);
        });
    }

    /// Detects a node that searches for a parent because its parent reported that it has no route
    /// any more. A node reports a new parent and an unreachable root, but not such a search.
    fn show_seekers(&mut self, at: usize, frame: &Frame) {
        let Some(here) = self.stations[at].node.as_ref() else {
            return;
        };
        if frame.content.adverts == 0 {
            return;
        }
        let nodes = self.stations.len();
        let witness = &mut self.witness;
        Content::each_advert(&frame.bytes, |guid| {
            let node = at as u16;
            let Some(root) = program::node_of_mesh(guid, nodes) else {
                return;
            };
            let was_attached = matches!(witness.scene.route(root, node), Route::Over(_));
            if was_attached && here.route(guid).is_none() {
                witness.see(&MeshFact::Searches { node, root });
            }
        });
    }

    fn expect_quiet(&mut self, at: usize) {
        if !self.stations[at].quiet_scheduled {
            self.stations[at].quiet_scheduled = true;
            let node = at as u16;
            self.queue
                .add(self.now_units() + QUIET_UNITS, Event::Quiet { node });
        }
    }

    fn quiet(&mut self, at: usize) {
        let now = self.now_units();
        let station = &mut self.stations[at];
        station.quiet_scheduled = false;
        if station.node.is_none() || station.stalled_until > now {
            return;
        }
        let since = now - station.received_at;
        if since < QUIET_UNITS {
            station.quiet_scheduled = true;
            let node = at as u16;
            self.queue
                .add(now + QUIET_UNITS - since, Event::Quiet { node });
            return;
        }
        station.silence_reports += 1;
        let is_repeated = station.silence_reports < QUIET_MAX;
        self.with(at, |node, _| node.on_quiet());
        if is_repeated {
            self.expect_quiet(at);
        }
    }

    /// The carrier at an end of a cable comes or goes.
    fn set_carrier(&mut self, cable: u16, end: usize, up: bool) {
        let spot = Spot {
            cable,
            end: end as u8,
        };
        let at = usize::from(self.scene().node_at(spot));
        let port = self.port_of(at, cable, spot.end);
        self.cables[usize::from(cable)].carrier[end] = up;
        self.with(at, |node, program| node.on_carrier(port, up, program));
    }

    /// Begins an incarnation of a node.
    fn start(&mut self, at: usize) {
        let incarnation = match self.options.mutant {
            Some(MeshMutant::HidesRestarts) => 0,
            _ => self.scene().incarnation(at as u16),
        };
        let name = Name::new(&format!("n{at}")).unwrap_or_else(|error| unreachable!("{error}"));
        let mut node = Node::new(NodeConfig {
            slots: SLOTS,
            keepalive_misses_max: KEEPALIVE_MISSES_MAX,
            transactions_max: TRANSACTIONS_MAX,
            event_ratio: EVENT_RATIO,
            message_bytes_max: self.room.message_bytes,
            fabric: Some(FabricConfig {
                roots: true,
                roots_max: self.room.roots,
                paths: self.room.paths,
                transits: self.room.transits,
            }),
            ..NodeConfig::new(guid(at), u64::from(incarnation) << 32 | 1, name)
        });
        let ports = self.stations[at].ports.clone();
        for port in 0..ports.len() as u16 {
            let [high, low] = (at as u16).to_be_bytes();
            let added = node.add_link(port, [2, 0, 0, high, low, port as u8]);
            debug_assert_eq!(added, Ok(()));
        }
        if self.options.mutant == Some(MeshMutant::SharesNothing) {
            node.share_nothing_out();
        }
        let liar_port = self.liar_port(at);
        if let Some(port) = liar_port {
            let added = node.add_link(port, [2, 0, 1, 0, 0, port as u8]);
            debug_assert_eq!(added, Ok(()));
        }
        self.stations[at].node = Some(node);
        self.stations[at].stalled_until = 0;
        if let Some(port) = liar_port {
            self.with(at, |node, program| node.on_carrier(port, true, program));
        }
        for (port, spot) in (0..).zip(ports) {
            if self.cables[usize::from(spot.cable)].carrier[usize::from(spot.end)] {
                self.with(at, |node, program| node.on_carrier(port, true, program));
            }
        }
    }

    fn port_of(&self, at: usize, cable: u16, end: u8) -> u16 {
        let spot = Spot { cable, end };
        let ports = &self.stations[at].ports;
        let port = ports.iter().position(|port| *port == spot);
        port.unwrap_or_else(|| unreachable!("{spot:?} is at node {at}")) as u16
    }

    /// Calls a node with its program, if it is on, and lets it send its frames.
    fn with(&mut self, at: usize, call: impl FnOnce(&mut Node, &mut Program<'_>)) {
        self.call(at, call);
        self.flush(at);
    }

    /// Calls a node with its program, if it is on.
    fn call(&mut self, at: usize, call: impl FnOnce(&mut Node, &mut Program<'_>)) {
        let mut deferred = Vec::new();
        let nodes = self.stations.len();
        let station = &mut self.stations[at];
        let Some(node) = &mut station.node else {
            return;
        };
        let mut program = Program {
            node: at as u16,
            ports: &station.ports,
            share: &mut station.share,
            witness: &mut self.witness,
            mutant: self.options.mutant,
            nodes,
            deferred: &mut deferred,
        };
        call(node, &mut program);
        for deferred in deferred {
            self.run_deferred(at, deferred);
        }
    }

    fn run_deferred(&mut self, at: usize, deferred: Deferred) {
        let by = at as u16;
        match deferred {
            Deferred::Guess(token) => {
                let answer = self
                    .scene()
                    .book
                    .request(token)
                    .and_then(|request| request.answer);
                let how = Reported::Committed(answer.unwrap_or(Answer { mark: 0, found: 0 }));
                self.witness.see(&MeshFact::Reported { token, by, how });
            }
            Deferred::Doubt(token, name) => self.give_up(at, token, &name),
            Deferred::Retry => {
                let mine = self.scene().book.open_of(by);
                let mine: Vec<_> = mine.map(|(token, request)| (token, *request)).collect();
                if let Some(node) = &mut self.stations[at].node {
                    for (token, request) in mine {
                        let (to, request) = (request.to.0, request.errand.request(token));
                        // If there is no space, the mutant makes one error less.
                        let _ = node.submit(guid(usize::from(to)), Mode::OnePhase, &request, token);
                    }
                }
            }
        }
    }

    /// A node gives out all its frames, unless it stands still.
    fn flush(&mut self, at: usize) {
        for port in 0..self.stations[at].ports.len() as u16 {
            let from = self.stations[at].ports[usize::from(port)];
            while let Some(node) = &mut self.stations[at].node
                && let Some(len) = node.poll_transmit(port, &mut self.buffer[..])
            {
                self.send(from, len);
            }
        }
        if let Some(port) = self.liar_port(at) {
            while let Some(node) = &mut self.stations[at].node
                && let Some(len) = node.poll_transmit(port, &mut self.buffer[..])
            {
                self.send_to_liar(len);
            }
        }
    }

    fn send(&mut self, from: Spot, len: usize) {
        let frame = &self.buffer[..len];
        let now_units = self.witness.scene.now_units;
        if let Some(trace) = &mut self.witness.trace {
            trace.capture(now_units, from.cable, frame);
        }
        let to = 1 - from.end;
        let content = Content::of(frame);
        let cable = &mut self.cables[usize::from(from.cable)];
        let arrives_in = cable.send(usize::from(to), now_units, frame, content, &mut self.rng);
        self.witness.mix(u64::from(from.cable) << 32 | len as u64);
        self.witness.see(&MeshFact::Sent {
            from,
            content,
            arrives_in,
        });
        let cable = &self.cables[usize::from(from.cable)];
        let is_taken_with_another =
            self.answers_together() && cable.arrives_with_another(usize::from(to));
        if let Some(units) = arrives_in.filter(|_| !is_taken_with_another) {
            let arrive = Event::Arrive {
                cable: from.cable,
                end: to,
            };
            self.queue.add(self.now_units() + units, arrive);
        }
    }

    /// Returns the counters of a node's links, if it is on.
    fn counts(&self, at: usize) -> Option<Counts> {
        let node = self.stations[at].node.as_ref()?;
        let [counter, word] = self.stations[at].share.words();
        let mut counts = Counts {
            node: at as u16,
            tree_entries: (node.tree_count() * (1 + self.stations[at].ports.len())) as u64,
            tree_bytes: node.tree_state_bytes() as u64,
            paths: node.paths().count() as u64,
            transits: node.transits() as u64,
            transits_max: u64::from(self.room.transits),
            channels: node.channels() as u64,
            waiting_records: node.waiting_records() as u64,
            passed: node.channel_counters(),
            held_words: self.stations[at].share.held_words() as u64,
            counter,
            word,
            ..Counts::default()
        };
        for link in node.links().chain(node.path_links()) {
            counts.committed += link.counters.committed;
            counts.executed += link.counters.executed;
            counts.forgotten += link.counters.forgotten;
        }
        Some(counts)
    }
}
