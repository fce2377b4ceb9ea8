//! Compiles the schema, without `protoc`: `protox` is a compiler in Rust.

use std::{error::Error, fs, path::Path};

use prost::Message;

const INCLUDES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
const SCHEMA: &str = "covalent/telemetry/v1/telemetry.proto";

/// Directory of the committed files.
pub const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/generated");

/// The files that `compile` writes.
#[allow(dead_code, reason = "only the test reads it")]
pub const FILES: [&str; 2] = ["covalent.telemetry.v1.rs", "schema.bin"];

/// Writes the code, and the schema for reflection, into a directory.
pub fn compile(directory: &Path) -> Result<(), Box<dyn Error>> {
    let files = protox::compile([SCHEMA], [INCLUDES])?;
    fs::write(directory.join("schema.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".")
        .out_dir(directory)
        .compile_fds(files)?;
    Ok(())
}
