//! Every run, within small bounds, of the agreement between control and the dataplane.
//!
//! The search uses the production state machines of [`covalent_protocol::agreement`] unchanged:
//! control's proposer and the daemon's acceptor. It models their surroundings: connections, and a
//! change of the lanes that may fail until it commits.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | how often each event may happen |
//! | [`world`] | a state |
//! | [`control`] | control, its connections, and the datagrams in flight on them |
//! | [`dataplane`] | the daemon and the change of its lanes |
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

pub use self::{mutant::Mutant, scenario::Scenario};
