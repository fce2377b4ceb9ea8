//! Hunting: fresh seeds of all simulators on all cores, and the smallest case of what they find.
//!
//! | file | what |
//! |---|---|
//! | `case` | one run of one simulator, what it broke, and the cases that are smaller |
//! | `queue` | which case is next, so that each simulator has the same share of the cores |
//! | `crew` | threads that run cases; a panic ends one run and is a finding |
//! | `search` | a hunt: it begins, is waited for, and sums up |
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
