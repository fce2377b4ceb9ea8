//! One checker for each invariant of a group. All of them see everything that happens in every world.
//!
//! | checker | invariant |
//! |---|---|
//! | [`ViewAgreement`] | views of one number of one group are equal at all who installed them; numbers only grow; a member is in each view that it installs |
//! | [`OneChain`] | each view is the one that a quorum of the voters of the one before said that it accepted |
//! | [`TotalOrder`] | of two members' messages of a view one is the beginning of the other's; equal for all who installed the next |
//! | [`AllOrNone`] | what anybody, also one who is dead, was told in a view is told to all who installed the next |
//! | [`ExactlyOnce`] | each message once at most at a member, as it was sent, in the order of its sender's numbers without a gap |
//! | [`Minority`] | who wedged delivers only what a quorum decided; who reaches no quorum says that it stopped |
//! | [`Told`] | what a survivor asked for is delivered; of one who was stopped it is delivered or was called in doubt, and its next stay hears how many were |
//! | [`Stable`] | what is called stable was taken by the applications of all members |
//! | [`State`] | who joined has what a replay of all messages before its view gives, and nobody votes before |
//! | [`Bounded`] | envelopes under way, receive queues, rounds and messages that wait stay within their bounds |
//! | [`Grows`] | no field of a row that was said goes back, and no promise is broken |
//! | [`Quiet`] | at rest nothing is said but balls |
//! | [`Unmoved`] | what a stranger says in the name of others changes nobody |
//! | [`Convergence`] | when faults are over, all who live and belong together are in one view, every message is delivered, and whoever looks for a group is in one |

mod all_or_none;
mod bounded;
mod convergence;
mod exactly_once;
mod grows;
mod minority;
mod one_chain;
mod quiet;
mod stable;
mod state;
mod told;
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
    stable::Stable,
    state::State,
    told::Told,
    total_order::TotalOrder,
    unmoved::Unmoved,
    view_agreement::ViewAgreement,
};
use super::{book::Book, fact::Fact, graph::Graph};

/// What a checker says of a fact: nothing, or how it breaks the invariant.
pub type Verdict = Result<(), String>;

/// What a checker may look at besides the fact itself.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Everything so far. The fact at hand is not in it yet.
    pub book: &'a Book,
    /// Who reaches whom now.
    pub graph: &'a Graph,
}

impl Scene<'_> {
    /// Whether two applications live and their nodes reach each other.
    #[must_use]
    pub fn joined(&self, a: usize, b: usize) -> bool {
        let [a, b] = [a, b].map(|stay| &self.book.stays[stay]);
        a.lives && b.lives && self.graph.hops(a.node, b.node).is_some()
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
        Box::new(Told::default()),
        Box::new(Stable),
        Box::new(State),
        Box::new(Bounded::default()),
        Box::new(Grows::default()),
        Box::new(Quiet::default()),
        Box::new(Unmoved),
        Box::new(Convergence),
    ]
}

/// Those that go by what applications ask and are told, and by nothing else.
#[must_use]
pub fn of_applications() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(ViewAgreement),
        Box::new(TotalOrder),
        Box::new(AllOrNone::default()),
        Box::new(ExactlyOnce::default()),
        Box::new(Told::default()),
        Box::new(Stable),
        Box::new(State),
        Box::new(Convergence),
    ]
}

/// The error, if `wrong`.
fn forbid(wrong: bool, what: impl FnOnce() -> String) -> Verdict {
    if wrong { Err(what()) } else { Ok(()) }
}
