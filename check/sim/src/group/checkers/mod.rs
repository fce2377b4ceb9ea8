//! One checker for each invariant of a group. All checkers see all facts of every world.
//!
//! | checker | invariant |
//! |---|---|
//! | view-agreement | one view per group and number; numbers grow; installers are members |
//! | one-chain | a quorum of the voters of the previous view reported its acceptance |
//! | total-order | of two members' messages in a view, one sequence is a prefix of the other |
//! | all-or-none | what any member delivered in a view, all installers of the next deliver |
//! | exactly-once | a member delivers each message at most once, as sent, in sender order |
//! | minority | a wedged member delivers only decided messages; without a quorum it stops |
//! | reported | a survivor's messages are delivered; a stopped member's may be in doubt |
//! | stable | the applications of all members took what is reported stable |
//! | state | a joiner gets the state of all earlier messages, and votes only then |
//! | bounded | envelopes in flight, receive queues, rounds and waiting messages are bounded |
//! | grows | no reported field of a row decreases, and no promise is broken |
//! | quiet | at rest, members send only keepalives |
//! | unmoved | envelopes forged by an untrusted local user change no member |
//! | convergence | after the last fault: one view, all messages delivered, no open search |

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

pub use self::convergence::unfinished;
use self::{
    all_or_none::AllOrNone, bounded::Bounded, convergence::Convergence, exactly_once::ExactlyOnce,
    grows::Grows, minority::Minority, one_chain::OneChain, quiet::Quiet, reported::Reported,
    stable::Stable, state::State, total_order::TotalOrder, unmoved::Unmoved,
    view_agreement::ViewAgreement,
};
use super::{book::Book, fact::Fact, graph::Graph};
use crate::harness::{Checker, Invariant, Verdict, Watched, forbid, invariant};

/// Groups, as their checkers see them.
#[derive(Debug)]
pub struct Groups;

impl Watched for Groups {
    type Fact<'a> = Fact<'a>;
    type Scene<'a> = Scene<'a>;
}

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

/// All checkers.
pub(super) fn all() -> Vec<Invariant<Groups>> {
    vec![
        invariant("view-agreement", ViewAgreement),
        invariant("one-chain", OneChain),
        invariant("total-order", TotalOrder),
        invariant("all-or-none", AllOrNone::default()),
        invariant("exactly-once", ExactlyOnce::default()),
        invariant("minority", Minority::default()),
        invariant("reported", Reported::default()),
        invariant("stable", Stable),
        invariant("state", State),
        invariant("bounded", Bounded::default()),
        invariant("grows", Grows::default()),
        invariant("quiet", Quiet::default()),
        invariant("unmoved", Unmoved),
        invariant("convergence", Convergence),
    ]
}

/// Returns the checkers that depend only on what applications request and receive.
pub(super) fn of_applications() -> Vec<Invariant<Groups>> {
    vec![
        invariant("view-agreement", ViewAgreement),
        invariant("total-order", TotalOrder),
        invariant("all-or-none", AllOrNone::default()),
        invariant("exactly-once", ExactlyOnce::default()),
        invariant("reported", Reported::default()),
        invariant("stable", Stable),
        invariant("state", State),
        invariant("convergence", Convergence),
    ]
}
