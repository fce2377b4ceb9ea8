//! A bank in a shared region: a counter that all clients add to, a pair of words behind a lock, and
//! accounts between which money moves. The final state reveals any verb that executed twice or not
//! at all.

pub mod audit;
pub mod client;
pub mod intervals;
pub mod layout;
pub mod run;

mod request;

/// The region's name on its node.
pub const REGION: &str = "bank";
