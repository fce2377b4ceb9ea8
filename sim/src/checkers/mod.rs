//! One checker for each invariant. All of them see everything that happens in every world.
//!
//! | checker | invariant |
//! |---|---|
//! | [`ExactlyOnce`] | no exchange is executed twice |
//! | [`ToldOnce`] | its initiator is told once at most how it ended, in the life in which it asked, and only if it cares |
//! | [`ToldTruthfully`] | "done" is told of what was executed, with the reply that it gave; "refused" of what was not and never will be; "forgotten" of peers that lost their memory; and nothing before word of the peer |
//! | [`Integrity`] | every payload arrives as it was sent, at the one whom it was sent to |
//! | [`Isolation`] | a region changes in an execution and never else; two-phase requests are executed after message 2 only |
//! | [`Conservation`] | transfers keep the sum; what a region holds at rest is what initiators were told |
//! | [`Serial`] | verbs do what an independent model of the region does, one after the other |
//! | [`Reservation`] | what was admitted is executed or reversed, once, under the same name; nothing stays reserved behind a failed link or at rest |
//! | [`Durability`] | what was acknowledged of a node with a journal is there when it starts again, no part of it and nothing else |
//! | [`Credit`] | no more records are under way, and no more requests kept, than there is credit for |
//! | [`Evidence`] | a link whose cable lost nothing of an epoch sees no evidence of loss in it |
//! | [`Forgery`] | who puts frames on a cable and hears nothing there takes no link down |
//! | [`Wiring`] | no link is refused, for every cable joins two ports |
//! | [`Paths`] | a node is told to be reached while a link to it is up, and lost when none is and none is to be waited for |
//! | [`Causality`] | what was known to whoever asked or executed has the smaller stamp |
//! | [`Answers`] | who asks for an exchange by its name is told once how it ended, and nothing else |
//! | [`Announcement`] | a node that has a frame to send says so |
//! | [`Convergence`] | when faults stop, everything comes to its end within a stated number of paces |

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
mod reservation;
mod serial;
mod told_once;
mod told_truthfully;
mod wiring;

use std::fmt;

pub use self::{
    announcement::Announcement, answers::Answers, causality::Causality, conservation::Conservation,
    convergence::Convergence, credit::Credit, durability::Durability, evidence::Evidence,
    exactly_once::ExactlyOnce, forgery::Forgery, integrity::Integrity, isolation::Isolation,
    paths::Paths, reservation::Reservation, serial::Serial, told_once::ToldOnce,
    told_truthfully::ToldTruthfully, wiring::Wiring,
};
use crate::{book::Book, fact::Fact, plan::Plan, region::Region};

/// What a checker says of a fact: nothing, or how it breaks the invariant.
pub type Verdict = Result<(), String>;

/// What a checker may look at besides the fact itself.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Everything asked so far. The fact at hand is not in it yet.
    pub book: &'a Book,
    /// The nodes' regions, as they are now.
    pub regions: &'a [Region],
    /// The nodes at the ends of each cable.
    pub cables: &'a [[usize; 2]],
    /// Counts the calls into nodes. All that happens in one call has one number.
    pub call: u64,
    /// The call gives a node a frame.
    pub hearing: bool,
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
        Box::new(ToldOnce),
        Box::new(ToldTruthfully),
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
