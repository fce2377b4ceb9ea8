//! Trees: state machines joined by queues, for any graph, order and failures.
#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

mod drawn;
mod liar;
#[allow(dead_code, reason = "shared with the tests from arbitrary tables")]
mod mesh;
mod repairs;
mod roots;
mod waiting;
