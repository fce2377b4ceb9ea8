//! Compiles the schema, without `protoc`: `protox` is a compiler in Rust.

use std::{env, error::Error, fs, path::Path};

use prost::Message;

const INCLUDES: &str = "proto";
const SCHEMA: &str = "covalent/telemetry/v1/telemetry.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={INCLUDES}");
    let files = protox::compile([SCHEMA], [INCLUDES])?;
    let out = env::var("OUT_DIR")?;
    // The schema for reflection.
    fs::write(Path::new(&out).join("schema.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}
