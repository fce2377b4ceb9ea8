//! The applications as processes, on two nodes in this process that are joined by in-memory cables. Needs no privilege.
#![allow(clippy::unwrap_used)]

mod bank;
mod echo_replay;
#[path = "../../../verbs/tests/live/nodes.rs"]
mod nodes;
mod process;
