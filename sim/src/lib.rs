//! Deterministic simulator: the production [`covalent_protocol::Node`] and the production verb engine on simulated
//! cables.
//!
//! One seed decides everything that [`Options`] leave open: how many nodes and cables there are, which faults occur and
//! how often, what is asked of whom, and the order of every event. Nothing else does, so the same seed on the same build
//! is the same run. Frames are lost, corrupted, duplicated and delayed (never reordered: a cable is FIFO), cables are cut
//! in one direction or both, with and without carrier events at either end, or plugged elsewhere; nodes stand still, or
//! crash and lose their memory, or restart with their journal; registers hold anything; applications vanish.
//!
//! Every [`checkers`] sees every event. In the end all faults stop, and then every exchange must come to its end.
//!
//! ```
//! use covalent_sim::{Options, run};
//!
//! let report = run(7, &Options::default())?;
//! assert!(report.committed > 0);
//! # Ok::<(), covalent_sim::Failure>(())
//! ```
//!
//! A run that fails names its seed and the command that replays it.

pub mod arbitrary;
pub mod ask;
pub mod book;
pub mod cable;
pub mod checkers;
pub mod fact;
pub mod failover;
pub mod group;
pub mod hold;
pub mod hunt;
pub mod journal;
mod liar;
pub mod mesh;
pub mod model;
pub mod mutant;
pub mod named;
pub mod options;
pub mod payload;
pub mod plan;
mod program;
pub mod records;
pub mod region;
pub mod report;
pub mod seeds;
pub mod shape;
pub mod sweep;
pub mod witness;
mod world;

pub use self::{
    mutant::Mutant,
    options::Options,
    report::{Failure, Report},
    seeds::run_seeds,
    world::{World, run},
};

/// The name of a node, for people.
#[must_use]
pub fn node_name(node: usize) -> &'static str {
    const NAMES: [&str; 16] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p",
    ];
    NAMES.get(node).copied().unwrap_or("z")
}

/// A node's GUID.
#[must_use]
pub const fn node_guid(node: usize) -> u64 {
    node as u64 + 1
}

/// The incarnation of a node in one of its lives.
pub(crate) const fn incarnation(life: book::Life) -> u64 {
    (life.number as u64) << 32 | 1
}
