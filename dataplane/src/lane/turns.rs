//! The order in which links are polled for frames.
//!
//! Links to the same peer share its exchanges: the link that is polled first takes the waiting
//! ones. The first link is the one after the link that sent last. A rotation in each round would be
//! unfair. A request-response application causes a fixed number of rounds per verb. If that number
//! is even, one of two links would get all exchanges.

/// The order of the links in a round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turns {
    first: usize,
}

impl Turns {
    /// All of `links` links, in the order of this round.
    pub(super) fn order(self, links: usize) -> impl Iterator<Item = usize> {
        (0..links).map(move |turn| (self.first + turn) % links)
    }

    /// The link at `at` of `links` sent.
    pub(super) const fn sent(&mut self, at: usize, links: usize) {
        self.first = (at + 1) % links;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_share_the_burst_after_any_number_of_empty_rounds() {
        for rounds_for_each in 1..5 {
            let mut turns = Turns::default();
            let mut sent = [0; 3];
            for round in 0..300 * rounds_for_each {
                let waits = round % rounds_for_each == 0;
                // The link that is polled first takes it.
                if let (true, Some(at)) = (waits, turns.order(3).next()) {
                    sent[at] += 1;
                    turns.sent(at, 3);
                }
            }
            assert_eq!(sent, [100; 3], "{rounds_for_each} rounds for each");
        }
    }

    #[test]
    fn each_link_is_polled_once_per_round() {
        let mut turns = Turns::default();
        turns.sent(1, 3);
        assert_eq!(turns.order(3).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(turns.order(0).count(), 0);
    }
}
