//! The gRPC interface of control: the schema in `proto/`, the code that `make schema` generates
//! from it, and helpers for both ends.

mod details;

pub use details::{from_struct, to_struct};

/// The package `covalent.telemetry.v1`, generated from the schema, which documents each item.
pub mod v1 {
    #![allow(
        missing_docs,
        clippy::all,
        reason = "generated; the comments of the schema are its documentation"
    )]

    include!("../generated/covalent.telemetry.v1.rs");
}

/// The schema as returned by reflection: an encoded `FileDescriptorSet` with all files that the
/// schema imports.
pub const SCHEMA: &[u8] = include_bytes!("../generated/schema.bin");

/// The schema as text.
pub const SCHEMA_TEXT: &str = include_str!("../proto/covalent/telemetry/v1/telemetry.proto");

/// Milliseconds between two samples where a client names none.
pub const INTERVAL_MS_DEFAULT: u32 = 1_000;

/// Milliseconds that may be between two samples.
pub const INTERVAL_MS: std::ops::RangeInclusive<u32> = 100..=3_600_000;
