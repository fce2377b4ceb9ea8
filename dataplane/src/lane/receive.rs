//! Ports → links and pipes.

use arrayvec::ArrayVec;

use super::{Lane, core::Core};
use crate::{
    flow::Target,
    port::{BURST_FRAMES, Burst, PortError},
};

/// Who gets a frame.
#[derive(Debug, Clone, Copy)]
enum Owner {
    /// The link of its port.
    Link,
    /// As the flow table has it; `None` without a binding.
    Flow(Option<Target>),
}

impl Lane {
    /// Takes one burst from each port. Returns the number of frames.
    pub(super) fn receive(&mut self) -> usize {
        let mut received = 0;
        for at in 0..self.ports.len() {
            received += self.receive_from(at);
        }
        received
    }

    fn receive_from(&mut self, at: usize) -> usize {
        let mut received = 0;
        loop {
            let wanted = (self.settings.burst - received).min(BURST_FRAMES);
            let count = self.receive_burst(at, wanted);
            received += count;
            if count < wanted || received == self.settings.burst {
                return received;
            }
        }
    }

    /// Takes up to `wanted` frames at once: classifies all, delivers all, and then returns their
    /// memory to the port.
    fn receive_burst(&mut self, at: usize, wanted: usize) -> usize {
        let Self {
            ports,
            node,
            core,
            settings,
            ..
        } = self;
        let slot = &mut ports[at];
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
                Owner::Link => node.on_frame(slot.index, frame, core),
                Owner::Flow(Some(Target::Pipe(pipe))) => {
                    slot.pipe_full += u64::from(!core.deliver_frame(pipe, frame));
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
                self.lose_port(at, &error);
                0
            }
        }
    }

    /// Compares each port's carrier with the last report to its link.
    pub(super) fn watch_carriers(&mut self) {
        let Self {
            ports, node, core, ..
        } = self;
        for slot in ports {
            let carrier = slot.port.carrier();
            if carrier != slot.carrier {
                slot.carrier = carrier;
                slot.transmit_failed = false;
                if slot.link {
                    node.on_carrier(slot.index, carrier, core);
                }
                report_carrier(core, slot.index, carrier);
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

pub(super) fn report_carrier(core: &mut Core, port: u16, up: bool) {
    let port = core.port_names.get(&port).cloned().unwrap_or_default();
    core.outbox.push(super::command::Report::Event(
        covalent_api::event::EventKind::Carrier { port, up },
    ));
}
