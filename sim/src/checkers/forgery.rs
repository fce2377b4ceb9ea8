//! Who puts frames on a cable and hears nothing takes no link down.

use super::{Checker, Scene, Verdict, forbid};
use crate::fact::Fact;

/// No frame of somebody who knows neither incarnations nor epochs takes a link down that is up. While registers hold anything they may hold what it
/// guesses.
#[derive(Debug)]
pub struct Forgery;

impl Checker for Forgery {
    fn name(&self) -> &'static str {
        "forgery"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Forged { at, took_down } if !scene.book.is_unsettled() => {
                forbid(*took_down, || {
                    format!("a forged frame at {at} takes a link down")
                })
            }
            _ => Ok(()),
        }
    }
}
