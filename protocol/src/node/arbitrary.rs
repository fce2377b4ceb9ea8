//! Registers with arbitrary contents, for the proof that a link recovers from any state.
//!
//! The contents of registers are drawn at random. References between structures stay valid, as they
//! do in a program that owns its memory: indexes are valid, a transaction is in one list, a slot
//! with an exchange refers to its transaction.

use alloc::vec::Vec;

use super::{
    Node,
    exchanges::{
        Exchanges,
        initiator::{SentQuery, Unresolved},
    },
};
use crate::{
    DownReason, ExchangeId, Host, Mode,
    draw::Draw,
    latch::{Lost, Standing, Verdict},
    link::{LinkState, outbound::Progress},
};

impl Node {
    /// Draws from `seed` the registers of all links, of the peer tables, and of the exchanges that
    /// wait for a link. Serial numbers are often near `common`. Carriers, the requests of exchanges
    /// and their reporting do not change.
    ///
    /// May be called at any moment. Open exchanges stay open, in another state. Exchanges that
    /// peers had tentative here are reversed at `host`. Tentative exchanges of peers that are drawn
    /// are admitted at `host`; one that it refuses is undone.
    pub fn scramble(&mut self, seed: u64, common: u32, host: &mut impl Host) {
        let draw = &mut Draw::new(seed, common);
        self.reverse_all(host);
        self.exchanges.responder.peers_lost = Lost::drawn(draw);
        self.links.scramble(draw.flag());
        for peer in &mut self.exchanges.peers {
            if draw.below(4) == 0 {
                peer.incarnation = draw.long();
            }
            peer.lost = Lost::drawn(draw);
        }
        self.reach.scramble(draw);
        // For a path, scrambles the route and not the link: its state came over cables, whose links
        // are sound if their channels are.
        for at in self.links.cables() {
            if self.links[at].attachment().is_some() && draw.below(4) == 0 {
                self.forget_peer(at, host);
            }
            let link = &mut self.links[at];
            link.epochs.scramble(draw);
            link.liveness
                .scramble_ticks(self.config.keepalive_misses_max, draw);
            if link.state() == LinkState::Up {
                self.scramble_epoch(at, draw);
            }
        }
        for set in 0..self.exchanges.responder.sets.len() {
            if self.exchanges.responder.sets[set].owner.is_some() {
                self.scramble_latches(set, draw, host);
            }
        }
        if let Some(fabric) = &mut self.fabric {
            fabric.scramble(draw, &self.exchanges.peers);
        }
    }

    /// Draws only the state of paths from `seed`: channels, transits and ends.
    ///
    /// May be called at any moment.
    pub fn scramble_paths(&mut self, seed: u64) {
        let draw = &mut Draw::new(seed, 0);
        if let Some(fabric) = &mut self.fabric {
            fabric.scramble_paths(draw, &self.exchanges.peers);
        }
    }

    /// Reverses all tentative latches at the host, where they are tentative too, before new ones
    /// are drawn.
    fn reverse_all(&mut self, host: &mut impl Host) {
        let Exchanges {
            peers, responder, ..
        } = &mut self.exchanges;
        for set in &mut responder.sets {
            let Some((peer, port)) = set.owner else {
                continue;
            };
            for slot in 0..set.latches.len() as u8 {
                let latch = &mut set.latches[usize::from(slot)];
                if latch.standing == Standing::Tentative {
                    latch.standing = Standing::Undone;
                    let id = latch.id(peers[peer].guid, port, slot);
                    host.reverse(&id, set.bytes(slot));
                }
            }
        }
    }

    /// Returns the link to a handshake, as if it had never been up. With anything open on it, the
    /// link fails instead.
    fn forget_peer(&mut self, at: usize, host: &mut impl Host) {
        let Some(attachment) = self.links[at].attachment() else {
            return;
        };
        let is_idle = !self.links[at].outbound.is_open() && self.resolver.is_idle(at);
        if !is_idle {
            self.take_down(at, DownReason::Violation, host);
            return;
        }
        let link = &mut self.links[at];
        link.epochs.detach();
        self.exchanges
            .responder
            .detach(at, attachment, &link.feedback);
        self.detach_neighbor(at, host);
        self.links[at].clear();
        self.exchanges.peers[attachment.peer].links_up -= 1;
        self.links[at].epochs.forget();
    }

