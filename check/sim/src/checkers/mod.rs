//! One checker for each invariant. All checkers see all facts of every world.
//!
//! | checker | invariant |
//! |---|---|
//! | exactly-once | no exchange is executed twice |
//! | reported-once | an initiator gets an outcome at most once, in the same incarnation |
//! | reported-truthfully | a reported outcome is true, final, and follows a frame of the peer |
//! | integrity | every payload arrives as it was sent, at its destination |
//! | isolation | a region changes only in an execution, in 2PC only after message 2 |
//! | conservation | transfers keep the sum, and a region at rest matches the reports |
//! | serial | verbs match an independent model of the region, one after the other |
//! | reservation | an admitted request is executed or reversed, once; nothing stays reserved |
//! | durability | acknowledged work of a node with a journal survives its restart |
//! | credit | the records in flight and the requests kept stay within the credit |
//! | evidence | a link sees no evidence of loss in an epoch without loss |
//! | forgery | a sender that receives nothing takes no link down |
//! | wiring | no link is refused, because every cable joins two ports |
//! | paths | a node is reported reached while a link to it is up, and else lost |
//! | causality | everything known to initiator or responder has the smaller stamp |
//! | answers | each query by name gets one reply, which is true |
//! | announcement | a node that has a frame to send reports it |
//! | convergence | after the last fault, everything completes within a number of ticks |

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

use self::{
    announcement::Announcement, answers::Answers, causality::Causality, conservation::Conservation,
    convergence::Convergence, credit::Credit, durability::Durability, evidence::Evidence,
    exactly_once::ExactlyOnce, forgery::Forgery, integrity::Integrity, isolation::Isolation,
    paths::Paths, reported_once::ReportedOnce, reported_truthfully::ReportedTruthfully,
    reservation::Reservation, serial::Serial, wiring::Wiring,
};
use crate::{
    book::Book,
    fact::Fact,
    harness::{Checker, Invariant, Verdict, Watched, forbid, invariant},
    plan::Plan,
    region::Region,
};

/// Links and nodes, as their checkers see them.
#[derive(Debug)]
pub struct Links;

impl Watched for Links {
    type Fact<'a> = Fact<'a>;
    type Scene<'a> = Scene<'a>;
}

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

/// All checkers, for a world with this plan.
pub(crate) fn all(plan: &Plan) -> Vec<Invariant<Links>> {
    vec![
        invariant("exactly-once", ExactlyOnce),
        invariant("reported-once", ReportedOnce),
        invariant("reported-truthfully", ReportedTruthfully),
        invariant("integrity", Integrity),
        invariant("isolation", Isolation::default()),
        invariant("conservation", Conservation::default()),
        invariant("serial", Serial::default()),
        invariant("reservation", Reservation::default()),
        invariant("durability", Durability::new(&plan.durable)),
        invariant("credit", Credit::new(plan.slots)),
        // It names the frame, where evidence names the link alone.
        invariant("forgery", Forgery::default()),
        invariant("evidence", Evidence::default()),
        invariant("wiring", Wiring::default()),
        invariant("paths", Paths::default()),
        invariant("causality", Causality::default()),
        invariant("answers", Answers::new(plan.transactions_max)),
        invariant("announcement", Announcement),
        invariant("convergence", Convergence),
    ]
}
