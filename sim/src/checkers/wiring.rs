//! Nothing is told to be miswired where every cable joins two ports.

use covalent_protocol::{LinkEvent, LinkRefusal};

use super::{Checker, Scene, Verdict, forbid};
use crate::fact::Fact;

/// No link is refused, whatever its cable loses, damages, says twice or holds back, and whoever restarts: each cable joins two ports, each
/// node has a GUID of its own, and all speak one version. But for a node that was cabled to more others than it can remember, and for a
/// cable that was plugged so that both its ends are at one node.
///
/// While registers hold anything a node may believe anything of its cables; as soon as everything has come to its end behind that, it
/// does not.
#[derive(Debug, Default)]
pub struct Wiring {
    moved: bool,
}

impl Checker for Wiring {
    fn name(&self) -> &'static str {
        "wiring"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Moved { .. } => self.moved = true,
            Fact::Link {
                at,
                event: LinkEvent::Refused { why, .. },
            } if !scene.book.is_unsettled() => {
                let [one, other] = scene.cables[at.cable];
                let true_word = one == other || *why == LinkRefusal::NoRoom && self.moved;
                return forbid(!true_word, || {
                    format!("the link of {at} is refused, {why}, though it is cabled well")
                });
            }
            _ => {}
        }
        Ok(())
    }
}
