//! Checks that no link is reported as miswired where every cable joins two ports.

use covalent_protocol::{LinkEvent, LinkRefusal};

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{book::NodeIncarnation, fact::Fact, incarnation, records};

/// No link is refused, whatever its cable loses, damages, repeats or delays, and whichever node
/// restarts. Each cable joins two ports, each node has its own GUID, and all nodes use one version.
/// There are two exceptions: a node that was cabled to more peers than it can remember, and a cable
/// with both ends at one node.
///
/// While registers are arbitrary, a node may believe anything about its cables. From convergence on
/// it does not.
///
/// A restarted node may be notified that its peer receives another port. Handshakes of its earlier
/// incarnation can stay in flight for longer than the number of ticks after which that is reported.
/// The peer answers them until all have arrived.
#[derive(Debug, Default)]
pub struct Wiring {
    moved: bool,
    /// Another sender put frames on a cable.
    forged: bool,
    /// The incarnation that the last handshake which arrived anywhere echoes.
    echo: Option<u64>,
}

impl Checker<Links> for Wiring {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Moved { .. } => self.moved = true,
            // The port then receives more than one sender, and forged frames make any claim about
            // others.
            Fact::Forged { .. } => self.forged = true,
            Fact::Received { frame, .. } => self.echo = records::echo(frame),
            Fact::Link {
                at,
                event: LinkEvent::Refused { why, .. },
            } if !scene.book.is_unsettled() => {
                let [one, other] = scene.cables[at.cable];
                let node_incarnation = scene.book.node_incarnation(at.node);
                let is_earlier = |echo| {
                    let mut earlier = (0..node_incarnation.number).map(|number| NodeIncarnation {
                        number,
                        ..node_incarnation
                    });
                    earlier.any(|node_incarnation| incarnation(node_incarnation) == echo)
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
