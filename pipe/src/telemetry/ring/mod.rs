//! A log in a ring: one writer, and any number of readers that it knows nothing of.
//!
//! Positions are bytes since the ring was made and only grow; a record lies at its position modulo the ring's size. Before the writer overwrites anything it
//! says up to where (the *intent*); when a record is whole it says so (the *tail*). A reader copies a record and then looks at the intent: if that
//! came round to the record, what was copied is nothing, and the reader goes on at a later record. Records are numbered, so it knows how many it lost.

mod layout;
mod read;
mod write;

pub use self::{
    layout::RecordKind,
    read::{Body, Record, RingFile},
    write::{Ring, Sampled},
};
