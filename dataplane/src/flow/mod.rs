//! Steering: which pipe a frame belongs to.
//!
//! [`key`] reads what steering needs out of a frame, [`table`] finds the most specific match. The XDP program reads
//! the same key and holds the same precedence, so a frame that the kernel side redirected finds its pipe here. [`payload`] is what
//! pipes of bytes are given.

pub mod key;
pub mod payload;
pub mod table;

pub use key::{FrameKey, parse};
pub use table::{FlowTable, Occupied};
