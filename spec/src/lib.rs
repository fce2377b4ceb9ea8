//! Every run, within small bounds, of the production state machines.
//!
//! `link.pml` beside this crate specifies the link; here the checker [`stateright`] takes [`covalent_protocol::Node`] itself, byte for
//! byte what the daemon runs, through every order of deliveries, losses, cuts, ticks, submissions and restarts that a [`Scenario`] allows.
//!
//! [`agreement`] does the same with the machines by which control and the dataplane agree.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | who is cabled to whom, what they want, how often what may go wrong |
//! | [`world`] | a state: nodes, their programs, frames under way |
//! | [`frame`] | a frame under way |
//! | [`forgery`] | frames that nobody sent |
//! | [`program`] | the program around a node, which keeps books |
//! | [`step`] | what may happen next, and what it does |
//! | [`invariant`] | what must hold in every state |
//! | [`rest`] | the fair run that every state must have |
//! | [`sight`] | what a search must come by, or it shows nothing about it |
//! | [`mutant`] | ways to build it wrong, each of which must be found |
//! | [`unnumbered`] | one of them: records without numbers |
//! | [`check`] | runs the checker and says what it explored |
//! | [`catalogue`] | the scenarios that are checked |
//! | [`group`], [`trees`] | the same for groups and for trees |
#![forbid(unsafe_code)]

pub mod agreement;
pub mod catalogue;
pub mod check;
pub mod forgery;
pub mod frame;
pub mod group;
pub mod invariant;
pub mod mutant;
pub mod program;
pub mod rest;
pub mod scenario;
pub mod sight;
pub mod step;
pub mod trees;
pub mod unnumbered;
pub mod world;

pub use self::{
    check::{Explored, explore},
    mutant::Mutant,
    scenario::Scenario,
};
