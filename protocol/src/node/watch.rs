//! Liveness of links with open exchanges: each is monitored by its own keepalive, and all by the
//! round trips of the others.

use super::{LinkState, Node};
use crate::{Host, event::DownReason};

/// The ping of a link, for a caller that measures its round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping {
    /// The epoch in force. A ping of an earlier epoch never returns.
    pub epoch: u32,
    /// The record that carried the ping; `None` when it has returned or none is in flight.
    pub record: Option<u32>,
}

impl Node {
    /// Sets whether round trips of the link on `port` count against the other links, and theirs
    /// against it. They do by default. A link in memory makes a hundred round trips while a cable
    /// makes one, which would cause the cable to be declared dead.
    pub fn set_measured(&mut self, port: u16, is_measured: bool) {
        if let Some(at) = self.link_of(port) {
            self.links[at].liveness.is_measured = is_measured;
        }
    }

    /// Sends a ping on the link on `port` if the link is up and no ping is in flight. The protocol
    /// does not depend on it: it allows a caller to measure the round trip of an idle link.
    pub fn ping(&mut self, port: u16) {
        if let Some(at) = self.link_of(port)
            && self.links[at].state() == LinkState::Up
        {
            self.links[at].liveness.ping();
        }
    }

    /// The ping of the link on `port`; `None` while the link is not up.
    #[must_use]
    pub fn pending_ping(&self, port: u16) -> Option<Ping> {
        let link = &self.links[self.link_of(port)?];
        (link.state() == LinkState::Up).then(|| Ping {
            epoch: link.epoch(),
            record: link.liveness.ping_record(),
        })
    }

    /// The caller has polled every port for a while and received nothing. Links with open exchanges
    /// send a ping now. Another link sends one too, which provides round trips for comparison.
    ///
    /// This is a hint and no clock: it causes no retransmission and declares no link dead. Ticks do
    /// the same at their own rate.
    pub fn on_quiet(&mut self) {
        let mut waits = false;
        let mut waited = false;
        for link in &mut self.links[self.path_links..] {
            if link.is_open() {
                waits |= self.config.event_ratio > 0 && link.liveness.is_measured;
                waited |= link.liveness.is_pinging();
                link.liveness.ping();
            }
            waits |= link.awaits_handshake();
        }
        let moved = core::mem::take(&mut self.round_trips);
        if waits && !(waited && moved) {
            self.bounce_another();
        }
    }

    /// Sends a ping on one more link that has none, if there is one.
    fn bounce_another(&mut self) {
        if let Some(link) = self.links[self.path_links..].iter_mut().find(|link| {
            link.state() == LinkState::Up
                && link.liveness.is_measured
                && !link.liveness.is_pinging()
        }) {
            link.liveness.ping();
        }
    }

    /// A round trip of the link `at` ended: an event by which the others are measured.
    pub(super) fn on_round_trip(&mut self, at: usize, host: &mut impl Host) {
        // Round trips over a path take longer. Paths neither measure nor are measured: they do not
        // fail in silence.
        if self.is_path(at) || !self.links[at].liveness.is_measured {
            return;
        }
        self.round_trips = true;
        let mut waits = false;
        for other in (self.path_links..self.links.len()).filter(|&other| other != at) {
            let link = &mut self.links[other];
            if link.is_open() && link.liveness.is_measured {
                if link
                    .liveness
                    .count_other_round_trip(self.config.event_ratio)
                {
                    self.fail(other, DownReason::PeerRttExceeded, host);
                } else {
                    waits |= self.config.event_ratio > 0 && link.liveness.is_pinging();
                }
            }
            let link = &mut self.links[other];
            if link.awaits_handshake() {
                link.epochs.handshake.count_other_round_trip();
                waits = true;
            }
        }
        if waits && self.links[at].state() == LinkState::Up {
            self.links[at].liveness.ping();
        }
    }
}
