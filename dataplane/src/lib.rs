//! The poll-mode dataplane: lanes, ports, steering into pipes, links and verb execution.

pub mod flow;
pub mod port;
