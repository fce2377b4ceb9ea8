//! Links on which something is open are watched: each by its own ball, and all by the round trips of the others.

use super::{LinkState, Node};
use crate::{Host, event::DownReason};

impl Node {
    /// Whether round trips of the link on `port` count against the other links, and theirs against it; they do at first. A link in memory makes a
    /// hundred of them in the time that a cable needs for one, and would have it declared dead.
    pub fn set_measured(&mut self, port: u16, is_measured: bool) {
        if let Some(at) = self.link_of(port) {
            self.links[at].is_measured = is_measured;
        }
    }

    /// The caller has looked at every port for a while and heard nothing. Links on which something is open ask for the ball
    /// now, and another one bounces it, so that there is something to compare with.
    ///
    /// It is a hint and no clock: nothing is sent again and nothing is declared dead because of it. Ticks do the same at
    /// their pace.
    pub fn on_quiet(&mut self) {
        let mut waits = false;
        let mut waited = false;
        for link in &mut self.links {
            if link.is_open() {
                waits |= self.config.event_ratio > 0 && link.is_measured;
                waited |= link.liveness.asks();
                link.liveness.ask();
            }
            waits |= link.awaits_handshake();
        }
        let moved = core::mem::take(&mut self.round_trips);
        if waits && !(waited && moved) {
            self.bounce_another();
        }
    }

    /// One more link bounces the ball, if there is one that does not.
    fn bounce_another(&mut self) {
        if let Some(link) = self
            .links
            .iter_mut()
            .find(|link| link.state == LinkState::Up && link.is_measured && !link.liveness.asks())
        {
            link.liveness.ask();
        }
    }

    /// A round trip of the link `at` ended: an event by which the others are measured.
    pub(super) fn on_round_trip(&mut self, at: usize, host: &mut impl Host) {
        if !self.links[at].is_measured {
            return;
        }
        self.round_trips = true;
        let mut waits = false;
        for other in (0..self.links.len()).filter(|&other| other != at) {
            let link = &mut self.links[other];
            if link.is_open() && link.is_measured {
                if link.liveness.outpace(self.config.event_ratio) {
                    self.fail(other, DownReason::Outpaced, host);
                } else {
                    waits |= self.config.event_ratio > 0 && link.liveness.asks();
                }
            }
            let link = &mut self.links[other];
            if link.awaits_handshake() {
                link.handshake.outpace();
                waits = true;
            }
        }
        if waits && self.links[at].state == LinkState::Up {
            self.links[at].liveness.ask();
        }
    }
}
