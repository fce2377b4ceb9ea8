//! Regions, and verbs executed on them, for peers and for local applications alike.
//!
//! An [`Engine`] belongs to one lane, which calls it for one verb after the other. What a region's memory is, the program
//! around says: anything that is a [`Memory`]. The same code runs in the daemon, on memory that it shares with the
//! application that registered the region, and in the simulator, on [`Words`].
//!
//! # What others see of a verb
//! To other verbs each one is a single step. The application that registered a region may have its memory mapped and may
//! read and write it at any moment. To it, and from it:
//! - A verb on one word is one atomic step.
//! - `Read` and `Write` are atomic for each word of 8 bytes, not across words.
//! - `MultiCommit` changes its words one after the other, each by compare-and-swap. A local reader may see some of them
//!   changed and others not yet. If a local writer changes one of the words in that moment, the words changed before are
//!   put back, each by compare-and-swap, and the verb answers `Mismatch`; a word that the local writer changed in the
//!   meantime stays as the local writer wrote it. No local write is ever overwritten unseen. An owner that wants to see and
//!   make only whole changes uses verbs on its own node instead of local access.
//!
//! # Receive queues
//! A region that grants [`Rights::SEND`] is a *receive queue*: a ring of messages that `Send` verbs append to and that its owner takes them
//! from. Other verbs are refused there. [`queue`] says how it lies in memory.

mod apply;
mod counts;
mod engine;
mod memory;
pub mod queue;
mod reserve;
mod rights;
mod shared_words;
mod table;
mod task;

pub use self::{
    engine::Engine,
    memory::{Memory, Words},
    rights::Rights,
    shared_words::SharedWords,
    table::{RegisterError, Registration},
};
