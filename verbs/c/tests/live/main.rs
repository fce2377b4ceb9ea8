//! Tests of the library as C programs use it, on two nodes in this process connected by in-memory
//! cables. They need a C compiler and no privilege.
#![allow(clippy::unwrap_used)]

mod bytes;
mod calls;
mod examples;
mod fork;
mod framing;
mod groups;
#[path = "../../../tests/live/mesh.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod mesh;
mod messages;
mod misuse;
mod node;
#[path = "../../../tests/live/nodes.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod nodes;
mod packets;
mod regions;
mod sets;
mod verbs;
