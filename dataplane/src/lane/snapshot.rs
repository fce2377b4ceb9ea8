//! The counters of a lane: returned on command, and written to shared memory at ticks.

use covalent_api::{
    guid::Guid,
    request::PipeKind,
    status::{Causes, LaneStatus, LinkStatus, PipeStatus, PortStatus, VerbStatus},
};
use covalent_config::Idle;
use covalent_protocol::LinkView;
use nix::time::{ClockId, clock_gettime};

use super::{
    Lane,
    command::{Answer, LaneSnapshot},
    durable::Durable,
    port_slot::PortSlot,
    refusal,
    table::LanePipe,
};
use crate::{port::PortCounters, telemetry::LaneSet};

/// Slots read in one round. A lane that reported 4096 pipes in one round took 4.6 to 9 ms, and all
/// other work waited.
const PIPES_PER_ROUND: usize = 32;

/// Pipes written per tick: a thousand take a third of a second at the default tick, and some 5 ms
/// of a lane's second.
const PIPES_PER_WRITING: usize = 64;

impl Lane {
    /// Returns the counters of the pipes in some slots from `from` on. Allocates, as
    /// [`Lane::snapshot`].
    pub(super) fn snapshot_pipes(&mut self, from: usize) -> Answer {
        let end = from.saturating_add(PIPES_PER_ROUND);
        for slot in from..end {
            self.collect_refusals(slot);
            self.show_losses(slot);
        }
        Answer::Pipes {
            pipes: (from..end)
                .filter_map(|slot| self.named_pipe_status(slot))
                .collect(),
            next: (end < self.pipes.slots.len()).then_some(end),
        }
    }

    /// Allocates: for a command, never on the way of a packet.
    pub(super) fn snapshot(&mut self) -> LaneSnapshot {
        // `tx_space` reclaims sent frames, so it comes first.
        let rooms: Vec<u64> = self
            .ports
            .slots
            .iter_mut()
            .map(|slot| slot.port.tx_space() as u64)
            .collect();
        let counted: Vec<_> = self.ports.slots.iter_mut().map(PortSlot::count).collect();
        LaneSnapshot {
            lane: self.lane_status(thread_cpu_ns()),
            ports: self
                .ports
                .slots
                .iter()
                .zip(rooms)
                .zip(counted)
                .filter(|((slot, _), _)| slot.is_configured)
                .map(|((slot, room), counted)| (slot.index, self.port_status(slot, room, counted)))
                .collect(),
            // The node keeps the link of a removed port for its return.
            links: self
                .ports
                .node
                .links()
                .filter(|link| self.has_link(link.port))
                .map(|link| self.link_status(&link))
                .collect(),
            fabric: self.fabric_status(),
            nodes: self.far_node_status(),
            paths: self.path_status(),
            groups: self.group_status(),
            verbs: self.verb_status(),
        }
    }

    /// Writes the counters in shared memory that are due. The work per tick is bounded like that of
    /// a command.
    pub(super) fn write_counters(&mut self) {
        let Some(mut counters) = self.housekeeping.counters.take() else {
            return;
        };
        if let Some(due) = counters.due(self.housekeeping.clock.now) {
            let mut set = counters.begin();
            let next = due
                .pipes
                .and_then(|from| self.write_pipes(&mut set, from, PIPES_PER_WRITING));
            if due.rest {
                self.write_rest(&mut set, due.calls);
            }
            drop(set);
            if due.pipes.is_some() {
                counters.continue_at(next);
            }
        }
        self.housekeeping.counters = Some(counters);
    }

    /// Writes all of them, for the last time.
    pub(super) fn write_all_counters(&mut self) {
        let Some(mut counters) = self.housekeeping.counters.take() else {
            return;
        };
        let mut set = counters.begin();
        self.write_pipes(&mut set, 0, usize::MAX);
        self.write_rest(&mut set, true);
    }

    /// Writes `count` pipes from slot `from` on. Returns the next slot; `None` after the last one.
    fn write_pipes(&mut self, set: &mut LaneSet<'_>, from: usize, count: usize) -> Option<usize> {
        let slots = self.pipes.slots.len();
        let end = from.saturating_add(count).min(slots);
        for slot in from..end {
            self.collect_refusals(slot);
            self.show_losses(slot);
            set.pipe(slot, self.pipe_status(slot).as_ref());
        }
        if end < slots {
            return Some(end);
        }
        set.pipes_end(slots, |slot| self.pipes.slots.get(slot).is_some());
        None
    }

