//! Counters in a file in shared memory: written by their owners only, read by anyone who may open it, while they run and after they died.
//!
//! A daemon makes one file ([`create`]) for all of its threads. Each thread has a [`Writer`], with blocks that nobody else writes, and shows what it
//! counted as one set ([`Writer::begin`]). A reader ([`CountersFile`]) needs nobody's cooperation: it reads the file by `pread(2)`, so that not even
//! a file that is cut short under it can hurt it, takes every word for hostile, and takes a writer's set again when it changed meanwhile.
//!
//! The second file is a log of what happened, in a ring ([`ring`]): one writer, and any number of readers, who find out by themselves what they
//! were too slow for.
//!
//! `docs/counters.md` describes both byte for byte.

mod draft;
mod file;
mod labels;
mod layout;
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
