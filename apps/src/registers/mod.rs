//! Registers that a group of servers replicates. They stay linearizable whichever server dies.
//!
//! Each server multicasts the requests that it receives, applies the delivered commands, and
//! replies to its own multicasts. All servers apply the same commands in one order. A reply
//! reflects a point in time between request and reply.

pub mod check;
pub mod client;
pub mod history;
pub mod machine;
pub mod requester;
pub mod serve;
pub mod torture;
pub mod wire;

/// Prefix of the name of the servers' request queues. The group's name follows.
pub const QUEUE_PREFIX: &str = "r.";
