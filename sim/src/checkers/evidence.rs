//! Evidence of loss is seen where something was lost.

use covalent_protocol::{DownReason, LinkEvent};

use super::{Checker, Scene, Verdict, forbid};
use crate::{cable::Fate, fact::Fact, records::Content};

/// A link fails by evidence only if there is some: on a cable that lost nothing and whose ends lived through, no
/// sequence has a gap, no reflection differs, nothing owed stays unanswered and nobody breaks the protocol. Frames that
/// arrive twice, late or as noise are no reason to fail.
///
/// Silence is none of this: a pace may pass at one end more often than the other end has a turn. A record that arrives
/// before the link is up at its receiver is lost, too: the end that is up first may speak to one that is not yet. So after
/// faults a cable counts as whole only when the world came to rest twice, with work between.
#[derive(Debug)]
pub struct Evidence {
    /// Cables that lost something, since the world came to rest.
    injured: Vec<bool>,
    /// The epoch in which each end of each cable is up.
    up: Vec<[Option<u32>; 2]>,
    /// The epoch in which each cable last brought a record to an end that was not up.
    unheard: Vec<Option<u32>>,
    /// Times that the world came to rest.
    rests: u32,
}

impl Evidence {
    /// All of `cables` cables are whole.
    #[must_use]
    pub fn new(cables: usize) -> Self {
        Self {
            injured: vec![false; cables],
            up: vec![[None; 2]; cables],
            unheard: vec![None; cables],
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
            Fact::Heard { at, frame, .. } => {
                if let Some(content) = Content::of(frame).filter(|content| !content.handshake)
                    && self.up[at.cable][at.end] != Some(content.epoch)
                {
                    self.injured[at.cable] = true;
                    self.unheard[at.cable] = Some(content.epoch);
                }
            }
            Fact::Link {
                at,
                event: LinkEvent::Up { epoch, .. },
            } => self.up[at.cable][at.end] = Some(*epoch),
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
                    for (cable, injured) in self.injured.iter_mut().enumerate() {
                        // What this epoch lost before both ends were up in it shows with the next record.
                        let unheard = self.unheard[cable];
                        *injured = unheard.is_some() && self.up[cable].contains(&unheard);
                    }
                }
            }
            Fact::Link {
                at,
                event: LinkEvent::Down { reason, .. },
            } => {
                self.up[at.cable][at.end] = None;
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
