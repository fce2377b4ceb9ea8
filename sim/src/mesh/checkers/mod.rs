//! One checker for each invariant of a mesh. Each sees every fact of every run.

mod acyclic;
mod agreement;
mod books;
mod bounded;
mod conservation;
mod convergence;
mod given_back;
mod once;
mod one_parent;
mod order;
mod quiet;
mod reaches;
mod repairs;

use std::fmt::Debug;

use super::{fact::MeshFact, scene::MeshScene};

/// How a fact breaks the invariant, if it does.
pub type Verdict = Result<(), String>;

/// Watches one invariant.
pub trait MeshChecker: Debug {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Checks a fact. The scene already includes it.
    ///
    /// # Errors
    /// Returns how the fact breaks the invariant.
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict;
}

/// All of them.
pub(super) fn all() -> Vec<Box<dyn MeshChecker>> {
    vec![
        Box::new(acyclic::Acyclic),
        Box::<order::Order>::default(),
        Box::new(one_parent::OneParent),
        Box::<reaches::Reaches>::default(),
        Box::new(repairs::Repairs),
        Box::<quiet::Quiet>::default(),
        Box::<once::Once>::default(),
        Box::<conservation::Conservation>::default(),
        Box::new(given_back::GivenBack),
        Box::new(agreement::Agreement),
        Box::new(books::Books),
        Box::new(bounded::Bounded),
        Box::new(convergence::Convergence),
    ]
}
