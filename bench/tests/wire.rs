//! Measurements on a virtual cable: they run and report all results. Speed is not tested.
#![allow(clippy::unwrap_used)]

mod needs;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

/// Each measurement takes all cores there are: one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a measurement and returns its output and its stored result. Checks that no files remain.
/// `None` if it cannot run.
fn measured(measurement: &str) -> Option<(Value, Value)> {
    if !needs::wire(false) {
        return None;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let program = Path::new(env!("CARGO_BIN_EXE_covalent-bench"));
    let (temporary, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = Command::new(program)
        .args([measurement, "--force-debug", "--format", "json"])
        .args(["--seconds", "0.2", "--repeats", "2"])
        .arg("--results")
        .arg(results.path())
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
    let kept = fs::read_dir(results.path()).unwrap().next().unwrap();
    Some((
        serde_json::from_slice(&output.stdout).unwrap(),
        serde_json::from_slice(&fs::read(kept.unwrap().path()).unwrap()).unwrap(),
    ))
}

#[test]
fn both_sides_count_and_every_command_is_shown() {
    let there = Command::new("redis-benchmark")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if there.is_err() {
        eprintln!("skipped: there is no redis-benchmark (Debian package redis-tools)");
        return;
    }
    let Some((printed, kept)) = measured("atomics") else {
        return;
    };
    assert_eq!(printed, kept);
    let sides = printed["sides"].as_array().unwrap();
    for side in sides {
        assert!(side["mops"]["median"].as_f64().unwrap() > 0.0, "{side}");
    }
    let of_redis: Vec<String> = sides
        .iter()
        .filter(|side| side["side"]["redis"].is_u64())
        .map(|side| side["commands"].to_string())
        .collect();
    assert_eq!(of_redis.len(), 2, "one connection, and many");
    for commands in of_redis {
        assert!(
            commands.contains("redis-server --port") && commands.contains("-t incr -P 64"),
            "{commands}"
        );
    }
    assert!(sides.iter().any(|side| side["side"] == "covalent-add"));
    assert!(
        sides
            .iter()
            .any(|side| side["side"]["redis_unpipelined"] == 1)
    );
    let goals = printed["goals"].as_array().unwrap();
    assert!(
        goals.iter().all(|goal| goal["at_least"] == 5.0),
        "{goals:?}"
    );
}

#[test]
fn every_exchange_mode_is_counted_and_allocates_nothing() {
    let Some((printed, kept)) = measured("exchanges") else {
        return;
    };
    assert_eq!(printed, kept);
    let sides = printed["sides"].as_array().unwrap();
    assert_eq!(sides.len(), 10, "two of records alone, eight of exchanges");
    let goals = printed["goals"].as_array().unwrap();
    assert_eq!(goals.len(), 3, "{goals:?}");
    assert!(
        goals
            .iter()
            .any(|goal| goal["goal"] == "exchanges_allocations" && goal["met"] == true),
        "{goals:?}"
    );
}
