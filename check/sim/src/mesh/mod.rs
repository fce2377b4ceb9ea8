//! Meshes: production nodes on cables with time, up to a thousand of them.
//!
//! | file | contents |
//! |---|---|
//! | `options`, `plan`, `fault` | options, choices of a seed, and faults of a mesh |
//! | `time`, `wire` | time and events; cables with a delay |
//! | `world/`, `program` | nodes and their environment, run to a time or to rest |
//! | `load`, `errand`, `share` | requests, and the memory that the applications of a node share |
//! | `room` | capacity of nodes for paths |
//! | `truth` | properties of the graph |
//! | `fact`, `content`, `book`, `scene`, `witness` | events for checkers, figures and trace |
//! | `checkers` | one for each invariant |
//! | `liar` | a node beside the mesh that lies |
//! | `mutant`, `lens` | deliberate defects, and the messages that they change |
//! | `figures`, `spread` | results of a run |
//! | `churn` | a run: settle, faults, rest, all mended, rest |
//! | `exhaustive`, `three`, `sixteen` | triangle: every failure; 4×4 grid: single ones and pairs |
//! | `trace`, `page/` | recorded events, and the page with their timeline |
//! | `chart` | growth of the figures with the mesh |
//!
//! A round trip of a link takes [`ROUND_TRIP_UNITS`], and there is no other clock. The same seed
//! and options on the same build are the same run, recorded or not.

mod book;
mod chart;
mod checkers;
mod churn;
mod content;
mod errand;
mod exhaustive;
mod fact;
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
    chart::growth,
    churn::{run, shape},
    content::FrameKind,
    exhaustive::{Exhaustive, run_case, run_cases},
    figures::MeshReport,
    load::MeshLoad,
    mutant::MeshMutant,
    options::{FaultClass, MeshFaults, MeshOptions},
    page::{Title, page},
    spread::Spread,
    time::{FRAME_UNITS, ROUND_TRIP_UNITS},
    trace::{Arrow, CableChange, CapturedFrame, Mark, MarkKind, ParentChange, Trace},
    world::MeshWorld,
};
pub use crate::harness::run_seeds;
