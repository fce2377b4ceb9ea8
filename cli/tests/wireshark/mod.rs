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

/// Says so and skips the test where tshark is not installed.
pub fn has_tshark() -> bool {
    let found = Command::new(TSHARK).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: tshark is not installed (scripts/install-packages tools)");
    }
    found
}

/// Fields of each frame, as tshark tells them: all values of each, in their order.
pub fn ask<const N: usize>(path: &Path, fields: [&str; N]) -> Vec<[Vec<String>; N]> {
    let mut command = Command::new(TSHARK);
    command.arg("-X");
    command.arg(format!("lua_script:{}", dissector().display()));
    command.arg("-r").arg(path).args(["-T", "fields"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Lua"), "{said}");
    let values = |field: &str| -> Vec<String> {
        let values = field.split('|').filter(|value| !value.is_empty());
        values.map(ToOwned::to_owned).collect()
    };
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let mut told = line.split('\t');
            fields.map(|_| values(told.next().unwrap_or_default()))
        })
        .collect()
}
