//! The ports of a lane and the links on them: bursts in and out.
//!
//! - A burst is a vector: all its frames are classified, then all are delivered, then their memory
//!   returns to the port. Nothing runs per frame but the code of its stage.
//! - A frame with the EtherType of links goes to the node alone; an application can neither
//!   bind nor send one.
//! - The node knows of each port with a link the carrier that was last reported here, and each loss
//!   of a frame that it sent.
//! - A round takes at most a burst of each port, so no neighbor takes anything that another one is
//!   due.

use arrayvec::ArrayVec;
use covalent_api::request::PipeKind;
use covalent_pipe::nic::NicPipe;
use covalent_protocol::{FRAME_BYTES_MAX, Node};

use super::{
    LaneSettings, command::Report, host::LaneHost, pipes::Pipes, port_slot::PortSlot,
    reports::Reports, serve::Served, stamp, turns::Turns,
};
use crate::{
    flow::Target,
    port::{BURST_FRAMES, Burst, PortError, TxRefusal},
};

/// See the module.
pub(super) struct Ports {
    pub slots: Vec<PortSlot>,
    /// The state machine of all links.
    pub node: Node,
    /// Where link frames are put together.
    link_frame: Box<[u8; FRAME_BYTES_MAX]>,
    /// The order in which links are polled.
    turns: Turns,
    /// Ports that are captured.
    pub taps: usize,
}

/// Who gets a frame.
#[derive(Debug, Clone, Copy)]
enum Owner {
    /// The link of its port.
    Link,
    /// As the flow table has it; `None` without a binding.
    Flow(Option<Target>),
}

impl Ports {
    /// Ports whose links are links of `node`.
    pub fn new(slots: Vec<PortSlot>, node: Node) -> Self {
        Self {
            slots,
            node,
            link_frame: Box::new([0; FRAME_BYTES_MAX]),
            turns: Turns::default(),
            taps: 0,
        }
    }

    /// Takes one burst from each port. Returns the number of frames.
    pub fn receive(&mut self, settings: &LaneSettings, host: &mut LaneHost<'_>) -> usize {
        let mut received = 0;
        for at in 0..self.slots.len() {
            received += self.receive_from(at, settings, host);
        }
        received
    }

    fn receive_from(
        &mut self,
        at: usize,
        settings: &LaneSettings,
        host: &mut LaneHost<'_>,
    ) -> usize {
        let mut received = 0;
        loop {
            let wanted = (settings.burst - received).min(BURST_FRAMES);
            let count = self.receive_burst(at, wanted, settings, host);
            received += count;
            if count < wanted || received == settings.burst {
                return received;
            }
        }
    }

    fn receive_burst(
        &mut self,
        at: usize,
        wanted: usize,
        settings: &LaneSettings,
        host: &mut LaneHost<'_>,
    ) -> usize {
        let Self { slots, node, .. } = self;
        let slot = &mut slots[at];
        let mut burst = Burst::new();
        let result = slot.port.rx_burst(wanted, &mut burst);
        let link_type = slot.link.then_some(settings.ethertype);
        if let Some(tap) = &mut slot.tap {
            for frame in burst.frames() {
                tap.capture(frame, is_link_frame(frame, link_type), false);
            }
        }
        let mut owners = ArrayVec::<Owner, BURST_FRAMES>::new();
        for frame in burst.frames() {
            owners.push(if is_link_frame(frame, link_type) {
                Owner::Link
            } else {
                Owner::Flow(slot.flow.lookup(&settings.toeplitz, frame))
            });
        }
        let mut missed = 0;
        for (frame, &owner) in burst.frames().iter().zip(&owners) {
            match owner {
                Owner::Link => node.on_frame(slot.index, frame, host),
                Owner::Flow(Some(Target::Pipe(pipe))) => {
                    slot.pipe_full += u64::from(!host.pipes.deliver_frame(pipe, frame));
                }
                Owner::Flow(Some(Target::Kernel)) => slot.steered_to_kernel += 1,
                Owner::Flow(Some(Target::Drop)) => slot.steered_to_drop += 1,
                Owner::Flow(None) => missed += 1,
            }
        }
        drop(burst);
        slot.port.release();
        if slot.drops_misses {
            slot.steered_to_drop += missed;
        } else {
            slot.no_pipe += missed;
        }
        match result {
            Ok(received) => {
                if received > 0 && slot.round_trips.is_in_flight() {
                    slot.round_trips.on_received(node.pending_ping(slot.index));
                }
                received
            }
            // The carrier shows the same, and the link gets its state from there.
            Err(PortError::LinkDown { .. }) => 0,
            Err(error) => {
                self.lose(at, &error, host.reports);
                0
            }
        }
    }

