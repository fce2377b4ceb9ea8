//! What is asked for is done once, and told once.

use std::collections::HashSet;

use super::{MeshChecker, Verdict};
use crate::mesh::{book::Told, fact::MeshFact, scene::MeshScene};

/// What is asked for is executed at most once, by the node that was asked and by no other. Its end is told once: "committed" of what
/// was executed, with the answer that it gave; "refused" or "not executed" of what never is; "restarted" of a node that lost its memory since the
/// asker came to know it, or, where there are paths, of one that left more exchanges of other ends open than it has latches for: that is rare, and figures
/// count it. Beside a liar who asks in another's name, and so ends what that one has open, any node may be told so.
#[derive(Debug, Default)]
pub(super) struct Once {
    /// What somebody was told of.
    told: HashSet<u64>,
}

impl MeshChecker for Once {
    fn name(&self) -> &'static str {
        "once"
    }

    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        match *fact {
            MeshFact::Executed { token, at, .. } => {
                let Some(ask) = scene.book.ask(token) else {
                    return Err(format!("{token} is executed, which nobody asked for"));
                };
                if ask.to.0 != at {
                    return Err(format!(
                        "{token} is executed at {at} and not at {}",
                        ask.to.0
                    ));
                }
                if ask.executed > 1 {
                    return Err(format!("{token} is executed {} times", ask.executed));
                }
                if ask.told.is_some() {
                    return Err(format!("{token} is executed behind its end {:?}", ask.told));
                }
                Ok(())
            }
            MeshFact::Told { token, by, how } => {
                let Some(ask) = scene.book.ask(token) else {
                    return Err(format!("{by} is told of {token}, which nobody asked for"));
                };
                if !self.told.insert(token) {
                    return Err(format!("{token} is told twice, now as {how:?}"));
                }
                if ask.from != (by, scene.life(by)) {
                    return Err(format!("{by} is told of {token}, which it did not ask for"));
                }
                let true_word = match how {
                    Told::Committed(answer) => ask.executed == 1 && ask.answer == Some(answer),
                    Told::Refused => ask.executed == 0,
                    Told::NotExecuted => ask.executed == 0 && ask.given_up,
                    Told::Restarted => {
                        scene.life(ask.to.0) != ask.to.1
                            || scene.has_paths
                            || scene.lied_roots_max.is_some()
                    }
                };
                if true_word {
                    return Ok(());
                }
                Err(format!(
                    "{token} is told as {how:?}, and the life of {} is {}: {ask:x?}",
                    ask.to.0,
                    scene.life(ask.to.0)
                ))
            }
            _ => Ok(()),
        }
    }
}
