//! Every run, within small bounds, of how control and the dataplane agree.
//!
//! The production machines of [`covalent_protocol::agreement`] are taken as they are: control's offerer, the host thread's joint, the slots of two
//! lanes. What is played around them is what does the work: connections, mailboxes, an opener, and lanes whose configuration is two rules.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | how often what may happen |
//! | [`world`] | a state |
//! | [`control`] | control, its connections, and what is under way on them |
//! | [`dataplane`] | the host thread, the lanes and the opener |
//! | [`step`] | what may happen next |
//! | [`invariant`] | what must hold in every state |
//! | [`rest`] | the fair runs that every state must have |
//! | [`sight`] | what a search must come by |
//! | [`mutant`] | ways to build it wrong, each of which must be found |
//! | [`catalogue`] | what is checked |

pub mod catalogue;
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
