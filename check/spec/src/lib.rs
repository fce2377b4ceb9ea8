//! Every run, within small bounds, of the production state machines.
//!
//! `link.pml` beside this crate specifies the link. Here the checker [`stateright`] takes
//! [`covalent_protocol::Node`] itself, byte for byte what the daemon runs, through every order of
//! deliveries, losses, cuts, ticks, submissions and restarts that a [`Scenario`] allows.
//!
//! [`agreement`] does the same with the state machines by which control and the dataplane agree.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | the cables, the wishes, how often each fault may happen |
//! | [`world`] | a state: nodes, their programs, frames in flight |
//! | [`frame`] | a frame in flight |
//! | [`forgery`] | forged frames |
//! | [`program`] | the program around a node, which keeps books |
//! | [`step`] | the possible next steps, and their effects |
//! | [`invariant`] | the invariants of every state |
//! | [`rest`] | the fair run that every state must have |
//! | [`sight`] | the events that a search must reach, or it shows nothing about them |
//! | [`mutant`] | deliberate defects, each of which must be found |
//! | [`unnumbered`] | one of them: records without numbers |
//! | [`check`] | a search through any scenario, and the states that it explored |
//! | [`catalog`] | the scenarios to check |
//! | [`group`], [`trees`] | the same for groups and for trees |
#![forbid(unsafe_code)]

pub mod agreement;
pub mod catalog;
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
    check::{Explored, Space, explore},
    mutant::Mutant,
    scenario::Scenario,
};
