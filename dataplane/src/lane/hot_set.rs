//! The hot set: pipes that were emptied recently, and are checked without a doorbell.
//!
//! With a doorbell, a lane reads two cache lines that the application's core has just written. Only
//! then may it read the third one, with the packets to send. The next application to send is most
//! likely one that sent last. For a few of those pipes the lane reads the third line in each round.
//! Until an application writes it, the line stays in the lane's own cache. Doorbells remain the
//! only signal for all other pipes and for a lane that sleeps.

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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The slot of the pipe in `place`, which is below [`HotSet::len`].
    pub fn slot(&self, place: usize) -> usize {
        self.0[place]
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
