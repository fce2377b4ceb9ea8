//! The library against running daemons: nodes in this process, joined by in-memory cables. Needs no privilege.
#![allow(clippy::unwrap_used)]

mod bytes;
mod endings;
mod faults;
mod fork;
mod groups;
mod lanes;
mod mesh;
mod messages;
mod nodes;
mod pipes;
mod queue;
mod regions;
mod restarts;
mod scale;
mod sets;
mod stamps;
mod stand_in;
mod stays;
mod triangle;
mod tuning;
mod verbs;
mod versions;
