//! Which link is asked first for what it has to say.
//!
//! Links to the same peer share its exchanges: whichever is asked first takes what waits. It is the one behind the link that sent last, and not
//! another one in each round: an application that asks and waits makes the lane go round a number of times for each verb, and where that
//! number is even, two links that change places in each round would leave all to one of them.

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
    fn links_share_what_there_is_however_many_rounds_have_nothing() {
        for rounds_for_each in 1..5 {
            let mut turns = Turns::default();
            let mut sent = [0; 3];
            for round in 0..300 * rounds_for_each {
                let waits = round % rounds_for_each == 0;
                // Whoever is asked first takes it.
                if let (true, Some(at)) = (waits, turns.order(3).next()) {
                    sent[at] += 1;
                    turns.sent(at, 3);
                }
            }
            assert_eq!(sent, [100; 3], "{rounds_for_each} rounds for each");
        }
    }

    #[test]
    fn each_link_is_asked_once_in_a_round() {
        let mut turns = Turns::default();
        turns.sent(1, 3);
        assert_eq!(turns.order(3).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(turns.order(0).count(), 0);
    }
}
