//! Nodes ask each other for verbs.

use covalent_protocol::{ExchangeId, Mode, SubmitError};

use super::{Event, MeshWorld};
use crate::{
    mesh::{errand::Errand, fact::MeshFact, load::MeshLoad, program::guid},
    shape::Spot,
};

/// Units between two moments at which exchanges are asked for.
const ASK_UNITS: u64 = 8;
/// Of so many nodes one asks at such a moment.
const ASKS_ONE_IN: usize = 16;
/// Exchanges that a node has given up and not heard of at most: fewer than it keeps names.
const GIVEN_UP_MAX: usize = 3;

impl MeshWorld {
    /// A moment at which nodes ask each other.
    pub(super) fn ask_around(&mut self, event: Event) {
        if !self.asking {
            return;
        }
        for _ in 0..self.stations.len().div_ceil(ASKS_ONE_IN) {
            if self.options.load == MeshLoad::Far && self.rng.bool() {
                let [from, to] = [(); 2].map(|()| self.rng.usize(..self.stations.len()) as u16);
                if from != to {
                    self.ask_of(from, to);
                }
            } else {
                let cable = self.rng.usize(..self.cables.len()) as u16;
                let end = self.rng.u8(..2);
                self.ask(Spot { cable, end });
            }
        }
        self.agenda.add(self.now_units() + ASK_UNITS, event);
    }

    /// A node asks its neighbour at the other end of a cable. Gives the token, unless the node takes no more.
    pub fn ask(&mut self, from: Spot) -> Option<u64> {
        let ends = self.scene().shape.cables[usize::from(from.cable)];
        let end = usize::from(from.end);
        self.ask_of(ends[end], ends[1 - end])
    }

    /// A node asks another one, however far it is. Gives the token, unless the node takes no more, knows no way, or stands still.
    pub fn ask_of(&mut self, from: u16, to: u16) -> Option<u64> {
        let token = self.scene().book.next_token();
        let mode = [Mode::OnePhase, Mode::TwoPhase][self.rng.usize(..2)];
        // Who was never met is met in its present life, or was about to be in the one that just ended.
        let is_on = self.scene().is_on(usize::from(to));
        let latest_life = self.scene().life(to) - u32::from(!is_on);
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
            Err(error) => unreachable!("an errand is no longer than what a node takes: {error}"),
        }
        let known = node.peers().find(|peer| peer.guid == guid);
        let known = known.filter(|peer| peer.incarnation != 0);
        let known_life = known.map_or(latest_life, |peer| (peer.incarnation >> 32) as u32);
        self.witness.see(&MeshFact::Asked {
            token,
            from,
            to,
            known_life,
            errand,
        });
        self.flush(usize::from(from));
        Some(token)
    }

    /// What a node asked for is in doubt: it may give it up, and ask what became of it.
    pub(super) fn give_up(&mut self, at: usize, token: u64, name: &ExchangeId) {
        let open = self.scene().book.open_of(at as u16);
        let waits = open.filter(|(_, ask)| ask.given_up);
        let ask = self.scene().book.ask(token);
        let waits = waits.count();
        let is_open = ask.is_some_and(|ask| ask.told.is_none() && !ask.given_up);
        if !is_open || waits == GIVEN_UP_MAX || self.rng.bool() {
            return;
        }
        self.witness.see(&MeshFact::GaveUp { token });
        self.with(at, |node, program| {
            node.cancel_interest(|asked| asked == token);
            let asked = node.ask(name, token, program);
            debug_assert_eq!(asked, Ok(()));
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
