//! Hunting: fresh seeds of all simulators on all cores, and the smallest case of each finding.
//!
//! | file | contents |
//! |---|---|
//! | `case` | one run of one simulator, what it broke, and smaller cases |
//! | `queue` | choice of the next case, with equal shares of the cores for all simulators |
//! | `crew` | threads that run cases; a panic ends one run and is a finding |
//! | `search` | a hunt: start, wait, sum up |
//! | `shrink` | fewer nodes, then fewer classes of faults, then fewer events |

mod case;
mod crew;
mod queue;
mod search;
mod shrink;

pub use self::{
    case::{Broken, Case, Simulation, Size},
    crew::cores,
    queue::{Kind, MESH_NODES, Share},
    search::{Finding, Hunt, Unfinished},
    shrink::{Bounds, Smallest, shrink},
};
