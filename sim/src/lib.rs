//! Deterministic simulator: the production [`covalent_protocol::Node`] on simulated cables.
//!
//! One seed decides everything: how many nodes and cables there are, which faults occur and how often, what is asked of
//! whom, and the order of every event. Nothing else does, so the same seed on the same build is the same run. Frames
//! are lost, corrupted, duplicated and delayed (never reordered: a cable is FIFO), cables are cut in one direction or
//! both, with and without carrier events at either end, or plugged elsewhere; nodes crash and lose their memory;
//! applications vanish.
//!
//! The [`ledger`] watches every event and the world checks the end: all faults stop, and then every exchange must come
//! to its end, executed exactly once if and only if its initiator was told so, with every balance exact.
//!
//! ```
//! let report = covalent_sim::run(7)?;
//! assert!(report.committed > 0);
//! # Ok::<(), covalent_sim::Failure>(())
//! ```
//!
//! A run that fails names its seed. `COVALENT_SIM_SEED=7 cargo test -p covalent-sim` runs that one alone and prints its
//! history.

pub mod cable;
pub mod ledger;
pub mod plan;
mod program;
mod world;

pub use world::{Failure, Report, World, run};
