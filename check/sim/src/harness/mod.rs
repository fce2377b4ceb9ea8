//! What all simulators have in common.
//!
//! | file | contents |
//! |---|---|
//! | `queue` | scheduled events, by time |
//! | `report` | figures of runs |
//! | `seeds` | many runs, on every core |
//! | `simulator` | options that make one run of each seed |
//! | `watch` | checkers, the first broken invariant, and recorded events |

mod queue;
mod report;
mod seeds;
mod simulator;
mod watch;

pub(crate) use self::{
    queue::EventQueue,
    report::{quantile, report},
    seeds::run_all,
    simulator::Command,
    watch::{Record, Watch, forbid, invariant},
};
pub use self::{
    seeds::run_seeds,
    simulator::{Drawn, Simulator, Tally},
    watch::{Checker, Entry, Failure, Invariant, Verdict, Violation, Watched, When},
};
