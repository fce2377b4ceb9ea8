//! The applications as processes. Two nodes in this process are joined by in-memory cables, which
//! need no privilege, or over AF_XDP ([`soak`]), which needs root.
#![allow(clippy::unwrap_used)]

mod bank;
mod echo_replay;
#[path = "../../../verbs/tests/live/mesh.rs"]
#[allow(dead_code, reason = "the library's own tests use all of it")]
mod mesh;
#[path = "../../../dataplane/tests/daemon/namespace.rs"]
#[allow(dead_code, reason = "the daemon's own tests use all of it")]
mod namespace;
#[path = "../../../verbs/tests/live/nodes.rs"]
#[allow(dead_code, reason = "the library's own tests use all of it")]
mod nodes;
#[path = "../../../dataplane/tests/daemon/noise.rs"]
#[allow(dead_code, reason = "the daemon's own tests use all of it")]
mod noise;
mod process;
mod prometheus;
mod rack;
mod registers;
mod restarts;
#[path = "../../../dataplane/tests/daemon/seeds.rs"]
mod seeds;
mod soak;
