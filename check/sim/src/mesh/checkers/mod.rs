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

use super::{fact::MeshFact, scene::MeshScene};
use crate::harness::{Checker, Invariant, Verdict, Watched, invariant};

/// Meshes, as their checkers see them.
#[derive(Debug)]
pub(super) struct Meshes;

impl Watched for Meshes {
    type Fact<'a> = MeshFact<'a>;
    type Scene<'a> = MeshScene;
}

/// All of them.
pub(super) fn all() -> Vec<Invariant<Meshes>> {
    vec![
        invariant("acyclic", acyclic::Acyclic),
        invariant("order", order::Order::default()),
        invariant("one-parent", one_parent::OneParent),
        invariant("reaches", reaches::Reaches::default()),
        invariant("repairs", repairs::Repairs),
        invariant("quiet", quiet::Quiet::default()),
        invariant("once", once::Once::default()),
        invariant("conservation", conservation::Conservation::default()),
        invariant("given-back", given_back::GivenBack),
        invariant("agreement", agreement::Agreement),
        invariant("books", books::Books),
        invariant("bounded", bounded::Bounded),
        invariant("convergence", convergence::Convergence),
    ]
}
