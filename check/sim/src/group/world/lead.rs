//! Operations for a driver that controls a world.

use super::World;
use crate::{
    group::{book::MembershipId, fact::Fact},
    harness::Violation,
};

impl World {
    /// Time of the first notification that a member is lost or gone, in units.
    #[must_use]
    pub const fn evidence_at(&self) -> Option<u64> {
        self.witness.evidence_at
    }

    /// Returns the first broken invariant.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.witness.violation()
    }

    /// Whether an application is running.
    #[must_use]
    pub fn is_alive(&self, membership: MembershipId) -> bool {
        self.members[membership].group.is_some()
    }

    /// Makes an application request one message of `bytes` bytes and send its envelopes.
    pub fn request_now(&mut self, membership: MembershipId, bytes: usize) {
        if self.request_message(membership, bytes) {
            self.wake(membership);
        }
    }

    /// Makes an application die after `envelopes` more envelopes, or at once if that is 0.
    pub fn doom(&mut self, membership: MembershipId, envelopes: u32) {
        self.members[membership].doomed = Some(envelopes);
    }

    /// Crashes a node. Only the link layer of `by` detects it.
    pub fn crash_noticed_by(&mut self, node: usize, by: usize) {
        if let Some(membership) = self.at_node[node] {
            self.kill(membership);
        }
        self.graph.set_running(node, false);
        self.net.lose_half_of(node, &mut self.rng);
        self.witness
            .see(&Fact::Node { node, runs: false }, &self.graph);
        self.notice(by, node);
    }

    /// Ends all faults and lets everything complete.
    ///
    /// # Errors
    /// Returns the broken invariant.
    pub fn conclude(mut self) -> Result<(), Violation> {
        if self.witness.violation().is_none() {
            self.rest();
        }
        self.witness.violation().cloned().map_or(Ok(()), Err)
    }
}
