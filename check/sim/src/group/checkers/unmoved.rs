//! Checks that envelopes forged by an untrusted local user change nothing.

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};

/// No member changes because of a forged envelope.
#[derive(Debug)]
pub struct Unmoved;

impl Checker<Groups> for Unmoved {
    fn see(&mut self, fact: &Fact<'_>, _: &Scene<'_>) -> Verdict {
        forbid(matches!(fact, Fact::Forged { moved: true, .. }), || {
            fact.to_string()
        })
    }
}
