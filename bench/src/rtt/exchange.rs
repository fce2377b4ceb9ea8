//! The program around a node in a measuring thread: it executes verbs on its regions, and waits for one answer at a time.

use covalent_dataplane::verb::VerbEngine;
use covalent_protocol::{ExchangeId, Execution, Host, LinkEvent, Mode, Outcome, Refusal, Reply};

/// Longest answer that is looked at: that of a lookup, and of every verb on one word.
const ANSWER_BYTES_MAX: usize = 64;

/// See the module's documentation.
#[derive(Debug)]
pub struct Exchange {
    /// What the verbs of the other side are executed by.
    pub engine: VerbEngine,
    /// The token of the exchange that is waited for.
    awaited: u64,
    answer: Option<Answer>,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// It was executed, and this is the reply of so many bytes.
    Committed([u8; ANSWER_BYTES_MAX], usize),
    /// It was not executed, or nobody knows.
    Failed,
}

impl Exchange {
    /// With the regions of `engine`.
    pub fn new(engine: VerbEngine) -> Self {
        Self {
            engine,
            awaited: 0,
            answer: None,
        }
    }

    /// Waits from now on for the exchange submitted with `token`; the answer to one before it is nobody's.
    pub fn wait_for(&mut self, token: u64) {
        self.awaited = token;
        self.answer = None;
    }

    /// The answer, once it is there.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }
}

impl Host for Exchange {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        self.engine.admit(id, mode, payload)
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.engine.execute(id, payload, reply);
        Execution::Done
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.engine.reverse(id, payload);
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        if token != self.awaited {
            return;
        }
        self.answer = Some(match outcome {
            Outcome::Committed(reply) if reply.len() <= ANSWER_BYTES_MAX => {
                let mut bytes = [0; ANSWER_BYTES_MAX];
                bytes[..reply.len()].copy_from_slice(reply);
                Answer::Committed(bytes, reply.len())
            }
            _ => Answer::Failed,
        });
    }

    fn in_doubt(&mut self, _token: u64, _id: &ExchangeId) {}

    fn link_event(&mut self, _event: LinkEvent) {}
}
