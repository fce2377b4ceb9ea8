//! Evidence of loss is seen where something was lost.

use std::collections::{HashMap, HashSet};

use covalent_protocol::{DownReason, LinkEvent};

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{cable::FrameOutcome, fact::Fact, records::Content};

/// A link fails by evidence only if there is some. Take an epoch in which the cable lost nothing
/// and both ends kept their incarnation. In it, no sequence has a gap, no reflection differs,
/// nothing owed stays unanswered, and neither end violates the protocol. Duplicate frames, late
/// frames and noise are no reason to fail. Losses of an earlier epoch are none either.
///
/// If a lying neighbor queries outcomes in the names of other nodes, links of these nodes may fail
/// by a violation or as unanswered.
///
/// Silence is not covered: one end may tick more often than the other end runs.
///
/// Epochs that begin while registers are arbitrary are exempt. Later ones are not.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The epoch that each end of each cable is up in.
    in_force: HashMap<(usize, usize), u32>,
    /// Epochs in which a cable lost something or an end did not keep its state.
    injured: HashSet<(usize, u32)>,
}

impl Evidence {
    /// Marks the current epochs at both ends of a cable as unreliable.
    fn injure(&mut self, cable: usize) {
        for end in [0, 1] {
            if let Some(&epoch) = self.in_force.get(&(cable, end)) {
                self.injured.insert((cable, epoch));
            }
        }
    }
}

impl Checker<Links> for Evidence {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Sent {
                from,
                frame_outcome,
                frame,
                ..
            } if *frame_outcome != FrameOutcome::InFlight => {
                if let Some(content) = Content::of(frame) {
                    self.injured.insert((from.cable, content.epoch));
                }
            }
            Fact::Cut {
                cable, lost_epochs, ..
            } => {
                self.injure(*cable);
                // The handshake of an epoch that is not yet in force at either end is lost too.
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
                // A query in another node's name ends that node's open exchange, which then cannot
                // proceed.
                let ends_oddly = matches!(reason, DownReason::Violation | DownReason::Unanswered);
                let is_lie = ends_oddly && scene.book.is_lied_to();
                return forbid(evidence && is_new && !is_lie, || {
                    format!(
                        "the link of {at} failed, {reason}, though its cable lost nothing of epoch \
                         {epoch}"
                    )
                });
            }
            _ => {}
        }
        Ok(())
    }
}
