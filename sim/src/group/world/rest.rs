//! The faults stop, and everything comes to its end.

use super::{Repair, World};
use crate::group::{
    checkers::{Scene, unfinished},
    fact::Fact,
    options::Fault,
    plan::EnvelopeFaults,
};

/// Round trips behind the last fault within which everything must have come to its end.
const ROUND_TRIPS_MAX: u64 = 200;
/// Round trips, and two paces, behind the last fault until applications start where none runs.
const ROUND_TRIPS_TO_KNOW: u64 = 60;
/// Paces within which it must.
const PACES_MAX: u64 = 4;
/// Paces of rest that are watched.
const PACES_OF_REST: u64 = 5;

impl World {
    /// Everything is mended and goes on, but who is dead; then nothing happens any more.
    pub(super) fn rest(&mut self) {
        self.silent = true;
        self.plan.envelopes = EnvelopeFaults::default();
        self.later.clear();
        self.lies.fill(false);
        self.repair(Repair::MendAll);
        for node in 0..self.graph.nodes() {
            self.repair(Repair::Start(node));
        }
        for stay in 0..self.members.len() {
            self.members[stay].doomed = None;
            self.set_halted(stay, false);
            self.set_sated(stay, false);
        }
        self.paths_changed();
        let begun = self.now();
        if self.plan.faults.has(Fault::Join) {
            // Whoever is out knows it by then.
            let until = begun + ROUND_TRIPS_TO_KNOW * self.round_trip_units();
            self.run_until(until + 2 * self.pace_units());
            for node in 0..self.graph.nodes() {
                self.repair(Repair::Join(node));
            }
        }
        let begun = self.now();
        let half = self.round_trip_units() / 2;
        let limit = begun + ROUND_TRIPS_MAX * 2 * half + PACES_MAX * self.pace_units();
        while self.witness.violation().is_none() && self.now() < limit && !self.is_finished() {
            self.run_until(self.now() + half);
        }
        self.witness.report.round_trips_most = (self.now() - begun).div_ceil(2 * half);
        // What was told and did not change anything comes to its end too, and what was refused is said again after a pace.
        // A pace may have begun when paths were longer.
        self.run_until(self.now() + 8 * half + 2 * self.longest_pace_units());
        self.witness.see(&Fact::Idle, &self.graph);
        self.run_until(self.now() + PACES_OF_REST * self.pace_units());
        let paces = PACES_OF_REST;
        self.witness.see(&Fact::Rested { paces }, &self.graph);
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
