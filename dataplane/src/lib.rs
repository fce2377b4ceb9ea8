//! The poll-mode dataplane: lanes, ports, steering into pipes, links and verb execution.
//!
//! ```text
//!         ┌── host thread ────────────┐          ┌── lane (pinned thread) ───────────────────────┐
//! clients ┤ socket, sessions, status, ├commands─►│ ports ─► links (protocol) ─► verbs ─► regions │
//!         │ carriers, events          │◄─reports─┤     └─► flow table ─► pipes ◄─► applications  │
//!         └─┬───────────────────────▲─┘          └───────────────────────────────────────────────┘
//!     jobs  │                       │ results
//!         ┌─▼───────────────────────┴─┐
//!         │ two workers: make, seal   │
//!         │ and free memory,          │
//!         │ small or large            │
//!         └───────────────────────────┘
//! ```
//!
//! The host thread serves all clients. So it does nothing that takes time in proportion to a
//! client's memory. It requests from a lane only what fits into a round: a status comes in parts, a
//! few pipes each.
//!
//! | module | content |
//! |---|---|
//! | [`port`] | frame input and output |
//! | [`flow`] | steering of frames to pipes |
//! | [`journal`] | the content of durable regions, on disk before it is acknowledged |
//! | [`lane`] | the loop that moves everything, and executes verbs on regions |
//! | [`session`] | resources and limits of an application: pipes, regions, bindings, memory |
//! | [`server`] | the host thread, its socket and its workers |
//! | [`daemon`] | start and stop |
//! | [`sandbox`] | system calls that the daemon may make after its start |
//! | [`telemetry`] | all counters, in shared memory |
//! | [`progress`] | whether the threads make progress, for a service manager |

pub mod carrier;
pub mod cores;
pub mod daemon;
pub mod fault_injection;
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

pub use daemon::{Daemon, StartError};
pub use fault_injection::FaultInjection;
