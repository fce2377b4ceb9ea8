//! `covalent capture` of a demonstration, opened by `tshark` with the dissector.
#![allow(clippy::unwrap_used)]

mod support;
mod wireshark;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::Value;
use support::{covalent, media, node::Node, wait_until};
use wireshark::{has_tshark, tshark_fields};

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the socket of node a, once it exists, of the demonstration with these temporary files.
fn socket_of_a(temporary: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(temporary).ok()?;
    let mut sockets = entries.map(|entry| entry.unwrap().path().join("a/run/covalentd.sock"));
    sockets.find(|socket| socket.exists())
}

#[test]
fn a_demonstration_is_captured_in_both_directions_and_tshark_reads_verbs_and_results() {
    for &medium in media() {
        let temporary = tempfile::tempdir().unwrap();
        let mut demonstration = covalent(temporary.path())
            .args([
                "demo",
                "--quick",
                "--no-bench",
                "--format",
                "json",
                "--port",
                medium,
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut socket = PathBuf::new();
        wait_until("node a listens", PATIENCE, || {
            let found = socket_of_a(temporary.path());
            found.is_some_and(|found| {
                socket = found;
                let status = covalent(temporary.path())
                    .args(["status", "--format", "json", "--socket"])
                    .arg(&socket)
                    .output()
                    .unwrap();
                let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
                status["links"].as_array().is_some_and(|links| {
                    !links.is_empty() && links.iter().all(|link| link["state"] == "up")
                })
            })
        });
        let kept = tempfile::tempdir().unwrap();
        let file = kept.path().join("demonstration.pcapng");
        let output = covalent(temporary.path())
            .args([
                "capture", "--format", "json", "--count", "2000", "--frames", "links",
            ])
            .arg("--socket")
            .arg(&socket)
            .arg(&file)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{medium}: {printed}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(
            demonstration.wait().unwrap().success(),
            "{medium}: it continues undisturbed"
        );
        let [received, sent, missed] =
            ["received", "sent", "missed"].map(|what| summary[what].as_u64().unwrap());
        assert!(received > 100 && sent > 100, "{medium}: {summary}");
        if !has_tshark() {
            continue;
        }
        let printed = tshark_fields(
            &file,
            [
                "frame.packet_flags_direction",
                "covalent.check",
                "covalent.verb",
                "covalent.result",
                "covalent.reflected",
                "frame.interface_name",
            ],
        );
        assert_eq!(printed.len() as u64, received + sent, "{medium}");
        let with = |at: usize, value: &str| {
            let has = |frame: &&[Vec<String>; 6]| frame[at].iter().any(|printed| printed == value);
            printed.iter().filter(has).count()
        };
        let directions: usize = ["1", "2", "0x00000001", "0x00000002"]
            .iter()
            .map(|direction| with(0, direction))
            .sum();
        assert_eq!(directions, printed.len(), "{medium}: {:?}", printed[0]);
        assert_eq!(with(1, "good"), printed.len(), "{medium}");
        assert!(with(2, "fetch_add") > 10, "{medium}: verbs are named");
        assert!(with(3, "ok") > 10, "{medium}: results are named");
        assert!(
            with(4, "matches") > 100,
            "{medium}: reflections are led back"
        );
        if missed == 0 {
            assert_eq!(with(4, "mismatch"), 0, "{medium}");
        }
        let interfaces = with(5, "p0") + with(5, "p1");
        assert_eq!(interfaces, printed.len(), "{medium}");
    }
}

#[test]
fn an_impossible_capture_is_refused_with_a_cure() {
    let temporary = tempfile::tempdir().unwrap();
    let [node, _other] = Node::pair(temporary.path());
    let capture = |args: &[&str]| node.command(&[&["capture"], args].concat());
    let output = capture(&["--port", "p7", "x.pcapng"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && printed.contains("no port `p7`"),
        "{printed}"
    );
    assert!(printed.contains("p0"), "{printed}");

    let file = temporary.path().join("first.pcapng");
    let mut first = capture(&["--port", "p0", file.to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the first one captures", PATIENCE, || {
        fs::metadata(&file).is_ok_and(|file| file.len() > 1000)
    });
    let second = temporary.path().join("second.pcapng");
    let output = capture(&["--port", "p0", second.to_str().unwrap()])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && printed.contains("one capture at a time"),
        "{printed}"
    );

    let pid = Pid::from_raw(first.id().cast_signed());
    signal::kill(pid, Signal::SIGINT).unwrap();
    assert!(
        first.wait().unwrap().success(),
        "Ctrl-C is its ordinary end"
    );
    let output = capture(&["--port", "p0", "--count", "10", second.to_str().unwrap()])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && printed.contains(": 10 frames"),
        "{printed}"
    );
}
