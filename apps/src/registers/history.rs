//! The operations of clients, their replies, and the times of both.

use std::time::Instant;

use super::machine::{Answer, Op};

/// One operation of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The client. It has one operation at a time, and none after an operation without a reply.
    pub client: u64,
    /// The requested operation.
    pub op: Op,
    /// The time of the call, in nanoseconds of the machine's own clock since the start.
    pub called_ns: u64,
    /// The reply and its time. `None`: no reply came.
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
    /// The reply and its time. [`Answer::Forgotten`] counts as no reply.
    #[must_use]
    pub fn reported(&self) -> Option<(u64, &Answer)> {
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
