//! Registers that a group of servers keeps, and that stay linearizable whoever of them dies.
//!
//! Each server multicasts what it is asked for, does what is delivered, and answers what it multicast itself: so all do the same in one order, and an
//! answer is of a moment between the question and it.

pub mod ask;
pub mod check;
pub mod client;
pub mod history;
pub mod machine;
pub mod serve;
pub mod torture;
pub mod wire;

/// What stands before a group's name in that of its servers' queues for requests.
pub const QUEUE_PREFIX: &str = "r.";
