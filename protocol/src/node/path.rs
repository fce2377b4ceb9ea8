//! Whether a path leads to a node, derived from the state of the links.
//!
//! A node is reached once a link to it is up or the trees have a path to it. A node is lost when
//! neither holds and no link can still recover. A link cannot recover if it has no carrier, or if
//! it received nothing, handshake replies included, for as long as an up link may be silent. Only
//! links whose last handshake was with the node count. In between nothing is reported: a link that
//! fails after a lost frame and is up again after a round trip causes no event.

use alloc::vec::Vec;

use super::{LinkState, Node};
use crate::Host;

/// Unanswered handshakes after which a link that is not up is given up, if it was also silent for
/// long enough. The link sends one per tick.
const UNANSWERED_HANDSHAKES_MAX: u32 = 4;

/// The path state that was reported, and the state that will change it.
///
/// It does not affect what a node sends or decides, so a model checker may treat nodes that differ
/// only here as equal.
#[derive(Debug, Clone, Default)]
pub(super) struct Paths {
    /// By link.
    silences: Vec<Silence>,
    /// By peer: whether the host was notified that the peer is reached.
    reached: Vec<bool>,
}

/// How long the other end of a link has been silent, in ticks. Has no meaning while the link is up.
#[derive(Debug, Clone, Copy, Default)]
struct Silence {
    /// Since the last word, up or not.
    ticks: u32,
    /// Since the link failed, or since the last received handshake.
    unanswered: u32,
}

impl Paths {
    /// Adds one more link, and grows to `peers` peers.
    pub fn grow(&mut self, peers: usize) {
        self.silences.push(Silence::default());
        self.reached.resize(peers, false);
    }

    /// The link `at` failed after `keepalive_misses` missed keepalives.
    pub fn fail(&mut self, at: usize, keepalive_misses: u32) {
        self.silences[at] = Silence {
            ticks: keepalive_misses,
            unanswered: 0,
        };
    }

    /// The link `at` received a handshake, or its carrier returned.
    pub fn on_received(&mut self, at: usize) {
        self.silences[at] = Silence::default();
    }

    #[cfg(feature = "arbitrary-state")]
    pub fn scramble(&mut self, draw: &mut crate::draw::Draw) {
        for silence in &mut self.silences {
            silence.ticks = draw.below(20);
            silence.unanswered = draw.below(2 * UNANSWERED_HANDSHAKES_MAX);
        }
        for reached in &mut self.reached {
            *reached = draw.flag();
        }
    }
}

impl Node {
    /// Whether a path leads to the node `guid`, as [`Host::path`] last reported. `false` for a node
    /// that was never met, `true` for this node.
    #[must_use]
    pub fn has_path(&self, guid: u64) -> bool {
        guid == self.config.guid
            || self
                .peer_of(guid)
                .is_some_and(|peer| self.is_reported_reached(peer))
    }

    /// Whether the last report to the host was that the peer is reached.
    pub(super) fn is_reported_reached(&self, peer: usize) -> bool {
        self.paths.reached[peer]
    }

    /// Handles a tick: on links in a handshake, the last one remained unanswered.
    pub(super) fn count_silence(&mut self) {
        for (link, silence) in self.links.iter().zip(&mut self.paths.silences) {
            if link.state() == LinkState::Init {
                silence.ticks = silence.ticks.saturating_add(1);
                silence.unanswered = silence.unanswered.saturating_add(1);
            }
        }
    }

    /// Reports every peer whose reached state changed.
    pub(super) fn report_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.peers.len() {
            let entry = &self.peers[peer];
            let guid = entry.guid;
            // A forgotten peer causes no report before a caller requests something of it.
            let is_up =
                entry.links_up > 0 || ((entry.met || entry.waits()) && self.route(guid).is_some());
            let was_reached = self.paths.reached[peer];
            if is_up != was_reached
                && (is_up || (self.is_given_up(guid) && !self.is_searching(guid)))
            {
                self.paths.reached[peer] = is_up;
                host.on_clock(self.clock.now());
                host.path(guid, is_up);
            }
        }
    }

    /// The peer is about to leave the table: report it as lost, because no later event will.
    pub(super) fn forget_path(&mut self, peer: usize, host: &mut impl Host) {
        if core::mem::take(&mut self.paths.reached[peer]) {
            host.on_clock(self.clock.now());
            host.path(self.peers[peer].guid, false);
        }
    }

    /// Whether no link on which the node last sent can still recover. None of these links is up.
    fn is_given_up(&self, guid: u64) -> bool {
        self.links
            .iter()
            .zip(&self.paths.silences)
            .filter(|(link, _)| link.epochs.handshake.guid == guid)
            .all(|(link, silence)| {
                link.state() == LinkState::Down
                    || (silence.unanswered >= UNANSWERED_HANDSHAKES_MAX
                        && silence.ticks >= self.config.keepalive_misses_max)
            })
    }
}
