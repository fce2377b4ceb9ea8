//! Pipes that were emptied a moment ago, and are looked at without being asked.
//!
//! A doorbell costs a lane two lines that the application's core has just written, before it may read the third, with what is to be sent. The
//! application that sends next is most likely one that sent last: for a few of those pipes the lane reads that third line in each round.
//! As long as nobody writes it, it lies in the lane's own cache. Doorbells stay: of all other pipes, and for a lane that sleeps, they
//! are the only word.

use super::core::Core;

/// Pipes that are looked at in each round at most: few enough that an idle round stays short.
const WARM_MAX: usize = 8;

/// Slots of the pipes that were emptied last, the oldest first.
#[derive(Debug)]
pub struct Warm(Vec<usize>);

impl Warm {
    /// None yet.
    pub fn new() -> Self {
        Self(Vec::with_capacity(WARM_MAX))
    }

    /// The pipe in `slot` was emptied. Whichever was emptied before all others is looked at no more.
    pub fn add(&mut self, slot: usize) {
        self.remove(slot);
        if self.0.len() == WARM_MAX {
            self.0.remove(0);
        }
        self.0.push(slot);
    }

    /// The pipe in `slot` is looked at no more.
    pub fn remove(&mut self, slot: usize) {
        self.0.retain(|&warm| warm != slot);
    }
}

impl Core {
    /// Puts those warm pipes into the queue of pipes to take from in which there is something to take.
    pub fn look_at_warm(&mut self) {
        for at in (0..self.warm.0.len()).rev() {
            let slot = self.warm.0[at];
            let pipe = self.pipes.get(slot);
            if pipe.is_some_and(|pipe| pipe.nic.tx_came()) {
                self.warm.0.remove(at);
                self.queue_source(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_each_is_there_once() {
        let mut warm = Warm::new();
        for slot in 0..WARM_MAX {
            warm.add(slot);
        }
        warm.add(0);
        assert_eq!(warm.0.len(), WARM_MAX);
        warm.add(99);
        assert!(!warm.0.contains(&1) && warm.0.contains(&0));
        assert_eq!(warm.0.last(), Some(&99));
        warm.remove(99);
        assert_eq!(warm.0.len(), WARM_MAX - 1);
    }
}
