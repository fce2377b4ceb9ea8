//! Links on which something is open are watched: each by its own ball, and all by the round trips of the others.

use super::{LinkState, Node};
use crate::{Host, event::DownReason};

/// The ball of a link that asks, for a caller who wants to know how long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskingBall {
    /// The epoch in force. A ball of an earlier one never comes back.
    pub epoch: u32,
    /// The record that carried the ball; `None` when it has come back, or none is under way.
    pub record: Option<u32>,
}

impl Node {
    /// Whether round trips of the link on `port` count against the other links, and theirs against it; they do at first. A link in memory makes a
    /// hundred of them in the time that a cable needs for one, and would have it declared dead.
    pub fn set_measured(&mut self, port: u16, is_measured: bool) {
        if let Some(at) = self.link_of(port) {
            self.links[at].is_measured = is_measured;
        }
    }

    /// Has the link on `port` ask for the ball, if it is up and none is under way. Nothing depends on it: it is for a caller who wants to know how
    /// long a round trip takes on a link where nothing else is said.
    pub fn ask_for_ball(&mut self, port: u16) {
        if let Some(at) = self.link_of(port)
            && self.links[at].state == LinkState::Up
        {
            self.links[at].liveness.ask();
        }
    }

    /// The ball of the link on `port` that asks; `None` while the link is not up.
    #[must_use]
    pub fn asking_ball(&self, port: u16) -> Option<AskingBall> {
        let link = &self.links[self.link_of(port)?];
        (link.state == LinkState::Up).then(|| AskingBall {
            epoch: link.epoch,
            record: link.liveness.asked(),
        })
    }

    /// The caller has looked at every port for a while and heard nothing. Links on which something is open ask for the ball
    /// now, and another one bounces it, so that there is something to compare with.
    ///
    /// It is a hint and no clock: nothing is sent again and nothing is declared dead because of it. Ticks do the same at
    /// their pace.
    pub fn on_quiet(&mut self) {
        let mut waits = false;
        let mut waited = false;
        for link in &mut self.links[self.path_links..] {
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
        if let Some(link) = self.links[self.path_links..]
            .iter_mut()
            .find(|link| link.state == LinkState::Up && link.is_measured && !link.liveness.asks())
        {
            link.liveness.ask();
        }
    }

    /// A round trip of the link `at` ended: an event by which the others are measured.
    pub(super) fn on_round_trip(&mut self, at: usize, host: &mut impl Host) {
        // Over a path they take longer: paths neither measure nor are measured, for they do not fail in silence.
        if self.is_path(at) || !self.links[at].is_measured {
            return;
        }
        self.round_trips = true;
        let mut waits = false;
        for other in (self.path_links..self.links.len()).filter(|&other| other != at) {
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
