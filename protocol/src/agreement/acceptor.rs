//! The daemon's part of an agreement: which offer it accepts, one exchange at a time, and the
//! configuration that it holds.

use alloc::vec::Vec;

use super::{Held, Proposal, Refusal};

/// The daemon's state of agreements.
///
/// Each client has a number that no other connection ever reuses. The *partner* is the client that
/// sent the latest query for the held configuration. Only the partner may offer: a datagram of a
/// dead control may stay in its socket until its successor has received the held configuration, and
/// must change nothing then. A query during an open exchange is answered when the exchange ends, so
/// no client sees an intermediate state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acceptor {
    held: Held,
    open: Option<Open>,
    partner: Option<u64>,
    requesters: Vec<u64>,
}

/// The exchange that is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Open {
    /// The client that waits for the verdict; `None`: it disconnected.
    from: Option<u64>,
    proposal: Proposal,
}

/// The clients that wait for the end of an exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The client that receives the verdict, if it is still connected.
    pub verdict: Option<u64>,
    /// Clients that receive the held configuration.
    pub reports: Vec<u64>,
}

impl Acceptor {
    /// The acceptor of a daemon that holds `held`.
    #[must_use]
    pub const fn new(held: Held) -> Self {
        Self {
            held,
            open: None,
            partner: None,
            requesters: Vec::new(),
        }
    }

    /// The configuration that the daemon holds, or held before the open exchange.
    #[must_use]
    pub const fn held(&self) -> Held {
        self.held
    }

    /// Whether an exchange is open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The client that sent the latest query, if it is still connected.
    #[must_use]
    pub const fn partner(&self) -> Option<u64> {
        self.partner
    }

    /// A client queries the held configuration. Returns the answer, or `None` if the client gets it
    /// from [`Acceptor::ended`].
    pub fn queried(&mut self, from: u64) -> Option<Held> {
        self.partner = Some(from);
        if self.open.is_some() {
            self.requesters.push(from);
            return None;
        }
        Some(self.held)
    }

    /// A client sends an offer. On success the daemon puts the configuration in force completely or
    /// not at all, whatever happens to the client, and then calls [`Acceptor::ended`].
    ///
    /// # Errors
    /// Why nothing begins: [`Refusal::Stale`], [`Refusal::Busy`] or [`Refusal::NotLater`].
    pub fn offered(&mut self, from: u64, proposal: Proposal) -> Result<(), Refusal> {
        if self.partner != Some(from) {
            return Err(Refusal::Stale);
        }
        if self.open.is_some() {
            return Err(Refusal::Busy);
        }
        proposal.fits(&self.held)?;
        self.open = Some(Open {
            from: Some(from),
            proposal,
        });
        Ok(())
    }

    /// The open exchange has ended. `taken`: every lane holds the wanted configuration. Otherwise
    /// every lane holds the previous one. Returns the clients that learn of it.
    pub fn ended(&mut self, taken: bool) -> Waiting {
        let Some(open) = self.open.take() else {
            return Waiting::default();
        };
        if taken {
            self.held = open.proposal.held();
        }
        Waiting {
            verdict: open.from,
            reports: core::mem::take(&mut self.requesters),
        }
    }

    /// A client disconnected. The exchange that it offered continues.
    pub fn gone(&mut self, from: u64) {
        if self.partner == Some(from) {
            self.partner = None;
        }
        self.requesters.retain(|&requester| requester != from);
        if let Some(open) = &mut self.open
            && open.from == Some(from)
        {
            open.from = None;
        }
    }
}

#[cfg(test)]
mod tests;
