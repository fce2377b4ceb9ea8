//! How control and the dataplane come to hold the same configuration: one exchange, taken whole or refused.
//!
//! | module | whose |
//! |---|---|
//! | [`offerer`] | control's: what it holds, and what it offered |
//! | [`joint`] | the host thread's: one exchange over the lanes, all or none |
//! | [`slot`] | a lane's |
//!
//! None of them has a clock, and none has a configuration: it is known here by its digest, and the programs around the machines have its text.
//! Once the dataplane has the offer, nothing that control does or fails to do is waited for: the exchange ends by itself, taken or refused, and a
//! control that comes later is told how.
//!
//! ```text
//!  Offerer ── Offer ──► Joint ── Judge, Take ──► Slot, Slot, …    every lane is ready, or all undo
//!          ◄─ Verdict ─       ── Settle ──────►                    none can fail now
//! ```

pub mod joint;
pub mod offerer;
pub mod slot;

pub use self::{
    joint::{Joint, Phase},
    offerer::Offerer,
    slot::Slot,
};

/// Digest of a configuration's canonical text: its CRC-64/NVME. It tells texts apart and is no seal.
#[must_use]
pub fn digest(text: &[u8]) -> u64 {
    crate::wire::crc::of(text)
}

/// A configuration in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// The life of the dataplane: what an earlier life held is not held any more.
    pub incarnation: u64,
    /// Counts what was agreed on. 0: what the dataplane read at its start.
    pub epoch: u64,
    /// Digest of the configuration's canonical text.
    pub digest: u64,
}

/// What control asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The epoch that both are to hold: later than any that control knows of.
    pub epoch: u64,
    /// What control believes to be in force. A lane that holds something else refuses.
    pub believes: Held,
    /// Digest of what is wanted.
    pub wants: u64,
}

impl Offer {
    /// What is held once it is taken.
    #[must_use]
    pub const fn held(&self) -> Held {
        Held {
            incarnation: self.believes.incarnation,
            epoch: self.epoch,
            digest: self.wants,
        }
    }

    /// Whether it may be made to who holds `held`.
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
    /// Control believes what is not so: the dataplane lives anew, or somebody else agreed with it meanwhile.
    Stale,
    /// The epoch is not later than the one in force.
    NotLater,
    /// Another exchange is under way.
    Busy,
    /// It cannot be applied to a dataplane that runs.
    Unready,
    /// This lane cannot take it.
    Lane(u32),
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every lane holds what was wanted.
    Taken,
    /// Every lane holds what it held.
    Refused(Refusal),
}
