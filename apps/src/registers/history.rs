//! What clients asked and were told, and when.

use std::time::Instant;

use super::machine::{Answer, Op};

/// One operation of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Whose: one has no two at a time, and none after one without an answer.
    pub client: u64,
    /// What was asked for.
    pub op: Op,
    /// When it was asked, in nanoseconds of the machine's own clock since the beginning.
    pub called_ns: u64,
    /// The answer and when it came; `None`: none came.
    pub answered: Option<(u64, Answer)>,
}

/// A clock that all clients of one process share.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since then.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Operation {
    /// What it was told, and when. Who was forgotten was told nothing.
    #[must_use]
    pub fn told(&self) -> Option<(u64, &Answer)> {
        let (when, answer) = self.answered.as_ref()?;
        (*answer != Answer::Forgotten).then_some((*when, answer))
    }

    /// The register that it is about.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        match &self.op {
            Op::Open => None,
            Op::Get { key } | Op::Put { key, .. } | Op::Cas { key, .. } => Some(key),
        }
    }
}
