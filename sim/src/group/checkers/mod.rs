//! One checker for each invariant of a group. All checkers see all facts of every world.
//!
//! | checker | invariant |
//! |---|---|
//! | [`ViewAgreement`] | one view per group and number; numbers grow; installers are members |
//! | [`OneChain`] | a quorum of the voters of the previous view reported its acceptance |
//! | [`TotalOrder`] | of two members' messages in a view, one sequence is a prefix of the other |
//! | [`AllOrNone`] | what any member delivered in a view, all installers of the next deliver |
//! | [`ExactlyOnce`] | a member delivers each message at most once, as sent, in sender order |
//! | [`Minority`] | a wedged member delivers only decided messages; without a quorum it stops |
//! | [`Reported`] | a survivor's messages are delivered; a stopped member's may be in doubt |
//! | [`Stable`] | the applications of all members took what is reported stable |
//! | [`State`] | a joiner gets the state of all earlier messages, and votes only then |
//! | [`Bounded`] | envelopes in flight, receive queues, rounds and waiting messages are bounded |
//! | [`Grows`] | no reported field of a row decreases, and no promise is broken |
//! | [`Quiet`] | at rest, members send only keepalives |
//! | [`Unmoved`] | envelopes forged by an untrusted local user change no member |
//! | [`Convergence`] | after the last fault: one view, all messages delivered, no open search |

mod all_or_none;
mod bounded;
mod convergence;
mod exactly_once;
mod grows;
mod minority;
mod one_chain;
mod quiet;
mod reported;
mod stable;
mod state;
mod total_order;
mod unmoved;
mod view_agreement;

use std::fmt;

pub use self::{
    all_or_none::AllOrNone,
    bounded::Bounded,
    convergence::{Convergence, unfinished},
    exactly_once::ExactlyOnce,
    grows::Grows,
    minority::Minority,
    one_chain::OneChain,
    quiet::Quiet,
    reported::Reported,
    stable::Stable,
    state::State,
    total_order::TotalOrder,
    unmoved::Unmoved,
    view_agreement::ViewAgreement,
};
use super::{book::Book, fact::Fact, graph::Graph};

/// A checker's verdict on a fact: `Ok`, or how the fact breaks the invariant.
pub type Verdict = Result<(), String>;

/// Context of a fact that a checker may inspect.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Everything so far, without the current fact.
    pub book: &'a Book,
    /// Which nodes reach each other now.
    pub graph: &'a Graph,
}

impl Scene<'_> {
    /// Whether two applications run and their nodes reach each other.
    #[must_use]
    pub fn joined(&self, a: usize, b: usize) -> bool {
        let [a, b] = [a, b].map(|membership| &self.book.stays[membership]);
        a.is_alive && b.is_alive && self.graph.hops(a.node, b.node).is_some()
    }
}

/// Watches one invariant.
pub trait Checker: fmt::Debug + Send {
    /// Its name, in violations and documents.
    fn name(&self) -> &'static str;

    /// Looks at one fact.
    ///
    /// # Errors
    /// How it breaks the invariant.
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict;
}

/// All checkers.
#[must_use]
pub fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(ViewAgreement),
        Box::new(OneChain),
        Box::new(TotalOrder),
        Box::new(AllOrNone::default()),
        Box::new(ExactlyOnce::default()),
        Box::new(Minority::default()),
        Box::new(Reported::default()),
        Box::new(Stable),
        Box::new(State),
        Box::new(Bounded::default()),
        Box::new(Grows::default()),
        Box::new(Quiet::default()),
        Box::new(Unmoved),
        Box::new(Convergence),
    ]
}

/// Returns the checkers that depend only on what applications request and receive.
#[must_use]
pub fn of_applications() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(ViewAgreement),
        Box::new(TotalOrder),
        Box::new(AllOrNone::default()),
        Box::new(ExactlyOnce::default()),
        Box::new(Reported::default()),
        Box::new(Stable),
        Box::new(State),
        Box::new(Convergence),
    ]
}

/// The error, if `wrong`.
fn forbid(wrong: bool, what: impl FnOnce() -> String) -> Verdict {
    if wrong { Err(what()) } else { Ok(()) }
}
