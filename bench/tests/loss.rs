//! `covalent-bench loss` and `perftest`: losses and cuts affect all sides alike and are reported.
//! Speed is not tested.
#![allow(clippy::unwrap_used)]

mod needs;

use std::{fs, path::Path, process::Command};

use serde_json::Value;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_covalent-bench"))
}

#[test]
fn both_sides_survive_losses_and_cuts() {
    if !needs::wire(true) {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let output = program()
        .args(["loss", "--force-debug", "--format", "json", "--against"])
        .args([
            "covalent-message,tcp-rto",
            "--losses",
            "0,5",
            "--rate",
            "400",
        ])
        .args([
            "--seconds",
            "0.5",
            "--repeats",
            "1",
            "--cuts",
            "1",
            "--cut-ms",
            "60",
        ])
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let losses = printed["losses"].as_array().unwrap();
    assert_eq!(losses.len(), 4, "{printed}");
    for one in losses {
        let lost: u64 = one["lost_frames"]
            .as_array()
            .unwrap()
            .iter()
            .map(|frames| frames.as_u64().unwrap())
            .sum();
        // Of some hundreds of frames a twentieth, and of none nothing.
        assert_eq!(lost > 0, one["parts_per_million"] != 0, "{one}");
        // Both deliver everything, however late.
        assert_eq!(one["figures"]["lost"], 0, "{one}");
        assert_eq!(one["figures"]["requests"], 200, "{one}");
    }
    let cuts = printed["cuts"].as_array().unwrap();
    assert_eq!(cuts.len(), 4, "{printed}");
    for one in cuts {
        // A request that was due during the cut waited for its end.
        assert!(one["longest_ms"]["min"].as_f64().unwrap() > 30.0, "{one}");
        assert_eq!(one["figures"]["lost"], 0, "{one}");
    }
}

#[test]
fn files_of_perftest_are_shown_and_others_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/perftest/samples");
    let read = |file: &Path| {
        program()
            .arg("perftest")
            .arg(file)
            .arg("--beside")
            .arg(place.path())
            .output()
            .unwrap()
    };
    let output = read(&samples.join("ib_send_lat.txt"));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("Send Latency Test (rxe0"),
        "{printed}"
    );
    let other = place.path().join("other.txt");
    fs::write(&other, "nothing of that kind\n").unwrap();
    let output = read(&other);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        printed.contains("no figures of perftest") && printed.contains("cure: "),
        "{printed}"
    );
}
