//! Verbs: executed on the regions of this lane, for peers and for local applications alike.
//!
//! `engine` admits and executes, `regions` finds them, `counts` counts by verb and by refusal.
//!
//! # What others see of a verb
//! The lane executes one verb after the other, so to other verbs each one is a single step. The application that
//! registered the region has it mapped and may read and write it at any moment. To it, and from it:
//! - A verb on one word is one atomic step.
//! - `Read` and `Write` are atomic for each word of 8 bytes, not across words.
//! - `MultiCommit` changes its words one after the other, each by compare-and-swap. A local reader may see some of them
//!   changed and others not yet. If a local writer changes one of the words in that moment, the words changed before are
//!   put back, each by compare-and-swap, and the verb answers `Mismatch`; a word that the local writer changed in the
//!   meantime stays as the local writer wrote it. No local write is ever overwritten unseen. An owner that wants to see and
//!   make only whole changes uses verbs on its own node instead of local access.

mod counts;
mod engine;
mod regions;

pub use engine::VerbEngine;