    /// Writes everything except the pipes. Values that need system or driver calls are read only if
    /// `calls` is set. Otherwise they keep their last value.
    fn write_rest(&mut self, set: &mut LaneSet<'_>, calls: bool) {
        set.count_anew();
        if calls {
            self.housekeeping.load.cpu_ns = thread_cpu_ns();
        }
        set.lane(&self.lane_status(self.housekeeping.load.cpu_ns));
        for at in 0..self.ports.slots.len() {
            let room = self.ports.slots[at].port.tx_space() as u64;
            let slot = &mut self.ports.slots[at];
            // The driver of a DPDK device may take long to count. Its link is written together with
            // it, because the two are compared.
            if slot.port.info().kind == "dpdk" && !calls {
                continue;
            }
            if slot.is_configured {
                let counters = if calls {
                    slot.count()
                } else {
                    slot.counters_at_hand()
                };
                let slot = &self.ports.slots[at];
                set.port(at, &self.port_status(slot, room, counters));
            } else {
                set.no_port(at);
            }
            let slot = &self.ports.slots[at];
            let mut links = self.ports.node.links();
            match links.find(|link| link.port == slot.index && self.has_link(link.port)) {
                Some(link) => set.link(at, slot.index, &self.link_status(&link)),
                None => set.no_link(at),
            }
        }
        set.groups(&self.group_status());
        if let Some(fabric) = self.fabric_status() {
            set.fabric(&fabric, self.settings.lane == 0);
        }
        set.verbs(&self.verb_status());
    }

    fn verb_status(&self) -> VerbStatus {
        let (submitted, completed) = self.verbs.counts();
        VerbStatus {
            submitted,
            completed,
            in_doubt: self.ports.node.in_doubt(),
            executed: self.verbs.engine.executed(),
            refused: self.verbs.engine.refused(),
        }
    }

    fn has_link(&self, port: u16) -> bool {
        let mut slots = self.ports.slots.iter();
        slots.any(|slot| slot.index == port && slot.link && slot.is_configured)
    }

    fn lane_status(&self, cpu_ns: u64) -> LaneStatus {
        LaneStatus {
            lane: self.settings.lane,
            address: Some(self.settings.address),
            core: self.housekeeping.pinning.core(),
            idle: match self.settings.idle {
                Idle::Poll => "poll",
                Idle::Adaptive => "adaptive",
                Idle::Interrupt => "interrupt",
            }
            .to_owned(),
            loops: self.housekeeping.load.loops,
            busy_loops: self.housekeeping.load.busy_loops,
            sleeps: self.housekeeping.load.sleeps,
            cpu_ns,
            longest_round_ns: nanoseconds(self.housekeeping.load.longest_round),
            busy_ns: nanoseconds(self.housekeeping.load.busy),
            journal: self.journal.durable.as_ref().map(Durable::status),
        }
    }

    /// Returns the frames lost by the ports from which this pipe receives, since their start, as of
    /// the last count.
    pub(super) fn lost_for(&self, pipe: &LanePipe) -> u64 {
        let ports = self.ports.slots.iter();
        ports
            .filter(|slot| pipe.receives_from(slot.index))
            .map(|slot| slot.lost)
            .sum()
    }

    /// Publishes the frames lost by its ports to the application of the pipe in `slot`. They
    /// include frames for other pipes.
    fn show_losses(&mut self, slot: usize) {
        let Some(pipe) = self.pipes.slots.get(slot) else {
            return;
        };
        let lost = self.lost_for(pipe).saturating_sub(pipe.lost_before);
        if let Some(pipe) = self.pipes.slots.get_mut(slot) {
            pipe.nic.set_port_lost(lost);
        }
    }

    /// Adds the new refusals of the application's half of the pipe in `slot` to its port's
    /// counters, which outlive the pipe.
    pub(super) fn collect_refusals(&mut self, slot: usize) {
        let Some(pipe) = self.pipes.slots.get_mut(slot) else {
            return;
        };
        let Some(port) = self
            .ports
            .slots
            .iter_mut()
            .find(|port| pipe.kind == PipeKind::Tx && Some(port.index) == pipe.port)
        else {
            return;
        };
        let refused = pipe.nic.refused();
        match refused.since(pipe.refused) {
            Ok(more) => {
                port.refused.add(more);
                pipe.refused = refused;
            }
            Err(violation) => self.pipes.violate_pipe(slot, violation),
        }
    }

