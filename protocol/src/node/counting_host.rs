//! A host for tests of one object: it admits everything and counts what it is asked to do.

use alloc::vec::Vec;

use crate::{ExchangeId, Execution, Host, LinkEvent, Mode, Outcome, Refusal, Reply};

#[derive(Default)]
pub(super) struct CountingHost {
    pub executed: u32,
    pub reversed: u32,
    /// Tokens of completed exchanges.
    pub completed: Vec<u64>,
}

impl Host for CountingHost {
    fn admit(&mut self, _: &ExchangeId, _: Mode, _: &[u8]) -> Result<(), Refusal> {
        Ok(())
    }

    fn execute(&mut self, _: &ExchangeId, _: &[u8], _: &mut Reply) -> Execution {
        self.executed += 1;
        Execution::Done
    }

    fn reverse(&mut self, _: &ExchangeId, _: &[u8]) {
        self.reversed += 1;
    }

    fn complete(&mut self, token: u64, _: Outcome<'_>) {
        self.completed.push(token);
    }

    fn in_doubt(&mut self, _: u64, _: &ExchangeId) {}

    fn link_event(&mut self, _: LinkEvent) {}
}
