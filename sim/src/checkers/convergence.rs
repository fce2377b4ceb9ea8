//! When faults stop, everything comes to its end.

use super::{Checker, Scene, Verdict};
use crate::fact::Fact;

/// Within a stated number of paces of the last fault every link is up with the same epoch at both ends, every exchange
/// that somebody waits for and that a path leads to has ended, and no slot, question or transaction is left over. The same from
/// arbitrary registers and arbitrary records under way, within paces of its own.
#[derive(Debug)]
pub struct Convergence;

impl Checker for Convergence {
    fn name(&self) -> &'static str {
        "convergence"
    }

    fn see(&mut self, fact: &Fact<'_>, _scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Rested {
                unfinished: Some(what),
                paces,
                ..
            }
            | Fact::Converged {
                unfinished: Some(what),
                paces,
                ..
            } => Err(format!(
                "no rest within {paces} paces of the last fault: {what}"
            )),
            Fact::Rested {
                paces, paces_max, ..
            }
            | Fact::Converged {
                paces, paces_max, ..
            } if paces > paces_max => Err(format!(
                "rest came {paces} paces after the last fault; {paces_max} are stated"
            )),
            _ => Ok(()),
        }
    }
}
