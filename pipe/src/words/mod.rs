//! The protocols over shared words. They map no memory, so the model checker runs them unchanged.

pub mod mailbox;
pub mod reactive;
pub mod wake;
