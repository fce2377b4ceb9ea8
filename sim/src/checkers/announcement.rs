//! A node that has a frame to send says so.

use super::{Checker, Scene, Verdict, forbid};
use crate::fact::Fact;

/// A node that gives out a frame had said before that it has work: a lane that sleeps when there is none must miss
/// nothing.
#[derive(Debug)]
pub struct Announcement;

impl Checker for Announcement {
    fn name(&self) -> &'static str {
        "announcement"
    }

    fn see(&mut self, fact: &Fact<'_>, _scene: &Scene<'_>) -> Verdict {
        let Fact::Sent {
            from, announced, ..
        } = fact
        else {
            return Ok(());
        };
        forbid(!announced, || {
            format!("{from} had a frame to send but said that it had no work")
        })
    }
}
