//! Groups: the production [`covalent_protocol::group::Group`] of each member, on a network with
//! exactly the guarantees of verbs.
//!
//! The application of each member sends messages and keeps a digest of what it receives. It may
//! stall, take no events, or die. Envelopes take time, overtake one another, arrive twice or end
//! unclear. Paths follow from a graph of cables, and each end detects changes at its own time. All
//! checkers see all facts. At the end of a run all faults stop, and everything must complete.
//!
//! ```
//! use covalent_sim::group::{Options, run};
//!
//! let report = run(7, &Options::default())?;
//! assert!(report.views > 0);
//! # Ok::<(), Box<covalent_sim::group::Failure>>(())
//! ```
//!
//! The same checkers judge applications of real nodes ([`witness::Witness::of_applications`]),
//! except those that inspect the envelopes between members.
//!
//! | file | contents |
//! |---|---|
//! | `options`, `plan` | options of a run, and the choices of its seed |
//! | `mutant`, `lens`, `tamper` | deliberate defects |
//! | `world` | members and nodes, and their faults |
//! | `graph`, `net` | paths, envelopes in flight |
//! | `keys` | hashing of the checkers' keys |
//! | `application`, `sent` | requested messages, and decoded envelopes |
//! | `fact`, `book`, `witness`, `checkers` | events, ground truth, observer, invariants |
//! | `report`, `figures` | results of a run, and the duration of changes |
//! | `steps` | a member dies at each step of a change |

pub mod application;
pub mod book;
mod checkers;
pub mod fact;
pub mod figures;
pub mod graph;
mod keys;
mod lens;
pub mod mutant;
mod net;
pub mod options;
pub mod plan;
pub mod report;
mod sent;
pub mod steps;
mod tamper;
pub mod witness;
mod world;

pub use self::{
    mutant::Mutant,
    options::Options,
    report::Report,
    world::{World, run},
};
pub use crate::harness::{Failure, run_seeds};
