//! The liar beside the world, and its cable.

use super::World;
use crate::{book::Life, liar::Liar, mutant::Mutant};

impl World {
    /// Cables a liar to some node.
    pub(super) fn add_liar(&mut self) {
        let at = self.rng.usize(..self.nodes.len());
        let port = self.ports_of(at).last().map_or(0, |port| port + 1);
        let life = (self.options.mutant == Some(Mutant::TrustsAnyName))
            .then(|| self.witness.book.life((at + 1) % self.nodes.len()));
        self.liar = Some(Liar::new(at, port, &self.node_config(at), life));
        self.witness.book.note_liar();
        self.plug_liar(at);
    }

    /// A node begins a life: if it is the liar's neighbor it has a port more.
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

    /// The liar says something, or hears what its neighbor says, or a frame of it arrives.
    pub(super) fn lie(&mut self) {
        let Some(mut liar) = self.liar.take() else {
            return;
        };
        let (at, port) = (liar.at, liar.port);
        match self.rng.u8(..8) {
            0..3 => {
                let lives: Vec<Life> = (0..self.nodes.len())
                    .map(|node| self.witness.book.life(node))
                    .collect();
                liar.lie(&lives, self.plan.slots, &mut self.rng);
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
