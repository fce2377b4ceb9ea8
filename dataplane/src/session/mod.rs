//! Applications: what the host thread keeps of each, and what each may have.

pub mod mappings;
pub mod quota;
mod record;

pub use record::{PipeRecord, SessionEnd, SessionRecord};
