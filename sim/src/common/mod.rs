//! What all simulators have in common.
//!
//! | file | contents |
//! |---|---|
//! | `queue` | scheduled events, by time |
//! | `watch` | checkers, the first broken invariant, and recorded events |

mod queue;
mod watch;

pub use self::watch::{Checker, Entry, Failure, Invariant, Verdict, Violation, Watched, When};
pub(crate) use self::{
    queue::EventQueue,
    watch::{Record, Watch, forbid, invariant},
};
