//! Exchanges with nodes beyond the neighbors, over paths.
#![allow(clippy::unwrap_used)]

mod cuts;
mod far;
#[cfg(feature = "arbitrary-state")]
mod from_anywhere;
mod hostile;
mod memory;
#[path = "../rack/mod.rs"]
mod rack;
mod room;
mod verbs;
