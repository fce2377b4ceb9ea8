//! Prometheus' own reader of rules, where it is installed or unpacked.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::namespace::skip;

/// The program.
pub struct Promtool(PathBuf);

/// Searches for the program. Prints a message if there is none.
pub fn find() -> Option<Promtool> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/test-tools/prometheus/usr/bin/promtool");
    let found = [PathBuf::from("promtool"), unpacked]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_ok());
    if found.is_none() {
        skip(
            "there is no promtool: `make unit` unpacks it, or install Debian's package prometheus",
        );
    }
    found.map(Promtool)
}

impl Promtool {
    /// Runs it in `configs/`, and fails if it does.
    pub fn run(&self, arguments: &[&str]) {
        let output = Command::new(&self.0)
            .args(arguments)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs"))
            .output()
            .expect("runs");
        assert!(
            output.status.success(),
            "promtool {arguments:?}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
