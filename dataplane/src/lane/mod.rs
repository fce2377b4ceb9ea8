//! Lanes: pinned threads that move packets.
//!
//! ```text
//! commands → ports' bursts → links, pipes → doorbells → pipes' packets → ports, verbs
//!          → tick → links' frames → flush → rest
//! ```
//!
//! A lane shares nothing with another one. It owns its ports, links, pipes and regions. One bounded
//! mailbox in each direction connects it to the host thread. On the packet path it takes no lock,
//! allocates nothing, logs nothing and makes no system call except the doorbells of ports and
//! applications.

mod coalesce;
pub mod command;
mod commands;
mod copying;
mod core;
mod durable;
mod failover;
mod far_nodes;
mod fill;
mod groups;
mod hot_set;
mod idle;
mod leave;
pub mod new_port;
mod outbox;
mod pacer;
mod paths;
mod pending;
mod pinning;
pub mod policy;
mod port_slot;
mod receive;
pub mod reconfigure;
mod refusal;
mod release;
mod round_trips;
mod snapshot;
mod sources;
mod stamp;
mod table;
mod tap;
mod transmit;
mod turns;
mod verbs;
mod yield_core;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use self::durable::region_of;
use self::{
    coalesce::Coalesce,
    command::{Answer, Order, Report},
    copying::Copying,
    core::Core,
    durable::Durable,
    failover::Failovers,
    far_nodes::FarNodes,
    idle::Idler,
    leave::{Leaving, Left},
    new_port::NewPort,
    outbox::Outbox,
    paths::Watchers,
    pending::PendingTable,
    pinning::Pinning,
    policy::Policy,
    port_slot::PortSlot,
    reconfigure::Change,
    release::Release,
    turns::Turns,
};
use crate::{
    flow::Toeplitz,
    identity::Identity,
    journal::{Journal, Recovered},
    mailbox::Mailbox,
    port::PortError,
    progress::Beat,
    slots::Slots,
    telemetry::LaneCounters,
    verb::VerbEngine,
};
use covalent_api::{
    config::{Config, Idle},
    event::EventKind,
    guid::Guid,
    name,
};
use covalent_protocol::{
    AddLinkError, FRAME_BYTES_MAX, FabricConfig, Name, Node, NodeConfig, Reply,
    verb::{
        VERB_BYTES_MAX,
        envelope::{COMPLETION_BYTES_MAX, SUBMIT_BYTES_MAX},
    },
};

/// Exchanges that one lane may have open or waiting at other nodes.
const TRANSACTIONS_MAX: usize = 2048;

/// Settings of a lane at its start.
#[derive(Debug)]
pub struct LaneSettings {
    /// Index of the lane.
    pub lane: u32,
    /// Core to pin it to.
    pub core: Option<u32>,
    /// Behavior without work.
    pub idle: Idle,
    /// Frames or messages taken at a time.
    pub burst: usize,
    /// EtherType of link frames.
    pub ethertype: u16,
    /// This lane's address.
    pub address: Guid,
    /// Period of ticks.
    pub tick_period: Duration,
    /// The policy for frames without a binding.
    pub policy: Arc<Policy>,
    /// How sets of pipes share flows.
    pub toeplitz: Toeplitz,
}

/// One lane, ready to run on its thread.
pub struct Lane {
    settings: LaneSettings,
    ports: Vec<PortSlot>,
    node: Node,
    core: Core,
    orders: Arc<Mailbox<Order>>,
    /// The removal in progress, if it needs more than one round.
    release: Option<Release>,
    /// Copies of durable regions in progress.
    copying: Copying,
    /// Bytes of it that were copied.
    copied_bytes: u64,
    /// Epoch of the configuration that it holds.
    epoch: u64,
    /// A change of the configuration that is in progress or prepared.
    change: Option<Change>,
    pinning: Pinning,
    idler: Idler,
    coalesce: Coalesce,
    /// Where link frames are put together.
    link_frame: Box<[u8; FRAME_BYTES_MAX]>,
    /// The order in which links are polled.
    turns: Turns,
    started: Instant,
    next_tick: Instant,
    /// When links without open exchanges send the next ping.
    next_ping: Instant,
    /// Counts the ticks.
    beat: Arc<Beat>,
    loops: u64,
    busy_loops: u64,
    sleeps: u64,
    longest_round: Duration,
    busy: Duration,
    stopping: bool,
    /// A graceful shutdown is in progress.
    leaving: Option<Leaving>,
    /// The shutdown is over, and the lane serves no client any more.
    left: Option<Left>,
    /// Ports that are captured.
    taps: usize,
    /// Its part of the counters in shared memory, if there are any.
    counters: Option<LaneCounters>,
    /// CPU time of its thread in nanoseconds, as last read for the counters.
    cpu_ns: u64,
}

/// Why a lane cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// A port refused its configured steering rules.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The protocol refused the node's name or a link.
    #[error("{0}")]
    Protocol(String),
}

