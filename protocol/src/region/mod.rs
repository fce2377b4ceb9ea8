//! Regions, and the execution of verbs on them, for peers and for local applications alike.
//!
//! An [`Engine`] belongs to one lane, which calls it for one verb after the other. The program
//! provides the memory of a region: any type that is a [`Memory`]. The same code runs in the
//! daemon, on memory shared with the application that registered the region, and in the simulator,
//! on [`Words`].
//!
//! # Visibility of a verb
//! To other verbs each verb is a single step. The application that registered a region may map its
//! memory and may read and write it at any moment. Between the application and verbs:
//! - A verb on one word is one atomic step.
//! - `Read` and `Write` are atomic for each word of 8 bytes, not across words.
//! - `MultiCommit` changes its words one after the other, each by compare-and-swap. A local reader
//!   may see some of them changed and others not yet. If a local writer changes one of the words
//!   meanwhile, the engine restores the words changed before, each by compare-and-swap, and the
//!   verb returns `Mismatch`. A word that the local writer changed in the meantime keeps the value
//!   of the local writer. No local write is ever overwritten unseen. An owner that must see and
//!   make only whole changes uses verbs on its own node instead of local access.
//!
//! # Receive queues
//! A region that grants [`Rights::SEND`] is a *receive queue*: a ring of messages. `Send` verbs
//! append messages to it and its owner takes them out. It refuses other verbs. [`queue`] describes
//! the memory layout.

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