    fn scramble_epoch(&mut self, at: usize, draw: &mut Draw) {
        let Self {
            links,
            exchanges,
            resolver,
            ..
        } = self;
        let Exchanges {
            initiator,
            responder,
            ..
        } = exchanges;
        let latches = &mut responder.sets;
        let link = &mut links[at];
        let port = link.port;
        let Some(attachment) = link.epochs.attachment_mut() else {
            return;
        };
        if draw.below(8) == 0 {
            let owner = (attachment.peer, draw.below(4) as u16);
            // A port has one set.
            if latches.iter().all(|set| set.owner != Some(owner)) {
                attachment.port = owner.1;
                latches[attachment.set].owner = Some(owner);
            }
        }
        attachment.slots = draw.below(u32::from(link.outbound.slots()) + 1) as u8;
        attachment.granted = draw.below(u32::from(attachment.slots) + 1) as u8;
        let attachment = *attachment;
        link.feedback.scramble(draw);
        link.liveness.scramble(draw);
        link.inbound.clear_queues();
        link.outbound.scramble(attachment.granted, draw);
        let mut taken: Vec<u8> = Vec::new();
        for entry in initiator.pool.live_mut() {
            let Some(unresolved) = &mut entry.unresolved else {
                continue;
            };
            if entry.link != at || entry.peer != attachment.peer {
                continue;
            }
            *unresolved = Unresolved {
                port,
                sequence: draw.sequence(),
                epoch: draw.sequence(),
                commit: draw.flag(),
            };
            if let Some(queried) = &mut entry.queried {
                queried.record_sequence = draw.sequence();
            }
            link.outbound.withhold(entry.slot);
            taken.push(entry.slot);
        }
        let slots = link.outbound.slots();
        let peer = attachment.peer;
        for number in 0..slots {
            if taken.contains(&number) || link.outbound.is_busy(number) {
                continue;
            }
            if draw.flag()
                && let Some(transaction) = initiator.unqueue(peer)
            {
                let progress = Progress::OPEN[draw.below(4) as usize];
                link.outbound
                    .scramble_slot(number, transaction, progress, draw);
                let entry = &mut initiator.pool[transaction];
                (entry.link, entry.slot) = (at, number);
            } else if draw.below(4) == 0
                && let Some(transaction) = initiator.unqueue(peer)
            {
                link.outbound.scramble_unresolved(number);
                let entry = &mut initiator.pool[transaction];
                (entry.link, entry.slot) = (at, number);
                entry.unresolved = Some(Unresolved {
                    port,
                    sequence: draw.sequence(),
                    epoch: draw.sequence(),
                    commit: draw.flag(),
                });
                entry.in_doubt = draw.flag();
                if draw.flag() {
                    entry.queried = Some(SentQuery {
                        link: at,
                        place: link.outbound.queried.len(),
                        record_sequence: draw.sequence(),
                    });
                    link.outbound.queried.push(transaction);
                }
                resolver.doubts.scramble(initiator, transaction);
            }
            if draw.below(4) == 0 {
                if draw.flag() {
                    link.inbound.refuse(number);
                } else {
                    link.inbound.reflect(number);
                }
            }
            if draw.below(4) == 0 {
                let verdict = Verdict {
                    port: draw.below(4) as u16,
                    slot: number,
                    epoch: draw.sequence(),
                    sequence: draw.sequence(),
                };
                link.inbound.report(verdict, false);
            }
        }
    }

    fn scramble_latches(&mut self, set: usize, draw: &mut Draw, host: &mut impl Host) {
        let Some((peer, port)) = self.exchanges.responder.sets[set].owner else {
            return;
        };
        let guid = self.exchanges.peers[peer].guid;
        let links = self.links.len();
        let set = &mut self.exchanges.responder.sets[set];
        let is_cabled = set.link.is_some();
        set.scramble_words(links, draw);
        for slot in 0..set.latches.len() as u8 {
            let latch = &mut set.latches[usize::from(slot)];
            latch.scramble(draw);
            if latch.standing == Standing::Tentative {
                let id: ExchangeId = latch.id(guid, port, slot);
                // Only while its link is up anything is kept.
                if !is_cabled || host.admit(&id, Mode::TwoPhase, set.bytes(slot)).is_err() {
                    set.latches[usize::from(slot)].standing = Standing::Undone;
                }
            }
        }
    }
}
