//! What a driver does that leads a world by the hand.

use super::World;
use crate::group::{book::StayId, fact::Fact, witness::Violation};

impl World {
    /// When somebody was first told that somebody is lost or gone, in units.
    #[must_use]
    pub const fn evidence_at(&self) -> Option<u64> {
        self.witness.evidence_at
    }

    /// What was broken first.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.witness.violation()
    }

    /// Whether an application lives.
    #[must_use]
    pub fn lives(&self, stay: StayId) -> bool {
        self.members[stay].group.is_some()
    }

    /// An application asks for one message of so many bytes, and says what there is to say.
    pub fn ask_for(&mut self, stay: StayId, bytes: usize) {
        if self.ask_once(stay, bytes) {
            self.wake(stay);
        }
    }

    /// An application dies when it has said so many envelopes more, or at once when that is none.
    pub fn doom(&mut self, stay: StayId, envelopes: u32) {
        self.members[stay].doomed = Some(envelopes);
    }

    /// A node dies, and only the link layer of `by` notices.
    pub fn crash_noticed_by(&mut self, node: usize, by: usize) {
        if let Some(stay) = self.at_node[node] {
            self.kill(stay);
        }
        self.graph.set_running(node, false);
        self.net.lose_half_of(node, &mut self.rng);
        self.witness
            .see(&Fact::Node { node, runs: false }, &self.graph);
        self.notice(by, node);
    }

    /// Stops whatever was done and lets everything come to its end.
    ///
    /// # Errors
    /// What was broken.
    pub fn conclude(mut self) -> Result<(), Violation> {
        if self.witness.violation().is_none() {
            self.rest();
        }
        self.witness.violation().cloned().map_or(Ok(()), Err)
    }
}
