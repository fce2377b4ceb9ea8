//! Steering: which pipe a frame belongs to.
//!
//! [`key`] reads what steering needs out of a frame, [`table`] finds the most specific match. The XDP program reads
//! the same key and holds the same precedence, so a frame that the kernel side redirected finds its pipe here. [`bindings`]
//! says who holds a match: a configured rule, a pipe, or several pipes. Of those a [`set`] chooses one, by the [`toeplitz`] hash of the
//! frame's flow or in turn. [`shares`] counts who has how many rules. [`payload`] is what pipes of bytes are given.

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
