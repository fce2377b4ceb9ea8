//! `covalent-bench failover`: links are cut, every posted verb is counted, and TCP runs on its own
//! cable. Speed is not tested.
#![allow(clippy::unwrap_used)]

mod needs;

use std::{fs, path::Path, process::Command};

use serde_json::Value;

#[test]
fn links_are_cut_by_every_method_and_tcp_recovers() {
    if !needs::wire(true) {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_covalent-bench"));
    let temporary = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .args(["failover", "--force-debug", "--format", "json"])
        .args(["--against", "tcp", "--cuts", "1", "--repeats", "1"])
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    // 1: a goal is missed, as it may be in such a build.
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sides = printed["sides"].as_array().unwrap();
    assert_eq!(sides.len(), 6, "five ways to cut and none");
    for side in sides {
        assert_eq!(side["cuts"], 1, "{side}");
    }
    let cuts = printed["severed"]["cuts"].as_array().unwrap();
    for name in ["tcp", "covalent-message"] {
        let of_it: Vec<&Value> = cuts
            .iter()
            .filter(|cut| cut["figures"]["side"] == name)
            .collect();
        assert_eq!(of_it.len(), 2, "silent and carrier: {cuts:?}");
        for cut in of_it {
            // A request that was due during the cut waited for its end.
            assert!(cut["longest_ms"]["min"].as_f64().unwrap() > 50.0, "{cut}");
        }
    }
}
