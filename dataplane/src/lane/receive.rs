//! Ports → links and pipes.

use super::{Lane, core::Core};
use crate::{flow::Target, port::PortError};

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
        let Self {
            ports,
            node,
            core,
            settings,
            ..
        } = self;
        let slot = &mut ports[at];
        let (index, link_type, flow, toeplitz) = (
            slot.index,
            slot.link.then_some(settings.ethertype),
            &mut slot.flow,
            &settings.toeplitz,
        );
        let (mut missed, mut steered_to_kernel, mut steered_to_drop, mut pipe_full) = (0, 0, 0, 0);
        let mut take = |frame: &[u8]| {
            if is_link_frame(frame, link_type) {
                node.on_frame(index, frame, core);
                return;
            }
            match flow.lookup(toeplitz, frame) {
                Some(Target::Pipe(pipe)) => {
                    pipe_full += u64::from(!core.deliver_frame(pipe, frame))
                }
                Some(Target::Kernel) => steered_to_kernel += 1,
                Some(Target::Drop) => steered_to_drop += 1,
                None => missed += 1,
            }
        };
        let result = match &mut slot.tap {
            None => slot.port.rx_burst(settings.burst, &mut take),
            Some(tap) => slot.port.rx_burst(settings.burst, &mut |frame| {
                tap.capture(frame, is_link_frame(frame, link_type), false);
                take(frame);
            }),
        };
        slot.pipe_full += pipe_full;
        slot.steered_to_kernel += steered_to_kernel;
        slot.steered_to_drop += steered_to_drop;
        if slot.drops_misses {
            slot.steered_to_drop += missed;
        } else {
            slot.no_pipe += missed;
        }
        match result {
            Ok(received) => {
                if received > 0 && slot.round_trips.is_in_flight() {
                    slot.round_trips.on_received(node.pending_ping(index));
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
