//! Whether a path leads to a node, as the links say it.
//!
//! A node is reached from the moment on that a link to it is up, or that trees know a way to it, and lost when none is and none can be waited for: each link whose
//! last handshake was with it has no carrier, or neither it nor its handshakes were answered for as long as a link that is up may
//! be silent. In between nothing is told: a link that failed for a lost frame, and is up again after a round trip, never shows.

use alloc::vec::Vec;

use super::{LinkState, Node};
use crate::Host;

/// Handshakes in vain after which a link that is not up is given up, if it was silent for long enough. One is said at each pace.
const HANDSHAKES_IN_VAIN: u32 = 4;

/// What has been told of paths, and what is going to change it.
///
/// Nothing here decides what a node says or does, so two nodes that differ in it alone are the same to a model checker.
#[derive(Debug, Clone, Default)]
pub(super) struct Paths {
    /// By link.
    silences: Vec<Silence>,
    /// The program was told that the peer is reached, by peer.
    reached: Vec<bool>,
}

/// How long the other end of a link has said nothing, in paces. Means nothing while the link is up.
#[derive(Debug, Clone, Copy, Default)]
struct Silence {
    /// Since the last word, up or not.
    paces: u32,
    /// Since the link failed, or since the last handshake that was heard.
    in_vain: u32,
}

impl Paths {
    /// Room for one more link, and for so many peers.
    pub fn grow(&mut self, peers: usize) {
        self.silences.push(Silence::default());
        self.reached.resize(peers, false);
    }

    /// The link `at` failed after so many silent paces.
    pub fn fail(&mut self, at: usize, silent_paces: u32) {
        self.silences[at] = Silence {
            paces: silent_paces,
            in_vain: 0,
        };
    }

    /// A handshake was heard on the link `at`, or its carrier returned.
    pub fn hear(&mut self, at: usize) {
        self.silences[at] = Silence::default();
    }

    #[cfg(feature = "arbitrary-state")]
    pub fn scramble(&mut self, draw: &mut super::arbitrary::Draw) {
        for silence in &mut self.silences {
            silence.paces = draw.below(20);
            silence.in_vain = draw.below(2 * HANDSHAKES_IN_VAIN);
        }
        for reached in &mut self.reached {
            *reached = draw.flag();
        }
    }
}

impl Node {
    /// Whether a path leads to the node `guid`, as [`Host::path`] told it last: `false` for one that was never met, `true` for
    /// this one.
    #[must_use]
    pub fn has_path(&self, guid: u64) -> bool {
        guid == self.config.guid
            || self
                .peer_of(guid)
                .is_some_and(|peer| self.is_told_reached(peer))
    }

    /// Whether the program was told last that a peer is reached.
    pub(super) fn is_told_reached(&self, peer: usize) -> bool {
        self.paths.reached[peer]
    }

    /// A pace passed: on links in a handshake the last one was in vain.
    pub(super) fn count_silence(&mut self) {
        for (link, silence) in self.links.iter().zip(&mut self.paths.silences) {
            if link.state == LinkState::Init {
                silence.paces = silence.paces.saturating_add(1);
                silence.in_vain = silence.in_vain.saturating_add(1);
            }
        }
    }

    /// Tells of every peer that is reached now and was not, or the other way round.
    pub(super) fn tell_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.peers.len() {
            let entry = &self.peers[peer];
            let guid = entry.guid;
            // Of one that was forgotten nothing is told before somebody asks it for something.
            let is_up =
                entry.links_up > 0 || ((entry.met || entry.waits()) && self.way(guid).is_some());
            let was_reached = self.paths.reached[peer];
            if is_up != was_reached && (is_up || (self.is_given_up(guid) && !self.seeks(guid))) {
                self.paths.reached[peer] = is_up;
                host.on_clock(self.clock.now());
                host.path(guid, is_up);
            }
        }
    }

    /// The peer is about to leave the table: nobody will know more of it.
    pub(super) fn forget_path(&mut self, peer: usize, host: &mut impl Host) {
        if core::mem::take(&mut self.paths.reached[peer]) {
            host.on_clock(self.clock.now());
            host.path(self.peers[peer].guid, false);
        }
    }

    /// Whether none of the links on which the node spoke last may still be waited for. None of them is up.
    fn is_given_up(&self, guid: u64) -> bool {
        self.links
            .iter()
            .zip(&self.paths.silences)
            .filter(|(link, _)| link.handshake.guid == guid)
            .all(|(link, silence)| {
                link.state == LinkState::Down
                    || (silence.in_vain >= HANDSHAKES_IN_VAIN
                        && silence.paces >= self.config.silent_paces_max)
            })
    }
}
