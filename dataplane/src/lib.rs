//! The poll-mode dataplane: lanes, ports, steering into pipes, links and verb execution.
//!
//! ```text
//!            ┌── host thread ──────────────┐   commands    ┌── lane (pinned thread) ─────────────────────────┐
//!  clients ──┤ socket, sessions, status,   ├──────────────►│ ports ─► links (protocol) ─► verbs ─► regions   │
//!            │ carriers, events            │◄──────────────┤      └─► flow table ─► pipes ◄─► applications   │
//!            └─────────────────────────────┘    reports    └─────────────────────────────────────────────────┘
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`port`] | where frames come and go |
//! | [`flow`] | which pipe a frame belongs to |
//! | [`verb`] | verbs executed on regions |
//! | [`lane`] | the loop that moves everything |
//! | [`session`] | what an application has and may have |
//! | [`server`] | the host thread and its socket |
//! | [`daemon`] | start and stop |

pub mod carrier;
pub mod daemon;
pub mod flow;
pub mod identity;
pub mod lane;
pub mod mailbox;
pub mod port;
pub mod privilege;
pub mod server;
pub mod session;
mod slots;
pub mod verb;

pub use daemon::{Daemon, StartError};
