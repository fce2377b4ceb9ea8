//! Nothing is told to be miswired where every cable joins two ports.

use covalent_protocol::{LinkEvent, LinkRefusal};

use super::{Checker, Scene, Verdict, forbid};
use crate::{book::Life, fact::Fact, incarnation, records};

/// No link is refused, whatever its cable loses, damages, says twice or holds back, and whoever restarts: each cable joins two ports, each
/// node has a GUID of its own, and all speak one version. But for a node that was cabled to more others than it can remember, and for a
/// cable that was plugged so that both its ends are at one node.
///
/// While registers hold anything a node may believe anything of its cables; as soon as everything has come to its end behind that, it
/// does not.
///
/// A node that restarted may be told that it is not heard: handshakes of its earlier life can be under way for longer than the paces after which
/// that is told, and the other end answers them until they are through.
#[derive(Debug, Default)]
pub struct Wiring {
    moved: bool,
    /// Somebody else put frames on a cable.
    forged: bool,
    /// The incarnation that the last handshake which arrived anywhere echoes.
    echo: Option<u64>,
}

impl Checker for Wiring {
    fn name(&self) -> &'static str {
        "wiring"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Moved { .. } => self.moved = true,
            // More than one port is heard then, and what it says of others is anything.
            Fact::Forged { .. } => self.forged = true,
            Fact::Heard { frame, .. } => self.echo = records::echo(frame),
            Fact::Link {
                at,
                event: LinkEvent::Refused { why, .. },
            } if !scene.book.is_unsettled() => {
                let [one, other] = scene.cables[at.cable];
                let life = scene.book.life(at.node);
                let is_earlier = |echo| {
                    let mut earlier = (0..life.number).map(|number| Life { number, ..life });
                    earlier.any(|life| incarnation(life) == echo)
                };
                let true_word = one == other
                    || self.forged
                    || match why {
                        LinkRefusal::NoRoom => self.moved,
                        LinkRefusal::Crossed(_) => self.echo.is_some_and(is_earlier),
                        _ => false,
                    };
                return forbid(!true_word, || {
                    format!("the link of {at} is refused, {why}, though it is cabled well")
                });
            }
            _ => {}
        }
        Ok(())
    }
}
