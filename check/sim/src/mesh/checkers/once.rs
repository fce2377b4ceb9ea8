//! Checks that a request is executed once and its outcome is reported once.

use std::collections::HashSet;

use super::{Checker, Meshes, Verdict};
use crate::mesh::{book::Reported, fact::MeshFact, scene::MeshScene};

/// A request is executed at most once, by its responder and by no other node. Its outcome is
/// reported once. "Committed" is reported for an executed request, with its answer. "Refused" or
/// "not executed" is reported for one that never is.
///
/// "Restarted" is reported if the responder lost its memory since the initiator learned of it. With
/// paths, a responder with more open exchanges of other ends than latches may cause it too: that is
/// rare, and figures count it. A liar that queries in another node's name ends that node's open
/// exchange. So beside a liar, any node may get "restarted".
#[derive(Debug, Default)]
pub(super) struct Once {
    /// Requests with a reported outcome.
    reported: HashSet<u64>,
}

impl Checker<Meshes> for Once {
    fn see(&mut self, fact: &MeshFact<'_>, scene: &MeshScene) -> Verdict {
        match *fact {
            MeshFact::Executed { token, at, .. } => {
                let Some(request) = scene.book.request(token) else {
                    return Err(format!("{token} is executed, but no node requested it"));
                };
                if request.to.0 != at {
                    return Err(format!(
                        "{token} is executed at {at} and not at {}",
                        request.to.0
                    ));
                }
                if request.executed > 1 {
                    return Err(format!("{token} is executed {} times", request.executed));
                }
                if request.reported.is_some() {
                    return Err(format!(
                        "{token} is executed behind its end {:?}",
                        request.reported
                    ));
                }
                Ok(())
            }
            MeshFact::Reported { token, by, how } => {
                let Some(request) = scene.book.request(token) else {
                    return Err(format!(
                        "{by} is notified of {token}, which no node requested"
                    ));
                };
                if !self.reported.insert(token) {
                    return Err(format!("{token} is reported twice, now as {how:?}"));
                }
                if request.from != (by, scene.incarnation(by)) {
                    return Err(format!(
                        "{by} is notified of {token}, which it did not request"
                    ));
                }
                let true_word = match how {
                    Reported::Committed(answer) => {
                        request.executed == 1 && request.answer == Some(answer)
                    }
                    Reported::Refused => request.executed == 0,
                    Reported::NotExecuted => request.executed == 0 && request.given_up,
                    Reported::Restarted => {
                        scene.incarnation(request.to.0) != request.to.1
                            || scene.has_paths
                            || scene.lied_roots_max.is_some()
                    }
                };
                if true_word {
                    return Ok(());
                }
                Err(format!(
                    "{token} is reported as {how:?}, and the incarnation of {} is {}: {request:x?}",
                    request.to.0,
                    scene.incarnation(request.to.0)
                ))
            }
            _ => Ok(()),
        }
    }
}
