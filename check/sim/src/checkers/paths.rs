//! Checks that path reports match the links.

use std::collections::{HashMap, HashSet};

use covalent_protocol::{DownReason, LinkEvent};

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::fact::Fact;

/// A node is reported reached when a link to it is up, and lost when none is, alternately. It is
/// not reported lost in the call in which its last link fails, except for a lost carrier. At rest,
/// the peer of each link that is up is reported reached.
///
/// A node whose registers were arbitrary is exempt until it restarts.
#[derive(Debug, Default)]
pub struct Paths {
    /// Peer of each link that is up, by node and port.
    up: HashMap<(usize, u16), u64>,
    /// Peers that are reported reached: node and peer.
    reached: HashSet<(usize, u64)>,
    /// Links that failed for another reason than their carrier, in the call of that number: node
    /// and peer.
    failed: (u64, HashSet<(usize, u64)>),
    scrambled: HashSet<usize>,
}

impl Paths {
    fn forget(&mut self, node: usize) {
        self.up.retain(|(at, _), _| *at != node);
        self.reached.retain(|(at, _)| *at != node);
    }

    fn is_up(&self, node: usize, peer: u64) -> bool {
        self.up
            .iter()
            .any(|((at, _), of)| (*at, *of) == (node, peer))
    }

    fn on_path(&mut self, node: usize, peer: u64, up: bool, call: u64) -> Verdict {
        let changes = if up {
            self.reached.insert((node, peer))
        } else {
            self.reached.remove(&(node, peer))
        };
        let what = if up { "reached" } else { "lost" };
        forbid(!changes, || {
            format!("node {node} was notified twice that {peer} is {what}")
        })?;
        forbid(self.is_up(node, peer) != up, || {
            format!("node {node} was notified that {peer} is {what}, against its links")
        })?;
        let at_once = self.failed.0 == call && self.failed.1.contains(&(node, peer));
        forbid(!up && at_once, || {
            format!("node {node} was notified that {peer} is lost because a link failed")
        })
    }
}

impl Checker<Links> for Paths {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Crashed { node, .. } | Fact::Restarted { node, .. } => {
                self.forget(*node);
                self.scrambled.remove(node);
            }
            Fact::Scrambled { node, .. } => {
                self.forget(*node);
                self.scrambled.insert(*node);
            }
            Fact::Link {
                at,
                event: LinkEvent::Up { peer, .. },
            } => {
                self.up.insert((at.node, at.port), *peer);
            }
            Fact::Link {
                at,
                event: LinkEvent::Down { reason, .. },
            } => {
                let peer = self.up.remove(&(at.node, at.port));
                if let Some(peer) = peer
                    && *reason != DownReason::CarrierLost
                {
                    if self.failed.0 != scene.call {
                        self.failed = (scene.call, HashSet::new());
                    }
                    self.failed.1.insert((at.node, peer));
                }
            }
            Fact::Path { by, peer, up } if !self.scrambled.contains(&by.node) => {
                return self.on_path(by.node, *peer, *up, scene.call);
            }
            Fact::Rested { .. } => {
                let mut links = self.up.iter();
                let unreported = links.find(|((node, _), peer)| {
                    !self.scrambled.contains(node) && !self.reached.contains(&(*node, **peer))
                });
                return forbid(unreported.is_some(), || {
                    format!(
                        "a link is up to a node that was not reported as reached: {unreported:?}"
                    )
                });
            }
            _ => {}
        }
        Ok(())
    }
}
