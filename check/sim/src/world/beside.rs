//! The liar beside the world, and its cable.

use super::World;
use crate::{book::NodeIncarnation, liar::Liar, mutant::Mutant};

impl World {
    /// Cables a liar to some node.
    pub(super) fn add_liar(&mut self) {
        let at = self.rng.usize(..self.nodes.len());
        let port = self.ports_of(at).last().map_or(0, |port| port + 1);
        let node_incarnation = (self.options.mutant == Some(Mutant::TrustsAnyName)).then(|| {
            self.witness
                .book
                .node_incarnation((at + 1) % self.nodes.len())
        });
        self.liar = Some(Liar::new(at, port, &self.node_config(at), node_incarnation));
        self.witness.book.record_liar();
        self.plug_liar(at);
    }

    /// Handles a new incarnation of a node: the liar's neighbor gets an additional port.
    pub(super) fn plug_liar(&mut self, node: usize) {
        let Some(port) = self
            .liar
            .as_ref()
            .filter(|it| it.at == node)
            .map(|it| it.port)
        else {
            return;
        };
        let added = self.nodes[node].add_link(port, [2, 0, 0, 1, node as u8, port as u8]);
        debug_assert_eq!(added, Ok(()));
        self.with(node, |node, program| node.on_carrier(port, true, program));
    }

    /// The liar is gone.
    pub(super) fn part_liar(&mut self) {
        if let Some(Liar { at, port, .. }) = self.liar.take() {
            self.with(at, |node, program| node.on_carrier(port, false, program));
        }
    }

    /// The liar sends something, receives its neighbor's frames, or one of its frames arrives.
    pub(super) fn lie(&mut self) {
        let Some(mut liar) = self.liar.take() else {
            return;
        };
        let (at, port) = (liar.at, liar.port);
        match self.rng.u8(..8) {
            0..3 => {
                let node_incarnations: Vec<NodeIncarnation> = (0..self.nodes.len())
                    .map(|node| self.witness.book.node_incarnation(node))
                    .collect();
                liar.lie(&node_incarnations, self.plan.slots, &mut self.rng);
                liar.turn(false);
            }
            3 => liar.turn(true),
            4..6 => {
                if let Some(len) = self.nodes[at].poll_transmit(port, &mut self.buffer[..]) {
                    liar.send(&self.buffer[..len]);
                }
                liar.turn(false);
            }
            _ => {
                if let Some(frame) = liar.take() {
                    self.with(at, |node, program| node.on_frame(port, &frame, program));
                }
            }
        }
        self.liar = Some(liar);
    }
}
