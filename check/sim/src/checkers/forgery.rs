//! Checks that a blind forger takes no link down.

use covalent_protocol::LinkEvent;

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::fact::Fact;

/// No frame of a sender that knows neither incarnations nor epochs takes down a link that is up.
/// While registers are arbitrary, they may hold the guessed values.
#[derive(Debug, Default)]
pub struct Forgery {
    /// The call that gives a node a forged frame.
    call: Option<u64>,
}

impl Checker<Links> for Forgery {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Forged { .. } => self.call = Some(scene.call + 1),
            Fact::Link {
                at,
                event: LinkEvent::Down { reason, .. },
            } if !scene.book.is_unsettled() => {
                return forbid(self.call == Some(scene.call), || {
                    format!("a forged frame takes the link of {at} down: {reason}")
                });
            }
            _ => {}
        }
        Ok(())
    }
}
