//! End of a run: the faults stop and everything completes.

use super::{Repair, World};
use crate::group::{
    checkers::{Scene, unfinished},
    fact::Fact,
    options::Fault,
    plan::EnvelopeFaults,
};

/// Round trips after the last fault within which everything must complete.
const ROUND_TRIPS_MAX: u64 = 200;
/// Round trips after the last fault, plus two ticks, until applications start on nodes without one.
const ROUND_TRIPS_TO_KNOW: u64 = 60;
/// Ticks, in addition, within which everything must complete.
const TICKS_MAX: u64 = 4;
/// Ticks of rest that are checked.
const IDLE_TICKS: u64 = 5;

impl World {
    /// Repairs and resumes everything except dead applications, until nothing happens any more.
    pub(super) fn rest(&mut self) {
        self.silent = true;
        self.plan.envelopes = EnvelopeFaults::default();
        self.later.clear();
        self.lies.fill(false);
        self.repair(Repair::MendAll);
        for node in 0..self.graph.nodes() {
            self.repair(Repair::Start(node));
        }
        for membership in 0..self.members.len() {
            self.members[membership].doomed = None;
            self.set_halted(membership, false);
            self.set_sated(membership, false);
        }
        self.paths_changed();
        let begun = self.now();
        if self.plan.faults.has(Fault::Join) {
            // Every excluded member knows that by then.
            let until = begun + ROUND_TRIPS_TO_KNOW * self.round_trip_units();
            self.run_until(until + 2 * self.tick_units());
            for node in 0..self.graph.nodes() {
                self.repair(Repair::Join(node));
            }
        }
        let begun = self.now();
        let half = self.round_trip_units() / 2;
        let limit = begun + ROUND_TRIPS_MAX * 2 * half + TICKS_MAX * self.tick_units();
        while self.witness.violation().is_none() && self.now() < limit && !self.is_finished() {
            self.run_until(self.now() + half);
        }
        self.witness.report.round_trips_most = (self.now() - begun).div_ceil(2 * half);
        // Pending notifications complete, and a refused envelope is resent after a tick. A tick
        // interval may have begun when paths were longer.
        self.run_until(self.now() + 8 * half + 2 * self.longest_tick_units());
        self.witness.see(&Fact::Idle, &self.graph);
        self.run_until(self.now() + IDLE_TICKS * self.tick_units());
        let ticks = IDLE_TICKS;
        self.witness.see(&Fact::Rested { ticks }, &self.graph);
        self.witness.see(&Fact::Over, &self.graph);
    }

    fn is_finished(&self) -> bool {
        let scene = Scene {
            book: self.book(),
            graph: &self.graph,
        };
        unfinished(&scene).is_none()
    }
}
