//! Counts of verbs.

use crate::{Refusal, verb::VerbKind};

/// Verbs executed, by verb, and refused, by reason. Only grows.
#[derive(Debug, Clone)]
pub(super) struct VerbCounts {
    executed: [u64; VerbKind::ALL.len()],
    refused: [u64; Refusal::ALL.len()],
}

impl VerbCounts {
    pub const fn new() -> Self {
        Self {
            executed: [0; VerbKind::ALL.len()],
            refused: [0; Refusal::ALL.len()],
        }
    }

    /// A verb was executed.
    pub const fn count_executed(&mut self, verb: VerbKind) {
        // Their numbers begin with 1.
        self.executed[verb as usize - 1] += 1;
    }

    /// A request was refused.
    pub const fn count_refused(&mut self, refusal: Refusal) {
        self.refused[refusal as usize - 1] += 1;
    }

    /// Executed, by verb.
    pub fn executed(&self) -> impl Iterator<Item = (VerbKind, u64)> {
        VerbKind::ALL.into_iter().zip(self.executed)
    }

    /// Refused, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (Refusal, u64)> {
        Refusal::ALL.into_iter().zip(self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_refusals_are_counted_under_their_own_names() {
        for verb in VerbKind::ALL {
            let mut counts = VerbCounts::new();
            counts.count_executed(verb);
            for (other, count) in counts.executed() {
                assert_eq!(count, u64::from(other == verb), "{verb:?}, {other:?}");
            }
        }
        for refusal in Refusal::ALL {
            let mut counts = VerbCounts::new();
            counts.count_refused(refusal);
            for (other, count) in counts.refused() {
                assert_eq!(count, u64::from(other == refusal), "{refusal:?}, {other:?}");
            }
        }
    }
}
