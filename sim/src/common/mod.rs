//! What all simulators have in common.
//!
//! | file | contents |
//! |---|---|
//! | `queue` | scheduled events, by time |

mod queue;

pub(crate) use self::queue::EventQueue;
