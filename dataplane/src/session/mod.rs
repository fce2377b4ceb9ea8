//! Applications: the host thread's state of each, and the limits of each.

pub mod mappings;
pub mod quota;
mod record;

pub use record::{PipeRecord, SessionEnd, SessionRecord};
