//! Every run, within small bounds, of the agreement between control and the dataplane.
//!
//! The search uses the production state machines of [`covalent_protocol::agreement`] unchanged:
//! control's offerer, the host thread's joint, and the slots of two lanes. It models their
//! surroundings: connections, mailboxes, an opener, and lanes whose configuration is two rules.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | how often each event may happen |
//! | [`world`] | a state |
//! | [`control`] | control, its connections, and the datagrams in flight on them |
//! | [`dataplane`] | the host thread, the lanes and the opener |
//! | [`step`] | the possible next steps |
//! | [`invariant`] | the invariants of every state |
//! | [`rest`] | the fair runs that every state must have |
//! | [`sight`] | the events that a search must reach |
//! | [`mutant`] | deliberate defects, each of which must be found |
//! | [`catalog`] | the scenarios to check |

pub mod catalog;
pub mod control;
pub mod dataplane;
pub mod invariant;
pub mod mutant;
pub mod rest;
pub mod scenario;
pub mod sight;
pub mod step;
pub mod world;

pub use self::{mutant::Mutant, scenario::Scenario, step::explore};