impl Lane {
    /// Creates the lane `lane` of `config` with its opened ports. `orders` and `reports`
    /// come from and go to the host thread.
    ///
    /// # Errors
    /// [`LaneError`] if a port or the protocol refuses the configuration.
    pub fn new(
        config: &Config,
        lane: u32,
        identity: &Identity,
        ports: Vec<NewPort>,
        journal: Option<(Journal, Recovered)>,
        (orders, reports): (Arc<Mailbox<Order>>, Arc<Mailbox<Report>>),
    ) -> Result<Self, LaneError> {
        let settings = LaneSettings::new(config, lane, identity);
        let mut node = Node::new(node_config(config, lane, identity)?);
        let failovers = Failovers::new(ports.iter().map(|port| port.number));
        let port_names = ports
            .iter()
            .map(|port| (port.number, port.name.clone()))
            .collect();
        let mut slots = Vec::with_capacity(ports.len());
        for NewPort {
            number,
            name,
            link,
            window_records,
            joins_lanes,
            port,
        } in ports
        {
            if link {
                node.add_link(number, port.info().mac)
                    .map_err(|error: AddLinkError| {
                        LaneError::Protocol(format!("port `{name}`: {error}"))
                    })?;
                if let Some(records) = window_records {
                    node.set_window(number, records);
                }
                node.set_measured(number, !joins_lanes);
            }
            let mut slot = PortSlot::new(number, port, link, &settings.policy)?;
            slot.joins_lanes = joins_lanes;
            slots.push(slot);
        }
        let now = Instant::now();
        let core = Core {
            sessions: Slots::new(),
            pipes: Slots::new(),
            touched: Vec::new(),
            receivers: Vec::new(),
            woke: false,
            sources: sources::Sources::default(),
            hot_set: hot_set::HotSet::new(),
            durable: journal.map(|(journal, recovered)| Durable::new(journal, recovered)),
            closed: false,
            engine: VerbEngine::new(),
            submission: Box::new([0; SUBMIT_BYTES_MAX]),
            completion: Box::new([0; COMPLETION_BYTES_MAX]),
            reply: Reply::with_room(VERB_BYTES_MAX),
            pending: PendingTable::new(TRANSACTIONS_MAX, node.queries_max()),
            watchers: Watchers::new(),
            doubt_token_hasher: std::hash::RandomState::new(),
            clock: 0,
            reported: 0,
            submitted: 0,
            completed: 0,
            failovers,
            outbox: Outbox::new(reports),
            port_names,
            far_nodes: FarNodes::new(lane),
            now,
            paced: std::collections::BinaryHeap::new(),
        };
        Ok(Self {
            idler: Idler::new(
                settings.idle,
                Duration::from_micros(config.dataplane.spin_us.into()),
            ),
            coalesce: Coalesce::default(),
            link_frame: Box::new([0; FRAME_BYTES_MAX]),
            turns: Turns::default(),
            started: now,
            next_tick: now + settings.tick_period,
            next_ping: now,
            beat: Arc::default(),
            pinning: Pinning::new(settings.lane, settings.core),
            settings,
            ports: slots,
            node,
            core,
            orders,
            release: None,
            copying: Copying::default(),
            copied_bytes: 0,
            epoch: 0,
            change: None,
            loops: 0,
            busy_loops: 0,
            sleeps: 0,
            longest_round: Duration::ZERO,
            busy: Duration::ZERO,
            stopping: false,
            leaving: None,
            left: None,
            taps: 0,
            counters: None,
            cpu_ns: 0,
        })
    }

    /// Makes the lane write its counters.
    #[must_use]
    pub fn with_counters(mut self, counters: LaneCounters) -> Self {
        self.counters = Some(counters);
        self
    }

    /// Runs until [`command::Command::Stop`]. Pins the calling thread.
    pub fn run(mut self) {
        covalent_log::mark_thread_as_lane();
        self.pinning.begin();
        while !self.stopping {
            if self.left == Some(Left::Deaf) {
                self.wait_for_stop();
            } else {
                self.round();
            }
        }
        if let Some(durable) = &mut self.core.durable {
            durable.flush();
        }
        self.write_all_counters();
    }

    fn round(&mut self) {
        if !self.idler.time_will_do() {
            self.core.now = Instant::now();
        }
        let mut work = self.take_order();
        work += self.poll_journal();
        self.watch_carriers();
        let received = self.receive();
        work += received;
        // Immediately, so that applications work on the burst while the lane continues.
        self.core.publish();
        work += self.take_doorbells();
        self.core.poll_hot_set();
        if work > 0 {
            self.core.sources.on_news();
        }
        let (moved, waits) = self.serve_sources();
        work += moved + usize::from(self.leaving.is_some());
        if let Some(durable) = &mut self.core.durable {
            durable.submit();
        }
        work += self.tick();
        self.report_far_nodes();
        work += self.send_links();
        self.go_on_leaving();
        self.hand_over_taps();
        self.core.publish();
        self.flush();
        self.core.outbox.flush();
        self.loops += 1;
        if work > 0 {
            self.core.sources.on_news();
            self.busy_loops += 1;
            let took = self.core.now.elapsed();
            self.longest_round = self.longest_round.max(took);
            self.busy += took;
        }
        if !self.stopping {
            self.coalesce(work, received);
            self.end_round(work, waits);
        }
    }

