//! Operations for a driver that controls a world.

use covalent_protocol::DownReason;
use fastrand::Rng;

use super::World;
use crate::{harness::Violation, options::Options, plan::Plan, report::Report, witness::Witness};

impl World {
    /// A world in which only its driver acts. No request is refused for lack of resources.
    pub(crate) fn led(plan: Plan, seed: u64) -> Self {
        let mut world = Self::with_plan(plan, Options::default(), Rng::with_seed(seed), false);
        world.refused = 0;
        world
    }

    /// Returns the record of all exchanges and their outcomes.
    pub(crate) const fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Ticks all nodes `ticks` times, and delivers every frame after each tick.
    pub(crate) fn pass_ticks(&mut self, ticks: u32) {
        for _ in 0..ticks {
            for node in 0..self.nodes.len() {
                self.tick(node);
            }
            self.deliver_everything();
        }
    }

    /// Drops the frames in flight behind the first one of each direction of a cable.
    pub(crate) fn lose_behind_first(&mut self, cable: usize) {
        self.cables[cable].lose_behind_first();
    }

    /// From now on it is known which cable each request was sent on.
    pub(crate) fn follow(&mut self) {
        self.witness.follow = true;
    }

    /// Returns evidence by which a node's link failed, if it ever did.
    pub(crate) fn failed(&self, node: usize, port: u16) -> Option<DownReason> {
        let link = self.nodes[node].links().find(|link| link.port == port)?;
        DownReason::ALL
            .into_iter()
            .find(|reason| link.counters.failures.get(*reason) > 0)
    }

    /// Delivers the frames in flight now. Frames that result from them stay for later. Returns
    /// which nodes received something.
    pub(crate) fn deliver_in_flight(&mut self) -> Vec<bool> {
        let mut received = vec![false; self.nodes.len()];
        for cable in 0..self.cables.len() {
            for end in [0, 1] {
                for _ in 0..self.cables[cable].len(end) {
                    received[self.cables[cable].ends[end].node] |= self.deliver(cable, end);
                }
            }
        }
        received
    }

    /// Every port gives out all that it has.
    pub(crate) fn transmit_everything(&mut self) {
        for cable in 0..self.cables.len() {
            for end in [0, 1] {
                while self.transmit(cable, end) {}
            }
        }
    }

    /// Starts to write what a node executed.
    pub(crate) fn submit_to_disk(&mut self, node: usize) {
        if let Some(journal) = &mut self.witness.journals[node] {
            journal.submit();
        }
    }

    /// A cable delivers nothing to this end until it is released.
    pub(crate) fn hold(&mut self, cable: usize, end: usize) {
        self.cables[cable].stalled_until[end] = u32::MAX;
    }

    /// Resumes a held direction of a cable.
    pub(crate) fn release(&mut self, cable: usize, end: usize) {
        self.cables[cable].stalled_until[end] = 0;
    }

    /// Repairs everything, waits for rest and returns the report.
    ///
    /// # Errors
    /// Returns the first broken invariant, now or before.
    pub(crate) fn conclude(&mut self) -> Result<Report, Violation> {
        if self.witness.violation().is_none() {
            self.come_to_rest(1);
        }
        match self.witness.violation() {
            Some(violation) => Err(violation.clone()),
            None => Ok(self.finish()),
        }
    }
}
