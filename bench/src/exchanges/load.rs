//! The host of the node at one end: it executes additions on its region and keeps its own in
//! flight.

use covalent_dataplane::lane::engine::VerbEngine;
use covalent_protocol::{
    ExchangeId, Execution, Host, LinkEvent, Mode, Outcome, Refusal, Reply,
    verb::{self, Status},
};

/// See the module's documentation.
#[derive(Debug)]
pub struct Load {
    /// Executes the verbs of the other end.
    pub engine: VerbEngine,
    /// Exchanges of this end that ended as they should.
    pub completed: u64,
    /// Exchanges of this end that ended otherwise.
    pub failed: u64,
}

impl Load {
    /// With the regions of `engine`.
    pub fn new(engine: VerbEngine) -> Self {
        Self {
            engine,
            completed: 0,
            failed: 0,
        }
    }

    /// Exchanges of this end that have ended.
    pub fn ended(&self) -> u64 {
        self.completed + self.failed
    }
}

impl Host for Load {
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

    fn complete(&mut self, _token: u64, outcome: Outcome<'_>) {
        let is_added = match outcome {
            Outcome::Committed(bytes) => verb::Reply::decode(bytes)
                .is_ok_and(|reply| reply.status == Status::Ok && reply.data.len() == 8),
            _ => false,
        };
        if is_added {
            self.completed += 1;
        } else {
            self.failed += 1;
        }
    }

    fn in_doubt(&mut self, _token: u64, _id: &ExchangeId) {}

    fn link_event(&mut self, _event: LinkEvent) {}
}
