//! The configuration that one lane holds, and the one that it is taking.

use super::{Held, Proposal, Refusal};

/// The slot of one lane. The lane does the work in bounded steps at its loop boundary, and reports
/// to the slot.
///
/// | stage | may go to |
/// |---|---|
/// | idle | taking |
/// | taking | ready; undoing, if a step failed or the host thread orders it |
/// | ready | idle, holding the new configuration; undoing |
/// | undoing | idle, holding the old one |
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    held: Held,
    stage: Stage,
    /// Ports were detached to be opened again, for the offer with this epoch. The lane puts them
    /// back before anything else may begin.
    detached_for: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    /// Rules are being changed, some in each round.
    Taking {
        epoch: u64,
        digest: u64,
    },
    /// All is done that can fail.
    Ready {
        epoch: u64,
        digest: u64,
    },
    /// The lane reverts its changes.
    Undoing,
}

impl Slot {
    /// The slot of a lane that holds `held` and has no offer.
    #[must_use]
    pub const fn new(held: Held) -> Self {
        Self {
            held,
            stage: Stage::Idle,
            detached_for: None,
        }
    }

    /// The configuration that the lane holds.
    #[must_use]
    pub const fn held(&self) -> Held {
        self.held
    }

    /// Whether nothing is in flight and no port is detached.
    #[must_use]
    pub const fn is_at_rest(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.detached_for.is_none()
    }

    /// Checks whether `proposal` matches the configuration of this lane. Changes nothing.
    ///
    /// # Errors
    /// The reason why the lane cannot take it.
    pub fn judge(&self, proposal: &Proposal) -> Result<(), Refusal> {
        let other = self
            .detached_for
            .is_some_and(|epoch| epoch != proposal.epoch);
        if other || self.stage != Stage::Idle {
            return Err(Refusal::Busy);
        }
        proposal.fits(&self.held)
    }

    /// Judges, and notes that ports are given back.
    ///
    /// # Errors
    /// As [`Slot::judge`]; nothing is given back then.
    pub fn detach_ports(&mut self, proposal: &Proposal) -> Result<(), Refusal> {
        self.judge(proposal)?;
        self.detached_for = Some(proposal.epoch);
        Ok(())
    }

    /// Begins to take. Judges again, because other commands may have been executed since.
    ///
    /// # Errors
    /// As [`Slot::judge`]; nothing has begun then.
    pub fn take(&mut self, proposal: &Proposal) -> Result<(), Refusal> {
        self.judge(proposal)?;
        self.stage = Stage::Taking {
            epoch: proposal.epoch,
            digest: proposal.wants,
        };
        Ok(())
    }

    /// The last bounded step of taking is done.
    pub fn ready(&mut self) {
        if let Stage::Taking { epoch, digest } = self.stage {
            self.stage = Stage::Ready { epoch, digest };
        }
    }

    /// A step of taking failed: the lane must undo its changes, and then report the refusal.
    pub fn fail(&mut self) {
        if let Stage::Taking { .. } = self.stage {
            self.stage = Stage::Undoing;
        }
    }

    /// Enters the epoch, which cannot fail. Returns `false` without a change if the lane is not
    /// ready for that epoch.
    pub fn settle(&mut self, epoch: u64) -> bool {
        let Stage::Ready {
            epoch: ready,
            digest,
        } = self.stage
        else {
            return false;
        };
        if ready != epoch {
            return false;
        }
        self.held.epoch = epoch;
        self.held.digest = digest;
        self.detached_for = None;
        self.stage = Stage::Idle;
        true
    }

    /// Begins to undo the changes for that epoch. Returns `false` if there are none.
    pub fn undo(&mut self, epoch: u64) -> bool {
        let (Stage::Taking { epoch: of, .. } | Stage::Ready { epoch: of, .. }) = self.stage else {
            return false;
        };
        if of == epoch {
            self.stage = Stage::Undoing;
        }
        of == epoch
    }

    /// The last bounded step of undoing is done.
    pub fn undone(&mut self) {
        if self.stage == Stage::Undoing {
            self.stage = Stage::Idle;
        }
    }

