//! Evidence of loss is seen where something was lost.

use std::collections::{HashMap, HashSet};

use covalent_protocol::{DownReason, LinkEvent};

use super::{Checker, Scene, Verdict, forbid};
use crate::{cable::Fate, fact::Fact, records::Content};

/// A link fails by evidence only if there is some: in an epoch of which the cable lost nothing, and in which both ends live and stay, no
/// sequence has a gap, no reflection differs, nothing owed stays unanswered and nobody breaks the protocol. Frames that
/// arrive twice, late or as noise are no reason to fail, and nor is what an earlier epoch lost.
///
/// Where a liar asks how exchanges of others ended, in their names, their links may fail for what breaks the protocol or stays unanswered.
///
/// Silence is none of this: a pace may pass at one end more often than the other end has a turn.
///
/// Epochs that begin while registers hold anything are left out; those that begin afterwards are not.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The epoch that each end of each cable is up in.
    in_force: HashMap<(usize, usize), u32>,
    /// Epochs of which a cable lost something, or in which an end did not stay.
    injured: HashSet<(usize, u32)>,
}

impl Evidence {
    /// The epoch that the ends of a cable are in, or the two that they are in, cannot be relied on any more.
    fn injure(&mut self, cable: usize) {
        for end in [0, 1] {
            if let Some(&epoch) = self.in_force.get(&(cable, end)) {
                self.injured.insert((cable, epoch));
            }
        }
    }
}

impl Checker for Evidence {
    fn name(&self) -> &'static str {
        "evidence"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Sent {
                from, fate, frame, ..
            } if *fate != Fate::UnderWay => {
                if let Some(content) = Content::of(frame) {
                    self.injured.insert((from.cable, content.epoch));
                }
            }
            Fact::Cut {
                cable, lost_epochs, ..
            } => {
                self.injure(*cable);
                // An epoch in force at neither end yet loses its handshake.
                let lost = lost_epochs.iter().copied().flatten();
                self.injured.extend(lost.map(|&epoch| (*cable, epoch)));
            }
            Fact::Crashed { cables, .. }
            | Fact::Restarted { cables, .. }
            | Fact::Scrambled { cables, .. } => {
                cables.iter().for_each(|cable| self.injure(*cable));
            }
            Fact::Link {
                at,
                event: LinkEvent::Up { epoch, .. },
            } => {
                self.in_force.insert((at.cable, at.end), *epoch);
                if scene.book.is_unsettled() {
                    self.injured.insert((at.cable, *epoch));
                }
            }
            Fact::Link {
                at,
                event: LinkEvent::Down { reason, .. },
            } => {
                let Some(epoch) = self.in_force.remove(&(at.cable, at.end)) else {
                    return Err(format!(
                        "the link of {at} failed, {reason}, which was not up"
                    ));
                };
                let evidence = matches!(
                    reason,
                    DownReason::SequenceGap
                        | DownReason::ReflectionMismatch
                        | DownReason::Unanswered
                        | DownReason::Violation
                );
                let is_new = self.injured.insert((at.cable, epoch));
                // Who asks in another's name ends what that one has open, which cannot go on then.
                let ends_oddly = matches!(reason, DownReason::Violation | DownReason::Unanswered);
                let is_lie = ends_oddly && scene.book.is_lied_to();
                return forbid(evidence && is_new && !is_lie, || {
                    format!(
                        "the link of {at} failed, {reason}, though its cable lost nothing of epoch {epoch}"
                    )
                });
            }
            _ => {}
        }
        Ok(())
    }
}
