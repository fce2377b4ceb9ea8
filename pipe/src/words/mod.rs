//! The protocols over shared words. Nothing in them maps memory, so the model checker runs them as they are.

pub mod mailbox;
pub mod published;
pub mod reactive;
pub mod wake;
