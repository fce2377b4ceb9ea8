//! How control and the daemon agree on one configuration. Each is a process that may be killed at
//! any time.
//!
//! | module | owner |
//! |---|---|
//! | [`proposer`] | control: what it holds, and what it offered |
//! | [`acceptor`] | the daemon: what it holds, and which offer it accepts |
//!
//! The state machines have no clock and no configuration. They know a configuration by its digest;
//! the surrounding programs hold its text. The lanes are threads of the daemon and take no part:
//! the daemon puts an accepted configuration in force on all of them or on none. It waits for
//! nothing from control meanwhile. The outcome is the held configuration, which any later control
//! queries.
//!
//! ```text
//!  Proposer ── query ──► Acceptor
//!           ◄─ held ───
//!           ── offer ──►           prepares, commits or rolls back
//!           ◄─ verdict ─
//! ```

pub mod acceptor;
pub mod proposer;

pub use self::{acceptor::Acceptor, proposer::Proposer};

/// Digest of a configuration's canonical text: its CRC-64/NVME. It distinguishes texts and is no
/// MAC.
#[must_use]
pub fn digest(text: &[u8]) -> u64 {
    crate::wire::crc::of(text)
}

/// A configuration in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// The dataplane's incarnation. A configuration that an earlier incarnation held is no longer
    /// held.
    pub incarnation: u64,
    /// Revision: the number of the agreement. 0: the configuration that the dataplane read at its
    /// start.
    pub epoch: u64,
    /// Digest of the configuration's canonical text.
    pub digest: u64,
}

/// A configuration that control offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The revision that both are to hold: later than any that control knows of.
    pub epoch: u64,
    /// The configuration that control believes to be in force. A daemon that holds another one
    /// refuses.
    pub believes: Held,
    /// Digest of the wanted configuration.
    pub wants: u64,
}

impl Proposal {
    /// The configuration that the daemon holds after it took the offer.
    #[must_use]
    pub const fn held(&self) -> Held {
        Held {
            incarnation: self.believes.incarnation,
            epoch: self.epoch,
            digest: self.wants,
        }
    }

    /// Whether the offer is valid for a daemon that holds `held`.
    ///
    /// # Errors
    /// [`Refusal::Stale`] or [`Refusal::NotLater`].
    pub fn fits(&self, held: &Held) -> Result<(), Refusal> {
        if self.believes != *held {
            return Err(Refusal::Stale);
        }
        if self.epoch <= held.epoch {
            return Err(Refusal::NotLater);
        }
        Ok(())
    }
}

/// Why nothing was taken. The programs around have words for people beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Control's belief is out of date: the dataplane has a new incarnation, or another client
    /// agreed with it meanwhile.
    Stale,
    /// The revision is not later than the one in force.
    NotLater,
    /// Another exchange is in flight.
    Busy,
    /// It cannot be applied to a dataplane that runs.
    Unready,
    /// This lane cannot take it.
    Lane(u32),
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every lane holds the wanted configuration.
    Taken,
    /// Every lane holds its previous configuration.
    Refused(Refusal),
}
