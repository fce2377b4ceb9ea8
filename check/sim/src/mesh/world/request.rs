//! Nodes request verbs from each other.

use covalent_protocol::{ExchangeId, Mode, SubmitError};

use super::{Event, MeshWorld};
use crate::{
    mesh::{errand::Errand, fact::MeshFact, load::MeshLoad, program::guid},
    shape::Spot,
};

/// Units between two moments of submission.
const SUBMIT_UNITS: u64 = 8;
/// One in so many nodes submits at such a moment.
const SUBMITTERS_ONE_IN: usize = 16;
/// Maximum exchanges that a node has given up without a reply: fewer than the names that it keeps.
const GIVEN_UP_MAX: usize = 3;

impl MeshWorld {
    /// Lets nodes submit requests to each other.
    pub(super) fn submit_around(&mut self, event: Event) {
        if !self.is_submitting {
            return;
        }
        for _ in 0..self.stations.len().div_ceil(SUBMITTERS_ONE_IN) {
            if self.options.load == MeshLoad::Far && self.rng.bool() {
                let [from, to] = [(); 2].map(|()| self.rng.usize(..self.stations.len()) as u16);
                if from != to {
                    self.request_between(from, to);
                }
            } else {
                let cable = self.rng.usize(..self.cables.len()) as u16;
                let end = self.rng.u8(..2);
                self.request(Spot { cable, end });
            }
        }
        self.queue.add(self.now_units() + SUBMIT_UNITS, event);
    }

    /// Submits a request of a node to its neighbor at the other end of a cable. Returns the token,
    /// unless the node accepts no more.
    pub fn request(&mut self, from: Spot) -> Option<u64> {
        let ends = self.scene().shape.cables[usize::from(from.cable)];
        let end = usize::from(from.end);
        self.request_between(ends[end], ends[1 - end])
    }

    /// Submits a request of a node to another one at any distance. Returns the token, unless the
    /// node accepts no more, knows no route, or is stalled.
    pub fn request_between(&mut self, from: u16, to: u16) -> Option<u64> {
        let token = self.scene().book.next_token();
        let mode = [Mode::OnePhase, Mode::TwoPhase][self.rng.usize(..2)];
        // A peer that was never met is met in its current incarnation, or was about to be met in
        // the one that just ended.
        let is_on = self.scene().is_on(usize::from(to));
        let latest_incarnation = self.scene().incarnation(to) - u32::from(!is_on);
        let now = self.now_units();
        let longest = self.room.message_bytes;
        let station = &mut self.stations[usize::from(from)];
        if station.stalled_until > now {
            return None;
        }
        let node = station.node.as_mut()?;
        let seen = station.share.seen[usize::from(to)];
        let errand = Errand::draw(&mut self.rng, token, seen, usize::from(longest));
        let guid = guid(usize::from(to));
        match node.submit(guid, mode, &errand.request(token), token) {
            Ok(()) => {}
            Err(SubmitError::Full | SubmitError::NoSuchPeer) => return None,
            Err(error) => unreachable!("an errand fits into a request: {error}"),
        }
        let known = node.peers().find(|peer| peer.guid == guid);
        let known = known.filter(|peer| peer.incarnation != 0);
        let known_incarnation =
            known.map_or(latest_incarnation, |peer| (peer.incarnation >> 32) as u32);
        self.witness.see(&MeshFact::Requested {
            from,
            to,
            known_incarnation,
            errand,
        });
        self.flush(usize::from(from));
        Some(token)
    }

    /// Handles a request in doubt: the node may give it up and query its outcome.
    pub(super) fn give_up(&mut self, at: usize, token: u64, name: &ExchangeId) {
        let open = self.scene().book.open_of(at as u16);
        let waits = open.filter(|(_, request)| request.given_up);
        let request = self.scene().book.request(token);
        let waits = waits.count();
        let is_open =
            request.is_some_and(|request| request.reported.is_none() && !request.given_up);
        if !is_open || waits == GIVEN_UP_MAX || self.rng.bool() {
            return;
        }
        self.witness.see(&MeshFact::GaveUp { token });
        self.with(at, |node, program| {
            node.cancel_interest(|queried| queried == token);
            let queried = node.query(name, token, program);
            debug_assert_eq!(queried, Ok(()));
        });
    }

    /// The applications of a node take the messages that wait.
    pub(super) fn take_messages(&mut self, at: usize) {
        while let Some(message) = self.stations[at].share.take() {
            let at = at as u16;
            self.witness.see(&MeshFact::Took {
                at,
                message: &message,
            });
        }
    }
}
