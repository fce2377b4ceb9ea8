//! An event log in a ring with one writer and any number of readers. The writer does not know its
//! readers.
//!
//! Positions are bytes since the ring was made and only increase. A record lies at its position
//! modulo the ring's size. Before the writer overwrites data, it publishes the end of the
//! overwritten range (the *intent*). It publishes the *tail* when a record is complete. A reader
//! copies a record and then reads the intent. If the intent has reached the record, the reader
//! discards the copy and continues at a later record. Records are numbered, so a reader knows how
//! many it lost.

mod layout;
mod read;
mod write;

pub use self::{
    layout::RecordKind,
    read::{Body, Record, RingFile},
    write::{Ring, Sampled},
};
