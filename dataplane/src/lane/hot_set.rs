//! The hot set: pipes that were emptied recently, and are checked without a doorbell.
//!
//! With a doorbell, a lane reads two cache lines that the application's core has just written. Only
//! then may it read the third one, with the packets to send. The next application to send is most
//! likely one that sent last. For a few of those pipes the lane reads the third line in each round.
//! Until an application writes it, the line stays in the lane's own cache. Doorbells remain the
//! only signal for all other pipes and for a lane that sleeps.

use super::core::Core;

/// Most pipes that a round checks: few enough that an idle round stays short.
const HOT_SET_MAX: usize = 8;

/// Slots of the pipes that were emptied last, the oldest first.
#[derive(Debug)]
pub struct HotSet(Vec<usize>);

impl HotSet {
    /// None yet.
    pub fn new() -> Self {
        Self(Vec::with_capacity(HOT_SET_MAX))
    }

    /// Adds the pipe in `slot`, which was emptied. Removes the pipe that was emptied longest ago if
    /// the set is full.
    pub fn add(&mut self, slot: usize) {
        self.remove(slot);
        if self.0.len() == HOT_SET_MAX {
            self.0.remove(0);
        }
        self.0.push(slot);
    }

    /// The pipe in `slot` is looked at no more.
    pub fn remove(&mut self, slot: usize) {
        self.0.retain(|&hot_set| hot_set != slot);
    }
}

impl Core {
    /// Queues those pipes of the hot set that have something to take.
    pub fn poll_hot_set(&mut self) {
        for at in (0..self.hot_set.0.len()).rev() {
            let slot = self.hot_set.0[at];
            let pipe = self.pipes.get(slot);
            if pipe.is_some_and(|pipe| pipe.nic.has_new_tx()) {
                self.hot_set.0.remove(at);
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
        let mut hot_set = HotSet::new();
        for slot in 0..HOT_SET_MAX {
            hot_set.add(slot);
        }
        hot_set.add(0);
        assert_eq!(hot_set.0.len(), HOT_SET_MAX);
        hot_set.add(99);
        assert!(!hot_set.0.contains(&1) && hot_set.0.contains(&0));
        assert_eq!(hot_set.0.last(), Some(&99));
        hot_set.remove(99);
        assert_eq!(hot_set.0.len(), HOT_SET_MAX - 1);
    }
}
