//! Checks that a node reports pending work before it emits a frame.

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::fact::Fact;

/// A node that emits a frame has reported pending work before. Otherwise a lane that sleeps without
/// work would miss the frame.
#[derive(Debug)]
pub struct Announcement;

impl Checker<Links> for Announcement {
    fn see(&mut self, fact: &Fact<'_>, _scene: &Scene<'_>) -> Verdict {
        let Fact::Sent {
            from, announced, ..
        } = fact
        else {
            return Ok(());
        };
        forbid(!announced, || {
            format!("{from} had a frame to send but reported that it had no work")
        })
    }
}