    /// The ports detached for that epoch are attached again. Returns `false` if none were, or if
    /// the lane is changing others.
    pub fn put_back(&mut self, epoch: u64) -> bool {
        let back = self.detached_for == Some(epoch) && self.stage == Stage::Idle;
        if back {
            self.detached_for = None;
        }
        back
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const HELD: Held = Held {
        incarnation: 7,
        epoch: 3,
        digest: 0xa,
    };

    fn proposal(epoch: u64) -> Proposal {
        Proposal {
            epoch,
            believes: HELD,
            wants: 0xb,
        }
    }

    fn taking() -> Slot {
        let mut slot = Slot::new(HELD);
        slot.take(&proposal(4)).unwrap();
        slot
    }

    fn ready() -> Slot {
        let mut slot = taking();
        slot.ready();
        slot
    }

    fn undoing() -> Slot {
        let mut slot = taking();
        slot.fail();
        slot
    }

    #[test]
    fn a_proposal_must_match_the_held_state_and_have_a_later_epoch() {
        let slot = Slot::new(HELD);
        assert_eq!(slot.judge(&proposal(4)), Ok(()));
        assert_eq!(slot.judge(&proposal(3)), Err(Refusal::NotLater));
        for believes in [
            Held {
                incarnation: 8,
                ..HELD
            },
            Held { epoch: 2, ..HELD },
            Held {
                digest: 0xc,
                ..HELD
            },
        ] {
            let proposal = Proposal {
                believes,
                ..proposal(4)
            };
            let mut slot = slot.clone();
            assert_eq!(slot.take(&proposal), Err(Refusal::Stale));
            assert_eq!(slot.detach_ports(&proposal), Err(Refusal::Stale));
            assert!(slot.is_at_rest());
        }
    }

    #[test]
    fn nothing_begins_while_an_exchange_is_in_flight() {
        for mut slot in [taking(), ready(), undoing()] {
            let before = slot.clone();
            assert_eq!(slot.judge(&proposal(4)), Err(Refusal::Busy));
            assert_eq!(slot.detach_ports(&proposal(4)), Err(Refusal::Busy));
            assert_eq!(slot.take(&proposal(5)), Err(Refusal::Busy));
            assert!(!slot.put_back(4));
            assert_eq!(slot, before);
            assert!(!slot.is_at_rest());
        }
    }

    #[test]
    fn only_a_ready_slot_enters_an_epoch() {
        for mut slot in [Slot::new(HELD), taking(), undoing()] {
            assert!(!slot.settle(4));
            assert_eq!(slot.held(), HELD);
        }
        let mut slot = ready();
        assert!(!slot.settle(5));
        assert!(slot.settle(4));
        assert_eq!(slot.held(), proposal(4).held());
        assert!(slot.is_at_rest());
        assert!(!slot.settle(4));
    }

    #[test]
    fn an_undone_exchange_leaves_the_held_state() {
        for mut slot in [taking(), ready()] {
            assert!(!slot.undo(5), "not of that epoch");
            assert!(slot.undo(4));
            assert!(!slot.undo(4), "once");
            slot.ready();
            assert!(!slot.settle(4));
            slot.undone();
            assert!(slot.is_at_rest());
            assert_eq!(slot.held(), HELD);
        }
        let mut slot = Slot::new(HELD);
        assert!(!slot.undo(4));
        // Only a lane that is taking can fail, and only one that is undoing can finish undoing.
        let mut slot = ready();
        slot.fail();
        slot.undone();
        assert!(slot.settle(4));
    }

    #[test]
    fn detached_ports_block_every_other_exchange() {
        let mut slot = Slot::new(HELD);
        assert!(!slot.put_back(4));
        slot.detach_ports(&proposal(4)).unwrap();
        assert!(!slot.is_at_rest());
        assert_eq!(slot.take(&proposal(5)), Err(Refusal::Busy));
        assert!(!slot.put_back(5));
        slot.take(&proposal(4)).unwrap();
        slot.fail();
        assert!(!slot.put_back(4), "not while it undoes");
        slot.undone();
        assert!(!slot.is_at_rest());
        assert!(slot.put_back(4));
        assert!(slot.is_at_rest());
        // A lane that settles has its ports attached.
        slot.detach_ports(&proposal(4)).unwrap();
        slot.take(&proposal(4)).unwrap();
        slot.ready();
        assert!(slot.settle(4));
        assert!(slot.is_at_rest());
    }
}
