//! Tests of the library with running daemons: nodes in this process connected by in-memory cables.
//! They need no privilege.
#![allow(clippy::unwrap_used)]

mod bytes;
mod endings;
mod faults;
mod fork;
mod groups;
mod lanes;
mod layers;
mod link_frames;
mod mesh;
mod messages;
mod nodes;
mod pipes;
mod queue;
mod queues;
mod readiness;
mod regions;
mod rejoins;
mod restarts;
mod scale;
mod sets;
mod stamps;
mod stand_in;
mod tasks;
mod triangle;
mod tuning;
mod verbs;
mod versions;
