//! Memory of the daemon's incarnations that an object has not taken over yet.

use std::collections::VecDeque;

/// Ended incarnations whose memory is kept for each object, besides the one that the object uses.
/// Empty memory is not kept: only an object that takes nothing through so many restarts loses data.
pub(super) const ENDED_MAX: usize = 4;

/// An object's memory in each incarnation of the daemon that it has not taken over yet, oldest
/// first. The last one belongs to the current incarnation.
#[derive(Debug)]
pub(super) struct Generations<T>(VecDeque<(u32, T)>);

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Generations<T> {
    /// The previous incarnation has ended, and incarnation `generation` starts with `memory`.
    /// Returns memory that is dropped although it holds data, because too many wait.
    pub(super) fn begin(
        &mut self,
        generation: u32,
        memory: T,
        holds_something: impl Fn(&T) -> bool,
    ) -> Option<T> {
        self.0.pop_back_if(|(_, ended)| !holds_something(ended));
        let lost = if self.0.len() > ENDED_MAX {
            self.0.pop_front()
        } else {
            None
        };
        self.0.push_back((generation, memory));
        lost.map(|(_, memory)| memory)
    }

    /// Takes the oldest memory and the number of its incarnation.
    pub(super) fn next(&mut self) -> Option<(u32, T)> {
        self.0.pop_front()
    }

    /// All that wait, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, memory)| memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts incarnations that leave this many items each, and returns those that were dropped.
    fn begin(
        generations: &mut Generations<u32>,
        things: impl IntoIterator<Item = u32>,
    ) -> Vec<u32> {
        let numbered = (1..).zip(things);
        numbered
            .filter_map(|(generation, thing)| {
                generations.begin(generation, thing, |&things| things > 0)
            })
            .collect()
    }

    fn rest(generations: &mut Generations<u32>) -> Vec<(u32, u32)> {
        std::iter::from_fn(|| generations.next()).collect()
    }

    #[test]
    fn generations_are_taken_in_order_and_empty_ones_skipped() {
        let mut generations = Generations::default();
        assert!(begin(&mut generations, [0, 7, 0, 0, 5, 0]).is_empty());
        assert_eq!(rest(&mut generations), [(2, 7), (5, 5), (6, 0)]);
        assert_eq!(generations.next(), None);
    }

    #[test]
    fn the_oldest_of_too_many_generations_is_dropped() {
        let mut generations = Generations::default();
        let kept = ENDED_MAX as u32 + 1;
        assert!(begin(&mut generations, 1..=kept).is_empty());
        assert_eq!(generations.begin(kept + 1, 9, |_| true), Some(1));
        assert_eq!(generations.next(), Some((2, 2)));
        assert_eq!(generations.0.len(), ENDED_MAX);
    }
}
