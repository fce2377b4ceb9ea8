//! Asking again for an exchange that was in doubt, by its name.
//!
//! What nobody waits for any more is resolved all the same, as long as there is room for it, and how it ended is kept in
//! [`Names`](crate::names::Names). So the answer never depends on whether the responder's latch was overwritten since,
//! nor on whether the exchange was applied afresh under another name.

use core::fmt;

use super::Node;
use crate::{Answer, ExchangeId, Host, Outcome};

/// Why nothing was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskError {
    /// As many as there is room for wait for answers. Try later.
    Full,
}

impl Node {
    /// Tells `token` what became of the exchange that [`Host::in_doubt`] told the name of: [`Host::answered`], from inside
    /// this call where it is known or forgotten, else as soon as a path to the peer returns. Whoever waited for the
    /// exchange first is told of its end as ever. The name is good for this life of the node, whoever asks.
    ///
    /// # Errors
    /// [`AskError`]; nobody will be told then.
    pub fn ask(
        &mut self,
        name: &ExchangeId,
        token: u64,
        host: &mut impl Host,
    ) -> Result<(), AskError> {
        host.on_clock(self.clock.now());
        if let Some(answer) = self.names.get(name) {
            host.answered(token, answer);
            return Ok(());
        }
        let Some(found) = self
            .transactions
            .live()
            .find(|entry| entry.name == Some(*name))
        else {
            host.answered(token, Answer::Forgotten);
            return Ok(());
        };
        let no_path = found.in_doubt || (found.orphan && self.peers[found.peer].links_up == 0);
        if !self.names.wait(token, name) {
            return Err(AskError::Full);
        }
        if no_path {
            host.in_doubt(token, name);
        }
        Ok(())
    }

    /// How many may wait for the end of an exchange that they asked for by its name. Of those that have ended as many are kept.
    #[must_use]
    pub const fn askers_max(&self) -> usize {
        self.names_max as usize
    }

    /// Unresolved exchanges that nobody waits for and that are kept for their names: so many at most.
    pub(super) const fn orphans_max(&self) -> u32 {
        self.names_max
    }

    /// Gives up the exchanges with a peer that are kept for their names only.
    pub(super) fn forget_orphans(&mut self, peer: usize, host: &mut impl Host) {
        while let Some(transaction) = self.peers[peer].unresolved.pop_front(&self.transactions) {
            self.settle_slot(transaction);
            self.finish(transaction, Outcome::PeerRestarted, host);
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("as many wait for answers as there may be; try later"),
        }
    }
}

impl core::error::Error for AskError {}
