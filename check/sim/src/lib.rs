//! Deterministic simulator: the production [`covalent_protocol::Node`] and the production verb
//! engine on simulated cables.
//!
//! One seed decides everything that [`Options`] leave open: the number of nodes and cables, the
//! faults and their frequency, the requests, and the order of every event. There is no other input,
//! so the same seed on the same build is the same run.
//!
//! - Frames are lost, corrupted, duplicated and delayed, but never reordered: a cable is FIFO.
//! - Cables are cut in one direction or both, with and without carrier events at either end, or
//!   plugged elsewhere.
//! - Nodes stall, crash and lose their memory, or restart with their journal.
//! - Registers become arbitrary, and applications vanish.
//!
//! All checkers see all events. At the end all faults stop, and every exchange must complete.
//!
//! ```
//! use covalent_sim::{Options, run};
//!
//! let report = run(7, &Options::default())?;
//! assert!(report.committed > 0);
//! # Ok::<(), Box<covalent_sim::Failure>>(())
//! ```
//!
//! A failed run names its seed and the command that replays it.

mod arbitrary;
mod book;
mod cable;
mod checkers;
mod fact;
pub mod failover;
pub mod group;
pub mod harness;
mod hold;
pub mod hunt;
mod journal;
mod liar;
pub mod mesh;
mod model;
pub mod mutant;
pub mod named;
mod operation;
pub mod options;
mod payload;
pub mod plan;
mod program;
mod records;
mod region;
pub mod report;
pub mod shape;
pub mod sweep;
mod witness;
mod world;

pub use self::{
    fact::Subject,
    harness::{Failure, run_seeds},
    mutant::Mutant,
    options::Options,
    report::Report,
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

/// Protocol incarnation of a node in one of its lives.
pub(crate) const fn incarnation(node_incarnation: book::NodeIncarnation) -> u64 {
    (node_incarnation.number as u64) << 32 | 1
}
