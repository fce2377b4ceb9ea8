//! What this node lets its neighbours have under way, and what they let it.

use super::{LinkState, Node, far::PATH_WINDOW_RECORDS};
use crate::link::feedback::{WINDOW_RECORDS_MAX, WINDOW_RECORDS_MIN};

impl Node {
    /// Lets the peer on `port` use `slots` slots from now on, at most [`super::NodeConfig::slots`], which it is at first.
    /// With fewer the peer starts fewer exchanges, with none it starts none; what is open, or was under way before the peer
    /// heard of it, is served. It holds until it is set again, for whoever is at the other end.
    pub fn set_grant(&mut self, port: u16, slots: u8) {
        let slots = slots.min(self.config.slots);
        if let Some(at) = self.link_of(port) {
            let link = &mut self.links[at];
            if link.grant != slots {
                link.grant = slots;
                if link.state == LinkState::Up {
                    link.liveness.answer();
                }
            }
        }
    }

    /// Tells the node that the receive ring of `port` has room for `records` frames of its link; each holds one record at
    /// least. A peer is told in the next handshake or ball, and has no more under way from then on. At most 250, which it is at
    /// first, and 32 at least.
    pub fn set_window(&mut self, port: u16, records: u16) {
        if let Some(at) = self.link_of(port) {
            self.links[at].window_records = records.clamp(WINDOW_RECORDS_MIN, WINDOW_RECORDS_MAX);
        }
    }

    /// Sets, for all links and from now on, [`super::NodeConfig::silent_paces_max`] and [`super::NodeConfig::event_ratio`].
    pub fn set_patience(&mut self, silent_paces_max: u32, event_ratio: u32) {
        self.config.silent_paces_max = silent_paces_max.max(1);
        self.config.event_ratio = event_ratio;
    }

    /// The peer grants another number of slots.
    #[cold]
    pub(super) fn on_grant(&mut self, at: usize, peer: usize, granted: u8) {
        let link = &mut self.links[at];
        if let Some(attachment) = &mut link.attachment {
            attachment.granted = granted;
        }
        link.outbound.set_grant(granted);
        self.withhold_unresolved(at, peer);
        if self.is_path(at) {
            self.rest_paths(peer);
        }
    }

    /// The peer has room for so many records, whatever was heard of that before.
    pub(super) fn on_window(&mut self, at: usize, window_records: u16) {
        let window_records = self.window_to(at, window_records);
        let link = &mut self.links[at];
        if let Some(attachment) = &mut link.attachment {
            attachment.window_records = window_records;
        }
        link.feedback.set_window(window_records);
    }

    /// How many of the records that a peer has room for may be under way on a link. What a path has room for is the same all along it.
    pub(super) fn window_to(&self, at: usize, window_records: u16) -> u16 {
        window_records.min(if self.is_path(at) {
            PATH_WINDOW_RECORDS
        } else {
            WINDOW_RECORDS_MAX
        })
    }

    /// The slots of unresolved exchanges with this very peer stay unused.
    pub(super) fn withhold_unresolved(&mut self, at: usize, peer: usize) {
        let outbound = &mut self.links[at].outbound;
        self.transactions
            .live()
            .filter(|entry| entry.unresolved.is_some() && (entry.link, entry.peer) == (at, peer))
            .for_each(|entry| outbound.withhold(entry.slot));
    }
}
