//! Meshes: production nodes on cables with time, up to a thousand of them.
//!
//! | file | what |
//! |---|---|
//! | `options`, `plan`, `fault` | what may be chosen, what a seed makes of the rest, and what is done to a mesh |
//! | `time`, `wire` | what happens when; cables with a delay |
//! | `world`, `program` | nodes and what is around them, run to a time or to rest |
//! | `truth` | what the graph says |
//! | `fact`, `content`, `book`, `scene`, `witness` | everything that happens, as checkers, figures and trace are shown it |
//! | [`checkers`] | one for each invariant |
//! | `mutant` | what is built wrong on purpose |
//! | `figures`, `failure` | what a run comes to |
//! | `churn` | a run: settle, faults, rest, all mended, rest |
//! | `trace` | what happened, kept for a page |
//!
//! A round trip of a link takes [`ROUND_TRIP_UNITS`], and nothing else is a clock. The same seed and options on the same build are the
//! same run, whether it is recorded or not.

mod book;
pub mod checkers;
mod churn;
mod content;
mod fact;
mod failure;
mod fault;
mod figures;
mod mutant;
mod options;
mod plan;
mod program;
mod scene;
mod time;
mod trace;
mod truth;
mod wire;
mod witness;
mod world;

pub use self::{
    book::{Ask, Book, Told},
    churn::{run, run_seeds, shape},
    content::FrameKind,
    fact::{Counts, MeshFact},
    failure::MeshFailure,
    fault::MeshFault,
    figures::MeshReport,
    mutant::MeshMutant,
    options::{FaultClass, MeshFaults, MeshOptions},
    scene::MeshScene,
    time::{FRAME_UNITS, ROUND_TRIP_UNITS},
    trace::{Arrow, CableChange, Mark, MarkKind, Trace},
    truth::{NO_WAY, Truth},
    world::MeshWorld,
};
