//! The committed code against the schema.

#[path = "../examples/generate/compile.rs"]
mod compile;

use std::{fs, path::Path};

#[test]
fn the_committed_files_are_the_output_of_the_schema() {
    let fresh = tempfile::tempdir().expect("a directory");
    compile::compile(fresh.path()).expect("the schema compiles");
    for name in compile::FILES {
        let committed = fs::read(Path::new(compile::COMMITTED).join(name)).expect("a file");
        let generated = fs::read(fresh.path().join(name)).expect("a file");
        assert!(
            committed == generated,
            "base/grpc-schema/generated/{name} is not the output of the schema: run `make schema`"
        );
    }
}
