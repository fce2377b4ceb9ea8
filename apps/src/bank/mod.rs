//! A bank in a shared region: a counter that everybody adds to, a pair of words behind a lock, and accounts between
//! which money moves. It is laid out so that any verb executed twice, or not at all, shows in the end.

pub mod audit;
pub mod client;
pub mod intervals;
pub mod layout;
pub mod run;

mod request;

/// The region's name on its node.
pub const REGION: &str = "bank";
