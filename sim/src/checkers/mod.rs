//! One checker for each invariant. All checkers see all facts of every world.
//!
//! | checker | invariant |
//! |---|---|
//! | [`ExactlyOnce`] | no exchange is executed twice |
//! | [`ReportedOnce`] | an initiator gets an outcome at most once, in the same incarnation |
//! | [`ReportedTruthfully`] | a reported outcome is true, final, and follows a frame of the peer |
//! | [`Integrity`] | every payload arrives as it was sent, at its destination |
//! | [`Isolation`] | a region changes only in an execution, in 2PC only after message 2 |
//! | [`Conservation`] | transfers keep the sum, and a region at rest matches the reports |
//! | [`Serial`] | verbs match an independent model of the region, one after the other |
//! | [`Reservation`] | an admitted request is executed or reversed, once; nothing stays reserved |
//! | [`Durability`] | acknowledged work of a node with a journal survives its restart |
//! | [`Credit`] | the records in flight and the requests kept stay within the credit |
//! | [`Evidence`] | a link sees no evidence of loss in an epoch without loss |
//! | [`Forgery`] | a sender that receives nothing takes no link down |
//! | [`Wiring`] | no link is refused, because every cable joins two ports |
//! | [`Paths`] | a node is reported reached while a link to it is up, and else lost |
//! | [`Causality`] | everything known to initiator or responder has the smaller stamp |
//! | [`Answers`] | each query by name gets one reply, which is true |
//! | [`Announcement`] | a node that has a frame to send reports it |
//! | [`Convergence`] | after the last fault, everything completes within a number of ticks |

mod announcement;
mod answers;
mod causality;
mod conservation;
mod convergence;
mod credit;
mod durability;
mod evidence;
mod exactly_once;
mod forgery;
mod integrity;
mod isolation;
mod paths;
mod reported_once;
mod reported_truthfully;
mod reservation;
mod serial;
mod wiring;

use std::fmt;

pub use self::{
    announcement::Announcement, answers::Answers, causality::Causality, conservation::Conservation,
    convergence::Convergence, credit::Credit, durability::Durability, evidence::Evidence,
    exactly_once::ExactlyOnce, forgery::Forgery, integrity::Integrity, isolation::Isolation,
    paths::Paths, reported_once::ReportedOnce, reported_truthfully::ReportedTruthfully,
    reservation::Reservation, serial::Serial, wiring::Wiring,
};
use crate::{book::Book, fact::Fact, plan::Plan, region::Region};

/// A checker's verdict on a fact: `Ok`, or how the fact breaks the invariant.
pub type Verdict = Result<(), String>;

/// Context of a fact that a checker may inspect.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// All exchanges so far, without the current fact.
    pub book: &'a Book,
    /// The nodes' regions, as they are now.
    pub regions: &'a [Region],
    /// The nodes at the ends of each cable.
    pub cables: &'a [[usize; 2]],
    /// Counts the calls into nodes. All that happens in one call has one number.
    pub call: u64,
    /// The call gives a node a frame.
    pub receiving: bool,
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

/// All checkers, for a world with this plan.
#[must_use]
pub fn all(plan: &Plan) -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(ExactlyOnce),
        Box::new(ReportedOnce),
        Box::new(ReportedTruthfully),
        Box::new(Integrity),
        Box::new(Isolation::default()),
        Box::new(Conservation::default()),
        Box::new(Serial::default()),
        Box::new(Reservation::default()),
        Box::new(Durability::new(&plan.durable)),
        Box::new(Credit::new(plan.slots)),
        // It names the frame, where evidence names the link alone.
        Box::new(Forgery::default()),
        Box::new(Evidence::default()),
        Box::new(Wiring::default()),
        Box::new(Paths::default()),
        Box::new(Causality::default()),
        Box::new(Answers::new(plan.transactions_max)),
        Box::new(Announcement),
        Box::new(Convergence),
    ]
}

/// The error, if `wrong`.
fn forbid(wrong: bool, what: impl FnOnce() -> String) -> Verdict {
    if wrong { Err(what()) } else { Ok(()) }
}
