//! Meshes: production nodes on cables with time, up to a thousand of them.
//!
//! | file | what |
//! |---|---|
//! | `options`, `plan`, `fault` | what may be chosen, what a seed makes of the rest, and what is done to a mesh |
//! | `time`, `wire` | what happens when; cables with a delay |
//! | `world/`, `program` | nodes and what is around them, run to a time or to rest |
//! | `load`, `errand`, `share` | who asks whom, for what, and what the applications of a node share |
//! | `room` | how much room nodes have for paths |
//! | `truth` | what the graph says |
//! | `fact`, `content`, `book`, `scene`, `witness` | everything that happens, as checkers, figures and trace are shown it |
//! | [`checkers`] | one for each invariant |
//! | `liar` | a node beside the mesh that lies |
//! | `mutant`, `lens` | what is built wrong on purpose, and how notes are heard then |
//! | `figures`, `spread`, `failure` | what a run comes to |
//! | `churn` | a run: settle, faults, rest, all mended, rest |
//! | `exhaustive`, `three`, `sixteen` | every failure mode of a triangle; every failure of a 4×4 grid, alone and in pairs |
//! | `trace`, `page/` | what happened, and the page with its time-line |
//! | `chart` | how figures grow with the mesh |
//!
//! A round trip of a link takes [`ROUND_TRIP_UNITS`], and nothing else is a clock. The same seed and options on the same build are the
//! same run, whether it is recorded or not.

mod book;
mod chart;
pub mod checkers;
mod churn;
mod content;
mod errand;
mod exhaustive;
mod fact;
mod failure;
mod fault;
mod figures;
mod lens;
mod liar;
mod load;
mod mutant;
mod options;
mod page;
mod plan;
mod program;
mod room;
mod scene;
mod share;
mod sixteen;
mod spread;
mod three;
mod time;
mod trace;
mod truth;
mod wire;
mod witness;
mod world;

pub use self::{
    book::{Ask, Book, Told},
    chart::growth,
    churn::{run, run_seeds, shape},
    content::{Content, FrameKind},
    errand::{Answer, Errand},
    exhaustive::{Exhaustive, run_case, run_cases},
    fact::{Counts, MeshFact, View},
    failure::MeshFailure,
    fault::MeshFault,
    figures::MeshReport,
    load::MeshLoad,
    mutant::MeshMutant,
    options::{FaultClass, MeshFaults, MeshOptions},
    page::{Title, page},
    scene::{Fall, MeshScene, Way},
    spread::Spread,
    time::{FRAME_UNITS, ROUND_TRIP_UNITS},
    trace::{Arrow, CableChange, CapturedFrame, Mark, MarkKind, ParentChange, Trace},
    truth::{NO_WAY, Truth},
    world::MeshWorld,
};
