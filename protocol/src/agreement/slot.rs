//! What one lane holds, and what it is being asked to hold.

use super::{Held, Offer, Refusal};

/// The slot of one lane. The lane does the work, in bounded steps at its loop boundary, and tells the slot.
///
/// | stage | may go to |
/// |---|---|
/// | idle | taking |
/// | taking | ready; undoing, if a step failed or it is told to |
/// | ready | idle, holding the new configuration; undoing |
/// | undoing | idle, holding the old one |
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    held: Held,
    stage: Stage,
    /// Ports were given back to be opened again, for the offer with this epoch. They are put back before anything else may begin.
    vacated: Option<u64>,
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
    /// What was changed is being changed back.
    Undoing,
}

impl Slot {
    /// The slot of a lane that holds `held` and is asked for nothing.
    #[must_use]
    pub const fn new(held: Held) -> Self {
        Self {
            held,
            stage: Stage::Idle,
            vacated: None,
        }
    }

    /// What the lane holds.
    #[must_use]
    pub const fn held(&self) -> Held {
        self.held
    }

    /// Whether nothing is under way and no port is given back.
    #[must_use]
    pub const fn is_at_rest(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.vacated.is_none()
    }

    /// Whether `offer` is about what this lane holds. Changes nothing.
    ///
    /// # Errors
    /// Why the lane cannot take it.
    pub fn judge(&self, offer: &Offer) -> Result<(), Refusal> {
        let other = self.vacated.is_some_and(|epoch| epoch != offer.epoch);
        if other || self.stage != Stage::Idle {
            return Err(Refusal::Busy);
        }
        offer.fits(&self.held)
    }

    /// Judges, and notes that ports are given back.
    ///
    /// # Errors
    /// As [`Slot::judge`]; nothing is given back then.
    pub fn vacate(&mut self, offer: &Offer) -> Result<(), Refusal> {
        self.judge(offer)?;
        self.vacated = Some(offer.epoch);
        Ok(())
    }

    /// Begins to take. Judges anew, because commands came in between.
    ///
    /// # Errors
    /// As [`Slot::judge`]; nothing has begun then.
    pub fn take(&mut self, offer: &Offer) -> Result<(), Refusal> {
        self.judge(offer)?;
        self.stage = Stage::Taking {
            epoch: offer.epoch,
            digest: offer.wants,
        };
        Ok(())
    }

    /// The last bounded step of taking is done.
    pub fn ready(&mut self) {
        if let Stage::Taking { epoch, digest } = self.stage {
            self.stage = Stage::Ready { epoch, digest };
        }
    }

    /// A step of taking could not be done: what was done is to be undone, and the refusal told after that.
    pub fn fail(&mut self) {
        if let Stage::Taking { .. } = self.stage {
            self.stage = Stage::Undoing;
        }
    }

    /// Enters the epoch, which cannot fail. `false`: the lane is not ready for that epoch, and nothing has changed.
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
        self.vacated = None;
        self.stage = Stage::Idle;
        true
    }

    /// Begins to undo what was done for that epoch. `false`: there is nothing of it to undo.
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

    /// The ports that were given back for that epoch are in their places again. `false`: none were, or the lane is changing others.
    pub fn put_back(&mut self, epoch: u64) -> bool {
        let back = self.vacated == Some(epoch) && self.stage == Stage::Idle;
        if back {
            self.vacated = None;
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

    fn offer(epoch: u64) -> Offer {
        Offer {
            epoch,
            believes: HELD,
            wants: 0xb,
        }
    }

    fn taking() -> Slot {
        let mut slot = Slot::new(HELD);
        slot.take(&offer(4)).unwrap();
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
    fn what_is_believed_must_be_held_and_the_epoch_later() {
        let slot = Slot::new(HELD);
        assert_eq!(slot.judge(&offer(4)), Ok(()));
        assert_eq!(slot.judge(&offer(3)), Err(Refusal::NotLater));
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
            let offer = Offer {
                believes,
                ..offer(4)
            };
            let mut slot = slot.clone();
            assert_eq!(slot.take(&offer), Err(Refusal::Stale));
            assert_eq!(slot.vacate(&offer), Err(Refusal::Stale));
            assert!(slot.is_at_rest());
        }
    }

    #[test]
    fn nothing_begins_while_something_is_under_way() {
        for mut slot in [taking(), ready(), undoing()] {
            let before = slot.clone();
            assert_eq!(slot.judge(&offer(4)), Err(Refusal::Busy));
            assert_eq!(slot.vacate(&offer(4)), Err(Refusal::Busy));
            assert_eq!(slot.take(&offer(5)), Err(Refusal::Busy));
            assert!(!slot.put_back(4));
            assert_eq!(slot, before);
            assert!(!slot.is_at_rest());
        }
    }

    #[test]
    fn only_who_is_ready_for_it_enters_an_epoch() {
        for mut slot in [Slot::new(HELD), taking(), undoing()] {
            assert!(!slot.settle(4));
            assert_eq!(slot.held(), HELD);
        }
        let mut slot = ready();
        assert!(!slot.settle(5));
        assert!(slot.settle(4));
        assert_eq!(slot.held(), offer(4).held());
        assert!(slot.is_at_rest());
        assert!(!slot.settle(4));
    }

    #[test]
    fn what_is_undone_leaves_what_was_held() {
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
        // Only who is taking can fail, and only who undoes has undone.
        let mut slot = ready();
        slot.fail();
        slot.undone();
        assert!(slot.settle(4));
    }

    #[test]
    fn ports_that_were_given_back_keep_everything_else_waiting() {
        let mut slot = Slot::new(HELD);
        assert!(!slot.put_back(4));
        slot.vacate(&offer(4)).unwrap();
        assert!(!slot.is_at_rest());
        assert_eq!(slot.take(&offer(5)), Err(Refusal::Busy));
        assert!(!slot.put_back(5));
        slot.take(&offer(4)).unwrap();
        slot.fail();
        assert!(!slot.put_back(4), "not while it undoes");
        slot.undone();
        assert!(!slot.is_at_rest());
        assert!(slot.put_back(4));
        assert!(slot.is_at_rest());
        // Who settles has them in their places.
        slot.vacate(&offer(4)).unwrap();
        slot.take(&offer(4)).unwrap();
        slot.ready();
        assert!(slot.settle(4));
        assert!(slot.is_at_rest());
    }
}