    /// Compares each port's carrier with the last report to its link.
    pub fn watch_carriers(&mut self, host: &mut LaneHost<'_>) {
        for slot in &mut self.slots {
            let carrier = slot.port.carrier();
            if carrier != slot.carrier {
                slot.carrier = carrier;
                slot.transmit_failed = false;
                if slot.link {
                    self.node.on_carrier(slot.index, carrier, host);
                }
                host.reports.carrier(slot.index, carrier);
            }
        }
    }

    /// Reports a loss of carrier at this port to its link and to subscribers, whatever the port
    /// itself reports.
    pub fn unplug(&mut self, number: u16, host: &mut LaneHost<'_>) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == number) else {
            return;
        };
        if std::mem::replace(&mut slot.carrier, false) {
            if slot.link {
                self.node.on_carrier(number, false, host);
            }
            host.reports.carrier(number, false);
        }
    }

    /// Detaches the vanished device of a port. The rest of it goes to the host thread, because
    /// closing takes longer than a round.
    pub fn lose(&mut self, at: usize, error: &PortError, reports: &mut Reports) {
        let slot = &mut self.slots[at];
        let remains = slot.detach_device(error);
        reports.push(Report::PortGone {
            port: slot.index,
            reason: slot.port.absent().unwrap_or_default().to_owned(),
            remains,
        });
    }

    /// Sends packets of the pipe in `slot`, up to its quota. Returns their number.
    pub fn send_from(
        &mut self,
        slot: usize,
        settings: &LaneSettings,
        pipes: &mut Pipes,
    ) -> (usize, Served) {
        let Some(pipe) = pipes.slots.get_mut(slot) else {
            return (0, Served::Empty);
        };
        let Some(port) = pipe
            .port
            .and_then(|index| self.slots.iter_mut().find(|port| port.index == index))
        else {
            return (0, Served::Empty);
        };
        if !port.is_open() {
            return (0, Served::Blocked);
        }
        let quota = settings.burst.min(port.data_space());
        let before = examined_packets(&pipe.nic);
        let stamp_at = pipe.stamp_at.filter(|_| pipe.kind == PipeKind::Tx);
        // Read once for all packets of this turn: a read per packet would cost more than its
        // precision is worth.
        let now_ns = pipe.pacer.as_ref().map_or(0, |_| stamp::now_ns());
        let mut stopped = None;
        let mut unstamped = 0;
        let taken = pipe.nic.take_tx(quota, |frame| {
            let wait_ns = pipe
                .pacer
                .as_ref()
                .and_then(|pacer| pacer.wait_until_ns(now_ns));
            if let Some(until_ns) = wait_ns {
                stopped = Some(Served::Paced(until_ns));
                return false;
            }
            match port.send_data(frame, settings.ethertype, stamp_at, &mut unstamped) {
                Ok(()) => {
                    port.unflushed = true;
                    if let Some(pacer) = &mut pipe.pacer {
                        pacer.sent(now_ns, frame.len());
                    }
                }
                // The port counts it; the verbs library refuses such frames before they get here.
                Err(TxRefusal::TooLong { .. } | TxRefusal::Runt { .. }) => {}
                Err(TxRefusal::Full) => {
                    stopped = Some(Served::Full);
                    return false;
                }
                Err(TxRefusal::Down) => {
                    stopped = Some(Served::Blocked);
                    return false;
                }
            }
            true
        });
        if unstamped > 0 {
            pipe.nic.count_unstamped(unstamped);
        }
        let moved = (examined_packets(&pipe.nic) - before) as usize;
        if let Err(violation) = taken {
            pipes.violate_pipe(slot, violation);
            return (moved, Served::Empty);
        }
        let served = if let Some(stopped) = stopped {
            stopped
        } else if moved == quota && quota < settings.burst {
            Served::Full
        } else if moved == quota || pipe.nic.tx_waits() {
            Served::More
        } else {
            Served::Empty
        };
        // The port copied each frame, so the application gets its memory back now. This includes
        // discarded packets: a ring full of them would otherwise stay full.
        pipes.complete_tx(slot);
        (moved, served)
    }

    /// Sends the pending frames of the links, one frame of each link in turn. It begins after the
    /// link that sent last, so that links to the same peer share its exchanges even with few per
    /// round. Returns the number of frames.
    pub fn send_links(&mut self, host: &mut LaneHost<'_>) -> usize {
        let count = self.slots.len();
        let mut sent = 0;
        loop {
            let before = sent;
            for at in self.turns.order(count) {
                if self.send_link(at, host) {
                    sent += 1;
                    self.turns.sent(at, count);
                }
            }
            if sent == before {
                return sent;
            }
        }
    }

    /// Sends one frame of the link on the port at index `at`, if it has one and the port has space.
    fn send_link(&mut self, at: usize, host: &mut LaneHost<'_>) -> bool {
        let port = &mut self.slots[at];
        if !port.link || !self.node.has_work(port.index) || !port.has_link_space() {
            return false;
        }
        let Some(length) = self
            .node
            .poll_transmit(port.index, &mut self.link_frame[..])
        else {
            return false;
        };
        if port.send(&self.link_frame[..length], true).is_err() {
            // On a first-in-first-out cable an unsent frame is a loss, and a loss is a failure.
            self.node.on_transmit_failed(port.index, host);
            return false;
        }
        port.unflushed = true;
        port.round_trips.sent(self.node.pending_ping(port.index));
        true
    }

    /// Whether a link has something to send.
    pub fn has_link_work(&self) -> bool {
        self.slots
            .iter()
            .any(|slot| slot.link && slot.is_open() && self.node.has_work(slot.index))
    }

    /// Makes each link send a ping, unless it has one in flight.
    pub fn ping_links(&mut self) {
        for slot in self.slots.iter().filter(|slot| slot.link) {
            self.node.ping(slot.index);
        }
    }

    /// Moves the records captured in this round to their pipes.
    pub fn hand_over_taps(&mut self, pipes: &mut Pipes) {
        if self.taps == 0 {
            return;
        }
        for tap in self.slots.iter_mut().filter_map(|slot| slot.tap.as_mut()) {
            tap.hand_over(pipes);
        }
    }

    /// Rings the ports' doorbells.
    pub fn flush(&mut self, host: &mut LaneHost<'_>) {
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            if !slot.unflushed && slot.port.tx_idle() {
                continue;
            }
            slot.unflushed = false;
            match slot.port.flush() {
                Ok(()) => slot.transmit_failed = false,
                Err(PortError::LinkDown { .. }) => {
                    if !std::mem::replace(&mut slot.transmit_failed, true) && slot.link {
                        self.node.on_transmit_failed(slot.index, host);
                    }
                }
                Err(error) => self.lose(at, &error, host.reports),
            }
        }
    }
}

fn is_link_frame(frame: &[u8], link_type: Option<u16>) -> bool {
    match (frame, link_type) {
        (&[_, _, _, _, _, _, _, _, _, _, _, _, high, low, ..], Some(link_type)) => {
            u16::from_be_bytes([high, low]) == link_type
        }
        _ => false,
    }
}

/// Packets taken from `nic`, sent or not: a packet that the application discarded costs time too.
fn examined_packets(nic: &NicPipe) -> u64 {
    let counters = nic.counters();
    counters.tx_packets + counters.tx_discarded
}

#[cfg(test)]
mod neighbor_share;
#[cfg(test)]
mod tests;
