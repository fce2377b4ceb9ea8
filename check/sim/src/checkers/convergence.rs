//! Checks that the world converges after the last fault.

use super::{Checker, Links, Scene, Verdict};
use crate::fact::Fact;

/// Within a stated number of ticks after the last fault, every link is up with the same epoch at
/// both ends. Every exchange with a waiter and a path has ended. No slot, query or transaction is
/// left over. The same holds after arbitrary registers and arbitrary frames in flight, within a
/// bound of its own.
#[derive(Debug)]
pub struct Convergence;

impl Checker<Links> for Convergence {
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
                "no rest within {paces} ticks of the last fault: {what}"
            )),
            Fact::Rested {
                paces, paces_max, ..
            }
            | Fact::Converged {
                paces, paces_max, ..
            } if paces > paces_max => Err(format!(
                "rest began {paces} ticks after the last fault; the limit is {paces_max}"
            )),
            _ => Ok(()),
        }
    }
}