    /// Reports newly durable records. Runs before any execution of this round.
    fn poll_journal(&mut self) -> usize {
        let Core {
            durable, engine, ..
        } = &mut self.core;
        let Some(durable) = durable else {
            return 0;
        };
        let lsn = durable.poll(engine);
        if let Some(reason) = durable.new_failure() {
            let lane = self.settings.lane;
            let kind = EventKind::JournalFailed { lane, reason };
            self.core.outbox.push(Report::Event(kind));
        }
        while let Some((ticket, result)) =
            self.core.durable.as_mut().and_then(Durable::next_deleted)
        {
            let answer = result.map_or_else(Answer::InDoubt, |()| Answer::Done);
            let result = Ok(answer);
            self.core.outbox.push(Report::Answer { ticket, result });
        }
        let Some(lsn) = lsn else {
            return 0;
        };
        self.node.on_durable(lsn.0);
        self.core.complete_durable(self.settings.address.bits());
        1
    }

    /// Returns the counter that shows the lane's progress.
    #[must_use]
    pub fn beat(&self) -> Arc<Beat> {
        self.beat.clone()
    }

    /// The durable regions of this lane: names, users and sizes in bytes.
    pub fn durable_regions(&self) -> impl Iterator<Item = (&str, u32, u64)> {
        self.core.durable.iter().flat_map(Durable::regions)
    }

    /// Runs one tick of the links. A lane that was descheduled runs one tick, not many: it first
    /// handles the frames that arrived meanwhile.
    fn tick(&mut self) -> usize {
        if self.core.now < self.next_tick {
            return 0;
        }
        self.next_tick = self.core.now + self.settings.tick_period;
        self.beat.beat();
        self.node.on_tick(&mut self.core);
        if let Some(durable) = &mut self.core.durable {
            durable.tick();
        }
        self.ping_links();
        self.write_counters();
        0
    }

    /// Once per second: checks the pinned core, and makes links send a ping, so that idle links
    /// have a known round trip too. A link with a ping in flight sends none.
    fn ping_links(&mut self) {
        if self.core.now < self.next_ping {
            return;
        }
        self.next_ping = self.core.now + round_trips::PING_INTERVAL;
        self.pinning.recheck();
        for slot in self.ports.iter().filter(|slot| slot.link) {
            self.node.ping(slot.index);
        }
    }

    /// Detaches the vanished device of a port. The rest of it goes to the host thread, because
    /// closing takes longer than a round.
    fn lose_port(&mut self, at: usize, error: &PortError) {
        let slot = &mut self.ports[at];
        let remains = slot.detach_device(error);
        self.core.outbox.push(Report::PortGone {
            port: slot.index,
            reason: slot.port.absent().unwrap_or_default().to_owned(),
            remains,
        });
    }
}

impl LaneSettings {
    fn new(config: &Config, lane: u32, identity: &Identity) -> Self {
        Self {
            lane,
            core: config.lane.get(lane as usize).and_then(|lane| lane.core),
            idle: config.dataplane.idle,
            burst: config.dataplane.burst as usize,
            ethertype: config.link.ethertype,
            address: identity.guid.lane(lane),
            tick_period: Duration::from_millis(config.link.idle_tick_ms.into()),
            policy: Arc::new(Policy::new(config)),
            toeplitz: Toeplitz::new(&config.dataplane.rss_key),
        }
    }
}

/// Returns the parameters that the links of a lane announce. Each lane is a separate node to them,
/// with its own regions and latches: no lane knows the exchanges of another.
fn node_config(config: &Config, lane: u32, identity: &Identity) -> Result<NodeConfig, LaneError> {
    let name = name::of_lane(&config.node.name, lane);
    Ok(NodeConfig {
        guid: identity.guid.lane(lane).bits(),
        incarnation: identity.incarnation,
        name: Name::new(&name)
            .map_err(|error| LaneError::Protocol(format!("node.name `{name}`: {error}")))?,
        slots: u8::try_from(config.link.slots).map_err(|_| {
            LaneError::Protocol(format!(
                "link.slots is {}, expected 1 to 255",
                config.link.slots
            ))
        })?,
        keepalive_misses_max: config.link.keepalive_misses_max,
        message_bytes_max: VERB_BYTES_MAX as u16,
        event_ratio: config.link.event_ratio,
        ethertype: config.link.ethertype,
        transactions_max: TRANSACTIONS_MAX,
        first_sequence: 0,
        // Cables between lanes may share epochs. The epochs of two lanes on two cables must reveal
        // nothing about each other.
        epoch_seed: identity.epoch_seed.rotate_left(lane % 64),
        // The other lanes are reached over lane 0, or by a neighbor of their own.
        fabric: config.fabric.enabled.then_some(FabricConfig {
            roots: lane == 0,
            roots_max: config.fabric.roots_max,
            paths: config.fabric.paths,
            transits: config.fabric.transits,
        }),
    })
}

#[cfg(test)]
mod neighbor_share;
#[cfg(test)]
pub(crate) mod played_port;
#[cfg(test)]
mod round_bounds;
#[cfg(test)]
mod tests;
