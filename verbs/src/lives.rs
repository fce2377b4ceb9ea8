//! What the lives of a daemon left for an object that has not come to them yet.

use std::collections::VecDeque;

/// Lives that have ended whose memory is kept for each object, besides what the object has in hand. Memory in which nothing lies is not kept: only who takes
/// nothing through so many restarts loses something.
pub(crate) const ENDED_MAX: usize = 4;

/// An object's memory in each life of the daemon from the one on that the object comes to next, oldest first. The last one is the present life's.
#[derive(Debug)]
pub(crate) struct Lives<T>(VecDeque<(u32, T)>);

impl<T> Default for Lives<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Lives<T> {
    /// The one before has ended, and life number `life` begins with `memory`. Returns what is let go of although something lies in it, because too many wait.
    pub(crate) fn begin(
        &mut self,
        life: u32,
        memory: T,
        holds_something: impl Fn(&T) -> bool,
    ) -> Option<T> {
        self.0.pop_back_if(|(_, ended)| !holds_something(ended));
        let lost = if self.0.len() > ENDED_MAX {
            self.0.pop_front()
        } else {
            None
        };
        self.0.push_back((life, memory));
        lost.map(|(_, memory)| memory)
    }

    /// The oldest, and the number of its life.
    pub(crate) fn next(&mut self) -> Option<(u32, T)> {
        self.0.pop_front()
    }

    /// All that wait, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, memory)| memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins lives that leave so many things each, and returns what was let go of.
    fn begin(lives: &mut Lives<u32>, things: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let numbered = (1..).zip(things);
        numbered
            .filter_map(|(life, thing)| lives.begin(life, thing, |&things| things > 0))
            .collect()
    }

    fn rest(lives: &mut Lives<u32>) -> Vec<(u32, u32)> {
        std::iter::from_fn(|| lives.next()).collect()
    }

    #[test]
    fn each_life_is_come_to_in_turn_and_those_that_left_nothing_are_passed_over() {
        let mut lives = Lives::default();
        assert!(begin(&mut lives, [0, 7, 0, 0, 5, 0]).is_empty());
        assert_eq!(rest(&mut lives), [(2, 7), (5, 5), (6, 0)]);
        assert_eq!(lives.next(), None);
    }

    #[test]
    fn of_more_than_are_kept_the_oldest_is_let_go_of() {
        let mut lives = Lives::default();
        let kept = ENDED_MAX as u32 + 1;
        assert!(begin(&mut lives, 1..=kept).is_empty());
        assert_eq!(lives.begin(kept + 1, 9, |_| true), Some(1));
        assert_eq!(lives.next(), Some((2, 2)));
        assert_eq!(lives.0.len(), ENDED_MAX);
    }
}
