//! `tshark` with the dissector.
#![allow(clippy::unwrap_used)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

const TSHARK: &str = "tshark";

fn dissector() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/covalent.lua")
}

/// Returns whether tshark is installed. Prints a message if not, and the test is skipped.
pub fn has_tshark() -> bool {
    let found = Command::new(TSHARK).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: tshark is not installed (scripts/install-packages tools)");
    }
    found
}

/// Returns fields of each frame, as decoded by tshark: all values of each field, in order.
pub fn tshark_fields<const N: usize>(path: &Path, fields: [&str; N]) -> Vec<[Vec<String>; N]> {
    let mut command = Command::new(TSHARK);
    command.arg("-X");
    command.arg(format!("lua_script:{}", dissector().display()));
    command.arg("-r").arg(path).args(["-T", "fields"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let error_output = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !error_output.contains("Lua"),
        "{error_output}"
    );
    let values = |field: &str| -> Vec<String> {
        let values = field.split('|').filter(|value| !value.is_empty());
        values.map(ToOwned::to_owned).collect()
    };
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let mut columns = line.split('\t');
            fields.map(|_| values(columns.next().unwrap_or_default()))
        })
        .collect()
}
