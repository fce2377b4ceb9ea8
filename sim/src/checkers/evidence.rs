//! Evidence of loss is seen where something was lost.

use covalent_protocol::{DownReason, LinkEvent};

use super::{Checker, Scene, Verdict, forbid};
use crate::{cable::Fate, fact::Fact};

/// A link fails by evidence only if there is some: on a cable that lost nothing and whose ends lived through, no
/// sequence has a gap, no reflection differs, nothing owed stays unanswered and nobody breaks the protocol. Frames that
/// arrive twice, late or as noise are no reason to fail.
///
/// Silence is none of this: a pace may pass at one end more often than the other end has a turn. What a cable lost shows
/// with the next record at the latest, and that may be the ball of an idle link, which leaves at every other pace: so
/// after faults a cable counts as whole when the world came to rest twice.
#[derive(Debug)]
pub struct Evidence {
    /// Cables that lost something, since the world came to rest.
    injured: Vec<bool>,
    /// Times that the world came to rest.
    rests: u32,
}

impl Evidence {
    /// All of `cables` cables are whole.
    #[must_use]
    pub fn new(cables: usize) -> Self {
        Self {
            injured: vec![false; cables],
            rests: 0,
        }
    }
}

impl Checker for Evidence {
    fn name(&self) -> &'static str {
        "evidence"
    }

    fn see(&mut self, fact: &Fact<'_>, _scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Sent { from, fate, .. } if *fate != Fate::UnderWay => {
                self.injured[from.cable] = true;
            }
            Fact::Cut { cable, .. } => self.injured[*cable] = true,
            Fact::Carrier { at, up: false } | Fact::TransmitFailed { at } => {
                self.injured[at.cable] = true;
            }
            Fact::Crashed { cables, .. } => {
                for cable in *cables {
                    self.injured[*cable] = true;
                }
            }
            Fact::Moved { .. } => self.injured.fill(true),
            Fact::Rested { .. } => {
                self.rests += 1;
                if self.rests >= 2 {
                    self.injured.fill(false);
                }
            }
            Fact::Link {
                at,
                event: LinkEvent::Down { reason, .. },
            } => {
                let evidence = matches!(
                    reason,
                    DownReason::SequenceGap
                        | DownReason::ReflectionMismatch
                        | DownReason::Unanswered
                        | DownReason::Violation
                );
                let injured = std::mem::replace(&mut self.injured[at.cable], true);
                return forbid(evidence && !injured, || {
                    format!("the link of {at} failed, {reason}, though its cable lost nothing")
                });
            }
            _ => {}
        }
        Ok(())
    }
}
