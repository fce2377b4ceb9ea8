//! Lanes: pinned threads that move packets.
//!
//! ```text
//! commands → ports' bursts → links, pipes → doorbells → pipes' packets → ports, verbs
//!          → journal → tick → links' frames → flush → rest
//! ```
//!
//! A lane shares nothing with another one. It consists of five objects, each with an invariant of
//! its own in the file of its name:
//!
//! | object | content |
//! |---|---|
//! | `ports` | ports and the links on them: bursts in and out |
//! | `pipes` | applications: deliveries, notifications, doorbells |
//! | `verbs` | verbs submitted here, and executed for others |
//! | `journal` | the durable regions |
//! | `housekeeping` | commands, reports, configuration, time, rest |
//!
//! `host` is the view of them that the protocol acts on. A command may concern all of them, so it
//! is a method of [`Lane`] (`commands`).
//!
//! One bounded mailbox in each direction connects a lane to the host thread. On the packet path it
//! takes no lock, allocates nothing, logs nothing and makes no system call except the doorbells of
//! ports and applications.

mod coalesce;
pub mod command;
mod commands;
mod copying;
mod durable;
pub mod engine;
mod failover;
mod far_nodes;
mod fill;
mod groups;
mod host;
mod hot_set;
mod housekeeping;
mod idle;
mod journal;
mod leave;
pub mod new_port;
mod outbox;
mod pacer;
mod paths;
mod pending;
mod pinning;
mod pipes;
pub mod policy;
mod port_slot;
mod ports;
pub mod reconfigure;
mod refusal;
mod release;
mod reports;
mod round_trips;
mod serve;
mod snapshot;
mod sources;
mod stamp;
mod table;
mod tap;
mod turns;
mod verbs;
mod yield_core;

use std::{sync::Arc, time::Duration};

pub(crate) use self::durable::region_of;
use self::{
    command::{Order, Report},
    durable::Durable,
    host::LaneHost,
    housekeeping::Housekeeping,
    idle::Idler,
    journal::LaneJournal,
    leave::Left,
    new_port::NewPort,
    pinning::Pinning,
    pipes::Pipes,
    policy::Policy,
    port_slot::PortSlot,
    ports::Ports,
    reports::Reports,
    verbs::Verbs,
};
use crate::{
    flow::Toeplitz,
    identity::Identity,
    journal::{Journal, Recovered},
    mailbox::Mailbox,
    port::PortError,
    progress::Beat,
    telemetry::LaneCounters,
};
use covalent_api::{guid::Guid, name};
use covalent_config::{Config, Idle};
use covalent_protocol::{AddLinkError, FabricConfig, Name, Node, NodeConfig, verb::VERB_BYTES_MAX};

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
    ports: Ports,
    pipes: Pipes,
    verbs: Verbs,
    journal: LaneJournal,
    housekeeping: Housekeeping,
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
        let reports = Reports::new(lane, &ports, reports);
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
        let spin = Duration::from_micros(config.dataplane.spin_us.into());
        let housekeeping = Housekeeping::new(
            orders,
            reports,
            Pinning::new(settings.lane, settings.core),
            Idler::new(settings.idle, spin),
            settings.tick_period,
        );
        Ok(Self {
            pipes: Pipes::new(),
            verbs: Verbs::new(node.queries_max()),
            journal: LaneJournal::new(journal),
            ports: Ports::new(slots, node),
            housekeeping,
            settings,
        })
    }

    /// Makes the lane write its counters.
    #[must_use]
    pub fn with_counters(mut self, counters: LaneCounters) -> Self {
        self.housekeeping.counters = Some(counters);
        self
    }

    /// Returns the counter that shows the lane's progress.
    #[must_use]
    pub fn beat(&self) -> Arc<Beat> {
        self.housekeeping.beat.clone()
    }

    /// The durable regions of this lane: names, users and sizes in bytes.
    pub fn durable_regions(&self) -> impl Iterator<Item = (&str, u32, u64)> {
        self.journal.durable.iter().flat_map(Durable::regions)
    }

    /// Runs until [`command::Command::Stop`]. Pins the calling thread.
    pub fn run(mut self) {
        covalent_log::mark_thread_as_lane();
        self.housekeeping.pinning.begin();
        while !self.housekeeping.stopping {
            if self.housekeeping.left == Some(Left::Deaf) {
                self.wait_for_stop();
            } else {
                self.round();
            }
        }
        self.journal.flush();
        self.write_all_counters();
    }

    fn round(&mut self) {
        self.housekeeping.begin_round();
        let mut work = self.take_order();
        work += self.poll_journal();

        self.watch_carriers();
        let (settings, ports, mut host) = self.parts();
        let received = ports.receive(settings, &mut host);
        work += received;

        // Immediately, so that applications work on the burst while the lane continues.
        self.pipes.publish();
        work += self.pipes.take_doorbells(self.settings.burst);
        self.pipes.poll_hot_set();

        // Packets of pipes to ports, and verbs.
        if work > 0 {
            self.pipes.sources.on_news();
        }
        let (moved, waits) = self.serve_sources();
        work += moved + usize::from(self.housekeeping.leaving.is_some());

        self.journal.submit();

        self.tick();
        self.report_far_nodes();
        let (_, ports, mut host) = self.parts();
        work += ports.send_links(&mut host);
        self.go_on_leaving();
        self.ports.hand_over_taps(&mut self.pipes);
        self.pipes.publish();
        let (_, ports, mut host) = self.parts();
        ports.flush(&mut host);

        self.housekeeping.report(&mut self.pipes);
        self.housekeeping.count_round(work);
        if work > 0 {
            self.pipes.sources.on_news();
        }
        if !self.housekeeping.stopping {
            self.coalesce(work, received);
            self.end_round(work, waits);
        }
    }

    /// The ports, and what their links act on.
    fn parts(&mut self) -> (&LaneSettings, &mut Ports, LaneHost<'_>) {
        let Self {
            settings,
            ports,
            pipes,
            verbs,
            journal,
            housekeeping,
        } = self;
        let host = LaneHost {
            pipes,
            verbs,
            journal,
            reports: &mut housekeeping.reports,
        };
        (settings, ports, host)
    }

    fn watch_carriers(&mut self) {
        let (_, ports, mut host) = self.parts();
        ports.watch_carriers(&mut host);
    }

    /// Completes what has reached the disk. Runs before any execution of this round.
    fn poll_journal(&mut self) -> usize {
        let (settings, ports, mut host) = self.parts();
        let polled = host
            .journal
            .poll(settings.lane, &host.verbs.engine, host.reports);
        let Some(lsn) = polled else {
            return 0;
        };
        ports.node.on_durable(lsn.0);
        host.complete_durable(settings.address.bits());
        1
    }

    /// Runs one tick of the links, if it is due.
    fn tick(&mut self) {
        if !self.housekeeping.clock.ticks(self.settings.tick_period) {
            return;
        }
        self.housekeeping.beat.beat();
        let (_, ports, mut host) = self.parts();
        ports.node.on_tick(&mut host);
        self.journal.tick();
        if self.housekeeping.clock.pings() {
            self.housekeeping.pinning.recheck();
            self.ports.ping_links();
        }
        self.write_counters();
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
pub(crate) mod played_port;
