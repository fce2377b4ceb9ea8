//! Whether a path leads to a node, derived from the state of the links.
//!
//! A node is reached once a link to it is up or the trees have a path to it. A node is lost when
//! neither holds and no link can still recover. A link cannot recover if it has no carrier, or if
//! it received nothing, handshake replies included, for as long as an up link may be silent. Only
//! links whose last handshake was with the node count. In between nothing is reported: a link that
//! fails after a lost frame and is up again after a round trip causes no event.

use alloc::vec::Vec;

use super::super::{NodeConfig, links::Links};
use crate::{Host, clock::Clock, link::LinkState};

/// Unanswered handshakes after which a link that is not up is given up, if it was also silent for
/// long enough. The link sends one per tick.
const UNANSWERED_HANDSHAKES_MAX: u32 = 4;

/// The path state that was reported, and the state that will change it.
///
/// It does not affect what a node sends or decides, so a model checker may treat nodes that differ
/// only here as equal.
#[derive(Debug, Clone, Default)]
pub(in crate::node) struct Reach {
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

impl Reach {
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

impl Reach {
    /// Whether the last report to the host was that the peer is reached.
    pub fn is_reported(&self, peer: usize) -> bool {
        self.reached[peer]
    }

    /// Handles a tick: on links in a handshake, the last one remained unanswered.
    pub fn count_silence(&mut self, links: &Links) {
        for (link, silence) in links.iter().zip(&mut self.silences) {
            if link.state() == LinkState::Init {
                silence.ticks = silence.ticks.saturating_add(1);
                silence.unanswered = silence.unanswered.saturating_add(1);
            }
        }
    }

    /// Reports a peer if its reached state changed. One that is not up is lost if `is_lost`.
    pub fn report(
        &mut self,
        peer: usize,
        is_up: bool,
        is_lost: impl FnOnce(&Self) -> bool,
        guid: u64,
        clock: &Clock,
        host: &mut impl Host,
    ) {
        if is_up != self.reached[peer] && (is_up || is_lost(self)) {
            self.reached[peer] = is_up;
            host.on_clock(clock.now());
            host.path(guid, is_up);
        }
    }

    /// The peer is about to leave the table: report it as lost, because no later event will.
    pub fn forget(&mut self, peer: usize, guid: u64, clock: &Clock, host: &mut impl Host) {
        if core::mem::take(&mut self.reached[peer]) {
            host.on_clock(clock.now());
            host.path(guid, false);
        }
    }

    /// Whether no link on which the node last sent can still recover. None of these links is up.
    pub fn is_given_up(&self, guid: u64, links: &Links, config: &NodeConfig) -> bool {
        links
            .iter()
            .zip(&self.silences)
            .filter(|(link, _)| link.epochs.handshake.guid == guid)
            .all(|(link, silence)| {
                link.state() == LinkState::Down
                    || (silence.unanswered >= UNANSWERED_HANDSHAKES_MAX
                        && silence.ticks >= config.keepalive_misses_max)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, link::Link};

    #[test]
    fn a_node_is_given_up_when_no_link_to_it_can_recover() {
        let config = NodeConfig::new(1, 1, Name::new("node").expect("it is a name"));
        let mut links = Links::new();
        let mut reach = Reach::default();
        for port in 0..2 {
            links.push(Link::new(port, [0; 6], 1, 64, 0));
            reach.grow(3);
            links[usize::from(port)].epochs.raise();
            links[usize::from(port)]
                .epochs
                .handshake
                .pretend_received(7);
        }
        for _ in 0..config.keepalive_misses_max {
            assert!(!reach.is_given_up(7, &links, &config));
            reach.count_silence(&links);
        }
        assert!(reach.is_given_up(7, &links, &config));
        reach.on_received(1);
        assert!(
            !reach.is_given_up(7, &links, &config),
            "one link may recover"
        );
        links[1].epochs.abandon();
        assert!(reach.is_given_up(7, &links, &config), "it has no carrier");
    }
}
