//! What a stranger says in the name of others changes nothing.

use super::{Checker, Fact, Scene, Verdict, forbid};

/// Nobody is moved by what a stranger forged.
#[derive(Debug)]
pub struct Unmoved;

impl Checker for Unmoved {
    fn name(&self) -> &'static str {
        "unmoved"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &Scene<'_>) -> Verdict {
        forbid(matches!(fact, Fact::Forged { moved: true, .. }), || {
            fact.to_string()
        })
    }
}
