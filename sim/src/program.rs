//! The program around a simulated node: it executes, and tells the ledger everything.

use covalent_protocol::{ExchangeId, Execution, Host, LinkEvent, Mode, Outcome, Refusal, Reply};
use fastrand::Rng;

use crate::ledger::Ledger;

/// A node's program during one event.
pub(crate) struct Program<'a> {
    pub node: usize,
    pub ledger: &'a mut Ledger,
    pub rng: &'a mut Rng,
    /// What happened to the links.
    pub events: &'a mut Vec<LinkEvent>,
}

impl Host for Program<'_> {
    fn admit(&mut self, _id: &ExchangeId, _mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        let refuse = self.rng.u8(..32) == 0;
        self.ledger.admit(self.node, payload, refuse)
    }

    fn execute(&mut self, _id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.ledger.execute(self.node, payload, reply);
        Execution::Done
    }

    fn reverse(&mut self, _id: &ExchangeId, _payload: &[u8]) {}

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        self.ledger.complete(self.node, token, outcome);
    }

    fn in_doubt(&mut self, token: u64, _id: &ExchangeId) {
        self.ledger.in_doubt(self.node, token);
    }

    fn link_event(&mut self, event: LinkEvent) {
        self.events.push(event);
    }
}
