//! Shows everything that happens to every checker, to the figures and to the trace.

use super::{
    checkers::{self, Meshes},
    fact::MeshFact,
    figures::Figures,
    scene::MeshScene,
    trace::Trace,
};
use crate::{
    harness::{Violation, Watch, When},
    shape::Shape,
};

/// Sees everything.
#[derive(Debug)]
pub(super) struct Witness {
    pub scene: MeshScene,
    pub figures: Figures,
    pub trace: Option<Trace>,
    watch: Watch<Meshes>,
    facts: u32,
    fingerprint: u64,
}

impl Witness {
    pub fn new(shape: Shape, has_paths: bool, slowest_rt_units: u64, trace: Option<Trace>) -> Self {
        Self {
            figures: Figures::default(),
            trace,
            scene: MeshScene::new(shape, has_paths, slowest_rt_units),
            watch: Watch::new(checkers::all()),
            facts: 0,
            fingerprint: 0,
        }
    }

    /// Something happened.
    pub fn see(&mut self, fact: &MeshFact<'_>) {
        self.facts = self.facts.wrapping_add(1);
        self.mix(self.scene.now_units);
        self.scene.record(fact);
        self.figures.record(fact, &self.scene);
        let was_broken = self.violation().is_some();
        self.watch.see(fact, &self.scene, When::Step(self.facts));
        if !was_broken
            && let (Some(trace), Some(violation)) = (&mut self.trace, self.watch.violation())
        {
            trace.record_violation(violation, &self.scene);
        }
        if let Some(trace) = &mut self.trace {
            trace.record(fact, &self.scene);
        }
    }

    /// Returns the first broken invariant.
    pub const fn violation(&self) -> Option<&Violation> {
        self.watch.violation()
    }

    /// Mixes a number into the fingerprint.
    pub const fn mix(&mut self, number: u64) {
        // The finalizer of SplitMix64: each bit of the earlier state and of the number changes
        // about half of the bits.
        let mut mixed = (self.fingerprint ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.fingerprint = mixed ^ (mixed >> 31);
    }

    /// A 64-bit mix of everything that happened so far.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}
