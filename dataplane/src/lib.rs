//! The poll-mode dataplane: lanes, ports, steering into pipes, links and verb execution.
//!
//! ```text
//!            ┌── host thread ──────────────┐   commands    ┌── lane (pinned thread) ─────────────────────────┐
//!  clients ──┤ socket, sessions, status,   ├──────────────►│ ports ─► links (protocol) ─► verbs ─► regions   │
//!            │ carriers, events            │◄──────────────┤      └─► flow table ─► pipes ◄─► applications   │
//!            └─┬─────────────────────────▲─┘    reports    └─────────────────────────────────────────────────┘
//!         jobs │                         │ what came of them
//!            ┌─▼─────────────────────────┴─┐
//!            │ two workers: make, seal and │
//!            │ free memory, small or large │
//!            └─────────────────────────────┘
//! ```
//!
//! The host thread answers everybody, so it does nothing that takes as long as somebody's memory is large, and asks no lane for more than fits
//! into a round: a status comes in parts, a few pipes each.
//!
//! | module | what |
//! |---|---|
//! | [`port`] | where frames come and go |
//! | [`flow`] | which pipe a frame belongs to |
//! | [`verb`] | verbs executed on regions |
//! | [`journal`] | what durable regions hold, on disk before it is acknowledged |
//! | [`lane`] | the loop that moves everything |
//! | [`session`] | what an application has and may have: pipes, regions, bindings, memory and mappings of it |
//! | [`server`] | the host thread, its socket and its workers |
//! | [`daemon`] | start and stop |
//! | [`sandbox`] | what the daemon may ask of the kernel once it has started |
//! | [`telemetry`] | what everybody counted, in shared memory |
//! | [`progress`] | whether the threads move, for a service manager |

pub mod carrier;
mod cores;
pub mod daemon;
pub mod flow;
pub mod identity;
pub mod journal;
pub mod lane;
mod lock;
pub mod mailbox;
pub mod port;
pub mod privilege;
pub mod progress;
pub mod sandbox;
mod secret;
pub mod server;
pub mod session;
mod slots;
mod state_dir;
pub mod telemetry;
pub mod verb;

pub use daemon::{Daemon, FaultInjection, StartError};
