//! The liar beside the mesh, and its cable.

use super::{Event, MeshWorld};
use crate::mesh::{content::Content, liar::Liar, room::spare_roots};

/// Ports of a node.
const PORTS_MAX: usize = 16;
/// Units between two lies at most.
const LIE_UNITS_MAX: u64 = 60;
/// Ticks within which nodes that need the space forget invented roots.
const TICKS_TO_FORGET: u64 = 80;

impl MeshWorld {
    /// Cables a liar to some node that has a port to spare.
    pub(super) fn add_liar(&mut self) {
        let mut rng = self.rng.fork();
        let nodes = self.stations.len();
        let spare = |at: &usize| self.stations[*at].ports.len() < PORTS_MAX;
        let at = rng.usize(..nodes);
        let Some(at) = (at..nodes).chain(0..at).find(spare) else {
            return;
        };
        let roots = self.room.roots;
        self.liar = Some(Liar::new(nodes, at, roots, self.room.message_bytes, rng));
        self.witness.scene.lied_roots_max = Some(u64::from(roots) + u64::from(spare_roots(roots)));
        self.queue.add(0, Event::TickBeside);
        self.queue.add(0, Event::Lie);
    }

    /// The port of a node to which the liar is cabled.
    pub(super) fn liar_port(&self, at: usize) -> Option<u16> {
        let liar = self.liar.as_ref().filter(|liar| liar.at == at)?;
        Some(self.stations[liar.at].ports.len() as u16)
    }

    /// Starts or stops the lies. Earlier lies remain.
    pub(super) fn set_lying(&mut self, on: bool) {
        if let Some(liar) = &mut self.liar {
            liar.is_lying = on;
        }
    }

    /// Removes the liar, and waits until its inventions are forgotten.
    pub(in crate::mesh) fn part_liar(&mut self) {
        let Some(at) = self.liar.as_ref().map(|liar| liar.at) else {
            return;
        };
        if let Some(port) = self.liar_port(at) {
            self.with(at, |node, program| node.on_carrier(port, false, program));
        }
        self.liar = None;
        let end = self.now_units() + TICKS_TO_FORGET * self.options.tick_units();
        self.run_until(end);
        self.rest();
    }

    /// The frame in the buffer goes to the liar.
    pub(super) fn send_to_liar(&mut self, len: usize) {
        let now_units = self.now_units();
        let Some(liar) = &mut self.liar else {
            return;
        };
        let frame = &self.buffer[..len];
        let content = Content::of(frame);
        let arrives_in = liar.wire.send(1, now_units, frame, content, &mut self.rng);
        if let Some(units) = arrives_in {
            let arrive = Event::ArriveBeside { at_liar: true };
            self.queue.add(self.now_units() + units, arrive);
        }
    }

    fn flush_liar(&mut self) {
        let now_units = self.now_units();
        let frames = self.liar.as_mut().map(|liar| liar.frames(now_units));
        let frames = frames.unwrap_or_default();
        for units in frames {
            let arrive = Event::ArriveBeside { at_liar: false };
            self.queue.add(self.now_units() + units, arrive);
        }
    }

    pub(super) fn arrive_beside(&mut self, at_liar: bool, event: Event) {
        let now = self.now_units();
        let Some(liar) = &mut self.liar else {
            return;
        };
        let at = liar.at;
        if !at_liar && self.stations[at].stalled_until > now {
            self.queue.add(self.stations[at].stalled_until, event);
            return;
        }
        let Some(frame) = liar.wire.take(usize::from(at_liar)) else {
            return;
        };
        if at_liar {
            liar.receive(&frame.bytes);
            self.flush_liar();
        } else if let Some(port) = self.liar_port(at) {
            self.stations[at].received_at = now;
            self.stations[at].silence_reports = 0;
            self.with(at, |node, program| {
                node.on_frame(port, &frame.bytes, program)
            });
            self.expect_quiet(at);
        }
    }

    pub(super) fn tick_beside(&mut self, event: Event) {
        if let Some(liar) = &mut self.liar {
            liar.tick();
            self.queue
                .add(self.now_units() + self.options.tick_units(), event);
            self.flush_liar();
        }
    }

    pub(super) fn lie(&mut self, event: Event) {
        let Some(mut liar) = self.liar.take() else {
            return;
        };
        if liar.is_lying {
            liar.lie(|node| self.scene().incarnation(node as u16));
        }
        self.liar = Some(liar);
        self.flush_liar();
        let units = self.rng.u64(1..LIE_UNITS_MAX);
        self.queue.add(self.now_units() + units, event);
    }
}
