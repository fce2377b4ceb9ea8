//! Counters in a file in shared memory. Only their owners write them. Any process that may open the
//! file can read them, during the run and after a crash.
//!
//! A daemon makes one file ([`create`]) for all of its threads. Each thread has a [`Writer`] with
//! blocks that no other thread writes, and publishes its counts as one set ([`Writer::begin`]). A
//! reader ([`CountersFile`]) needs no cooperation. It reads the file with `pread(2)`, so even
//! truncation of the file cannot harm it. It treats every word as untrusted and reads a writer's
//! set again if it changed meanwhile.
//!
//! The second file is an event log in a ring ([`ring`]) with one writer and any number of readers.
//! A reader detects by itself which records it missed.
//!
//! `docs/counters.md` describes both files byte for byte.

mod draft;
mod file;
mod labels;
mod layout;
mod lock;
mod read;
pub mod ring;
mod snapshot;
mod text;
mod write;

pub use self::{
    draft::Draft,
    labels::{escape, parse as parse_labels},
    layout::{FamilyType, FieldKind},
    read::{CountersFile, Liveness, ReadError},
    snapshot::{Family, Field, Number, Object, Sample, Snapshot, Table, WriterSet},
    write::{Board, FamilyPlan, Plan, TablePlan, Writer, WriterPlan, Writing, create},
};
