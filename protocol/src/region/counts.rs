//! Counts of verbs.

use crate::{Refusal, verb::Verb};

const VERBS: [&str; 10] = [
    "read",
    "write",
    "swap",
    "compare_and_swap",
    "fetch_add",
    "fetch_and",
    "fetch_or",
    "fetch_xor",
    "multi_commit",
    "lookup",
];

/// Verbs executed, by verb, and refused, by reason. Only grows.
#[derive(Debug, Clone)]
pub(super) struct VerbCounts {
    executed: [u64; VERBS.len()],
    refused: [u64; Refusal::ALL.len()],
}

impl VerbCounts {
    pub const fn new() -> Self {
        Self {
            executed: [0; VERBS.len()],
            refused: [0; Refusal::ALL.len()],
        }
    }

    /// A verb was executed.
    pub fn count_executed(&mut self, verb: &Verb<'_>) {
        let index = match verb {
            Verb::Read { .. } => 0,
            Verb::Write { .. } => 1,
            Verb::Swap { .. } => 2,
            Verb::CompareAndSwap { .. } => 3,
            Verb::FetchAdd { .. } => 4,
            Verb::FetchAnd { .. } => 5,
            Verb::FetchOr { .. } => 6,
            Verb::FetchXor { .. } => 7,
            Verb::MultiCommit(_) => 8,
            Verb::Lookup { .. } => 9,
        };
        self.executed[index] += 1;
    }

    /// A request was refused.
    pub fn count_refused(&mut self, refusal: Refusal) {
        if let Some(index) = Refusal::ALL.iter().position(|&other| other == refusal) {
            self.refused[index] += 1;
        }
    }

    /// Executed, by verb.
    pub fn executed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        VERBS.into_iter().zip(self.executed)
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
    fn verbs_are_counted_under_their_own_names() {
        let verbs = [
            Verb::Read { len: 1 },
            Verb::Write { data: b"x" },
            Verb::Swap { new: 0 },
            Verb::CompareAndSwap {
                expected: 0,
                new: 0,
            },
            Verb::FetchAdd { delta: 0 },
            Verb::FetchAnd { mask: 0 },
            Verb::FetchOr { mask: 0 },
            Verb::FetchXor { mask: 0 },
            Verb::Lookup { name: "x" },
        ];
        for verb in verbs {
            let mut counts = VerbCounts::new();
            counts.count_executed(&verb);
            for (name, count) in counts.executed() {
                assert_eq!(count, u64::from(name == verb.name()), "{verb:?}, {name}");
            }
        }
    }
}
