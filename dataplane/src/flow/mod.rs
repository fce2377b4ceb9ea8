//! Steering: finds the pipe of a frame.
//!
//! [`key`] parses the steering key of a frame, and [`table`] finds the most specific match. The XDP
//! program parses the same key and applies the same precedence, so a frame that it redirects finds
//! its pipe here. [`bindings`] holds the owner of each match: a configured rule, a pipe, or several
//! pipes. A [`set`] chooses one of several pipes by the [`toeplitz`] hash of the flow or in turn.
//! [`shares`] counts the rules of each user. [`payload`] extracts the payload for pipes of bytes.

pub mod bindings;
pub mod key;
pub mod payload;
pub mod set;
pub mod shares;
pub mod table;
pub mod toeplitz;

pub use bindings::{Bindings, Claim, ClaimRefusal, Target};
pub use key::{FrameKey, parse};
pub use set::{JoinRefusal, PipeSet};
pub use shares::ShareTaken;
pub use table::{FlowTable, Occupied};
pub use toeplitz::Toeplitz;
