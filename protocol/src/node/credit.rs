//! Flow control: the credit that this node grants its neighbors, and that they grant it.

use super::{LinkState, Node, far::PATH_WINDOW_RECORDS};
use crate::link::feedback::WINDOW_RECORDS_MAX;

impl Node {
    /// Grants the peer on `port` `slots` slots from now on, at most [`super::NodeConfig::slots`],
    /// the initial grant. With fewer slots the peer starts fewer exchanges; with none it starts
    /// none. Exchanges that are open, or were sent before the peer received the grant, are served.
    /// The grant holds until it is set again, for any peer at the other end.
    pub fn set_grant(&mut self, port: u16, slots: u8) {
        let slots = slots.min(self.config.slots);
        if let Some(at) = self.link_of(port) {
            let link = &mut self.links[at];
            if link.inbound.set_grant(slots) && link.state() == LinkState::Up {
                link.liveness.answer();
            }
        }
    }

    /// Sets the number of receive buffers: the receive ring of `port` holds `records` frames of its
    /// link, and each frame has at least one record. The next handshake or keepalive reports it to
    /// the peer, which keeps no more in flight from then on. Clamped to 32 to 250; initially 250.
    pub fn set_window(&mut self, port: u16, records: u16) {
        if let Some(at) = self.link_of(port) {
            self.links[at].inbound.set_window(records);
        }
    }

    /// Sets [`super::NodeConfig::keepalive_misses_max`] and [`super::NodeConfig::event_ratio`] for
    /// all links, from now on.
    pub fn set_patience(&mut self, keepalive_misses_max: u32, event_ratio: u32) {
        self.config.keepalive_misses_max = keepalive_misses_max.max(1);
        self.config.event_ratio = event_ratio;
    }

    /// The peer grants another number of slots.
    #[cold]
    pub(super) fn on_grant(&mut self, at: usize, peer: usize, granted: u8) {
        let link = &mut self.links[at];
        if let Some(attachment) = link.epochs.attachment_mut() {
            attachment.granted = granted;
        }
        link.outbound.set_grant(granted);
        self.withhold_unresolved(at, peer);
        if self.is_path(at) {
            self.rest_paths(peer);
        }
    }

    /// The peer reports its number of receive buffers, which replaces earlier reports.
    pub(super) fn on_window(&mut self, at: usize, window_records: u16) {
        let window_records = self.window_to(at, window_records);
        let link = &mut self.links[at];
        if let Some(attachment) = link.epochs.attachment_mut() {
            attachment.window_records = window_records;
        }
        link.feedback.set_window(window_records);
    }

    /// Number of the peer's receive buffers, in records, that may be in use on a link. The buffers
    /// of a path are the same along its whole route.
    pub(super) fn window_to(&self, at: usize, window_records: u16) -> u16 {
        window_records.min(if self.is_path(at) {
            PATH_WINDOW_RECORDS
        } else {
            WINDOW_RECORDS_MAX
        })
    }

    /// Withholds the slots of unresolved exchanges with this peer.
    pub(super) fn withhold_unresolved(&mut self, at: usize, peer: usize) {
        let outbound = &mut self.links[at].outbound;
        self.transactions
            .live()
            .filter(|entry| entry.unresolved.is_some() && (entry.link, entry.peer) == (at, peer))
            .for_each(|entry| outbound.withhold(entry.slot));
    }
}