    fn port_status(
        &self,
        slot: &PortSlot,
        tx_room_frames: u64,
        counters: PortCounters,
    ) -> PortStatus {
        let info = slot.port.info();
        let mut drops = causes(counters.drops);
        drops.insert("pipe_full".to_owned(), slot.pipe_full);
        let mut refusals = causes(counters.refusals);
        for (cause, count) in [
            ("link_type", slot.link_type),
            ("link_type", slot.refused.link_type),
            ("runt", slot.refused.too_short),
            ("too_long", slot.refused.too_long),
            ("pipe_full", slot.refused.full),
        ] {
            let total = refusals.entry(cause.to_owned()).or_default();
            *total = total.saturating_add(count);
        }
        drops.insert("no_pipe".to_owned(), slot.no_pipe);
        drops.insert("steered_to_kernel".to_owned(), slot.steered_to_kernel);
        // The port counts the drops of its XDP program under the same name.
        *drops.entry("steered_to_drop".to_owned()).or_default() += slot.steered_to_drop;
        PortStatus {
            name: info.name.clone(),
            kind: info.kind.to_owned(),
            number: slot.index,
            interface: info.interface.clone(),
            absent: slot.port.absent().map(ToOwned::to_owned),
            facts: slot.port.facts().cloned(),
            lane: self.settings.lane,
            carrier: slot.carrier,
            mode: info.mode.clone(),
            frame_bytes_max: info.frame_bytes_max,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            passed_to_kernel_packets: counters.passed_to_kernel_packets,
            drops,
            refusals,
            faults: causes(counters.faults),
            device_counts: counters.device_counts.into_iter().collect(),
            device_events: causes(counters.device_events),
            xdp_counts: causes(counters.xdp_counts),
            tx_room_frames,
        }
    }

    fn link_status(&self, link: &LinkView<'_>) -> LinkStatus {
        let counters = link.counters;
        LinkStatus {
            port: self
                .housekeeping
                .reports
                .port_names
                .get(&link.port)
                .cloned()
                .unwrap_or_default(),
            state: link.state.as_str().to_owned(),
            peer: link.peer.and_then(Guid::new),
            peer_name: link.peer_name.map(ToString::to_string),
            peer_port: link.peer_port,
            refusal: link
                .refusal
                .map(|why| refusal::report(why, link.port, &self.housekeeping.reports.port_names)),
            epoch: link.epoch,
            open_transactions: link.open_transactions,
            ups: counters.ups,
            failures: causes(counters.failures.iter()),
            tx_frames: counters.tx_frames,
            rx_frames: counters.rx_frames,
            tx_records: counters.tx_records,
            rx_records: counters.rx_records,
            drops: causes(counters.drops.iter()),
            committed: counters.committed,
            refused: counters.refused,
            reversed: counters.reversed,
            resolved: counters.resolved,
            never_seen: counters.never_seen,
            relayed: counters.relayed,
            relays_passed: counters.relays_passed,
            executed: counters.executed,
            last_failover_ns: self
                .housekeeping
                .reports
                .failovers
                .last(link.port)
                .map(nanoseconds),
            credit_records: link.credit_records,
            unreflected_records: link.unreflected_records,
            keepalive_misses: link.keepalive_misses,
            round_trips: self
                .ports
                .slots
                .iter()
                .find(|slot| slot.index == link.port)
                .map(|slot| slot.round_trips.summary())
                .unwrap_or_default(),
        }
    }

    /// With the names for people, which the counters' file, written at each tick, does not have.
    fn named_pipe_status(&self, slot: usize) -> Option<PipeStatus> {
        let pipe = self.pipes.slots.get(slot)?;
        let session = self.pipes.sessions.get(pipe.session);
        let port_names = &self.housekeeping.reports.port_names;
        Some(PipeStatus {
            program: session.map(|session| session.program.to_string()),
            port: pipe.port.and_then(|port| port_names.get(&port).cloned()),
            ..self.pipe_status(slot)?
        })
    }

    fn pipe_status(&self, slot: usize) -> Option<PipeStatus> {
        let pipe = self.pipes.slots.get(slot)?;
        let counters = pipe.nic.counters();
        Some(PipeStatus {
            session: self
                .pipes
                .sessions
                .get(pipe.session)
                .map_or(0, |session| session.session),
            pipe: pipe.number,
            program: None,
            port: None,
            kind: pipe.kind,
            capacity_bytes: pipe.capacity_bytes,
            page_bytes: pipe.page_bytes,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            notifications_sent: counters.notifications_sent,
            notifications_suppressed: counters.notifications_suppressed,
            head_updates: counters.head_updates,
            tx_discarded_packets: counters.tx_discarded,
            unstamped_packets: counters.unstamped,
            tx_full_packets: pipe.refused.full,
            used_bytes: pipe.nic.used_bytes(),
            drops: causes([
                ("full", counters.full),
                ("too_long", counters.too_long),
                ("no_payload", counters.no_payload),
            ]),
            port_lost_packets: counters.port_lost,
        })
    }
}

fn causes(counts: impl IntoIterator<Item = (&'static str, u64)>) -> Causes {
    counts
        .into_iter()
        .map(|(cause, count)| (cause.to_owned(), count))
        .collect()
}

fn thread_cpu_ns() -> u64 {
    // Every supported kernel has this clock. Zero is the fallback.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |time| nanoseconds(time.into()))
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
