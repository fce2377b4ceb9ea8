//! What a driver does that leads a world by the hand.

use covalent_protocol::DownReason;
use fastrand::Rng;

use super::World;
use crate::{
    options::Options,
    plan::Plan,
    report::Report,
    witness::{Violation, Witness},
};

impl World {
    /// A world in which nothing happens but what a driver does. No request is refused for want of room.
    pub(crate) fn led(plan: Plan, seed: u64) -> Self {
        let mut world = Self::with_plan(plan, Options::default(), Rng::with_seed(seed), false);
        world.refused = 0;
        world
    }

    /// Everything that was asked, and what became of it.
    pub(crate) const fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Lets paces pass, and carries every frame behind each of them.
    pub(crate) fn pass_paces(&mut self, paces: u32) {
        for _ in 0..paces {
            for node in 0..self.nodes.len() {
                self.tick(node);
            }
            self.carry_everything();
        }
    }

    /// A cable loses what is under way behind the first frame of each direction.
    pub(crate) fn lose_behind_first(&mut self, cable: usize) {
        self.cables[cable].lose_behind_first();
    }

    /// From now on it is known which cable each request was sent on.
    pub(crate) fn follow(&mut self) {
        self.witness.follow = true;
    }

    /// By what evidence a node's link failed first, if it ever did.
    pub(crate) fn failed(&self, node: usize, port: u16) -> Option<DownReason> {
        let link = self.nodes[node].links().find(|link| link.port == port)?;
        DownReason::ALL
            .into_iter()
            .find(|reason| link.counters.failures.get(*reason) > 0)
    }

    /// What is under way now arrives; what it causes to be sent stays for later. Tells which nodes heard something.
    pub(crate) fn deliver_what_is_under_way(&mut self) -> Vec<bool> {
        let mut heard = vec![false; self.nodes.len()];
        for cable in 0..self.cables.len() {
            for end in [0, 1] {
                for _ in 0..self.cables[cable].len(end) {
                    heard[self.cables[cable].ends[end].node] |= self.deliver(cable, end);
                }
            }
        }
        heard
    }

    /// Every port gives out all that it has.
    pub(crate) fn transmit_everything(&mut self) {
        for cable in 0..self.cables.len() {
            for end in [0, 1] {
                while self.transmit(cable, end) {}
            }
        }
    }

    /// A node begins to write what it executed.
    pub(crate) fn submit_to_disk(&mut self, node: usize) {
        if let Some(journal) = &mut self.witness.journals[node] {
            journal.submit();
        }
    }

    /// A cable delivers nothing to this end until it is released.
    pub(crate) fn hold(&mut self, cable: usize, end: usize) {
        self.cables[cable].stalled_until[end] = u32::MAX;
    }

    /// A cable delivers again what it held.
    pub(crate) fn release(&mut self, cable: usize, end: usize) {
        self.cables[cable].stalled_until[end] = 0;
    }

    /// Repairs everything, lets it come to rest and tells what happened.
    ///
    /// # Errors
    /// What was broken first, now or before.
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
