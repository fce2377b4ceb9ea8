//! Queries for exchanges that were in doubt, by their identifiers.
//!
//! Exchanges that no caller waits for are still resolved, up to a bound, and their outcomes are
//! kept in [`Names`](crate::names::Names). The reply therefore does not depend on whether the
//! responder's latch was overwritten since, or on whether the exchange was applied again under
//! another identifier.

use core::fmt;

use super::Node;
use crate::{Answer, ExchangeId, Host, Outcome};

/// Why a query was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryError {
    /// Too many queries wait for replies. Retry later.
    Full,
}

impl Node {
    /// Queries the outcome of the exchange `name`, an identifier from [`Host::in_doubt`].
    /// [`Host::answered`] returns it for `token`: from inside this call if the outcome is known or
    /// forgotten, else as soon as a path to the peer returns. The original caller still receives
    /// its own completion. The identifier is valid for this incarnation of the node, for any
    /// caller.
    ///
    /// # Errors
    /// [`QueryError`]; no reply follows then.
    pub fn query(
        &mut self,
        name: &ExchangeId,
        token: u64,
        host: &mut impl Host,
    ) -> Result<(), QueryError> {
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
            return Err(QueryError::Full);
        }
        if no_path {
            host.in_doubt(token, name);
        }
        Ok(())
    }

    /// Most queries that may wait for the end of an exchange. As many outcomes are kept.
    #[must_use]
    pub const fn queries_max(&self) -> usize {
        self.names_max as usize
    }

    /// Most unresolved exchanges without a waiting caller that are kept for their identifiers.
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

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the maximum number of queries waits for answers; try later"),
        }
    }
}

impl core::error::Error for QueryError {}
