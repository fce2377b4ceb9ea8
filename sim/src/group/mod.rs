//! Groups: the production [`covalent_protocol::group::Group`] of each member, on a network that promises what verbs promise and no more.
//!
//! Around each member is an application that asks, keeps a sum of what it is told, and may stand still, eat nothing or die. Envelopes take
//! their time, overtake one another, come twice or end unclear; paths follow from a graph of cables, and each end notices at its own time.
//! Every [`checkers`] sees every fact. In the end all faults stop, and then everything must come to its end.
//!
//! ```
//! use covalent_sim::group::{Options, run};
//!
//! let report = run(7, &Options::default())?;
//! assert!(report.views > 0);
//! # Ok::<(), Box<covalent_sim::group::Failure>>(())
//! ```
//!
//! What applications of real nodes were told is judged by the same checkers ([`witness::Witness::of_applications`]), those left out that look
//! at what members say to each other.
//!
//! | file | what |
//! |---|---|
//! | `options`, `plan` | what may be chosen, what a seed decides |
//! | `mutant`, `lens`, `tamper` | what is built wrong |
//! | `world` | members and nodes, and what may happen to them |
//! | `graph`, `net`, `schedule` | paths, envelopes under way, time |
//! | `keys` | hashing of what checkers remember by |
//! | `application`, `said` | what is asked for, and what an envelope says |
//! | `fact`, `book`, `witness`, `checkers` | what happened, what is true, who looks on, what must hold |
//! | `report`, `figures` | what a run comes to, how long changes take |
//! | `steps` | somebody dies at each step of a change |

pub mod application;
pub mod book;
pub mod checkers;
pub mod fact;
pub mod figures;
pub mod graph;
mod keys;
mod lens;
pub mod mutant;
pub mod net;
pub mod options;
pub mod plan;
pub mod report;
pub mod said;
mod schedule;
pub mod steps;
mod tamper;
pub mod witness;
mod world;

use std::ops::{ControlFlow, Range};

pub use self::{
    mutant::Mutant,
    options::Options,
    report::{Failure, Report},
    world::{World, run},
};
use crate::seeds::on_every_core;

/// Runs every seed, and gives what they did together, as [`crate::run_seeds`] does.
///
/// # Errors
/// The lowest seed that failed.
pub fn run_seeds(
    seeds: Range<u64>,
    options: &Options,
    progress: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<Report, Box<Failure>> {
    let one = |seed| run(seed, options);
    on_every_core(seeds, one, Report::add, |failure| failure.seed, progress)
}
