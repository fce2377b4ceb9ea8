//! `covalent-bench latency`: every side replies and all results are reported. Speed is not tested.
#![allow(clippy::unwrap_used)]

mod needs;

use std::{fs, path::Path, process::Command};

use serde_json::Value;

/// Runs the benchmark and returns its output. `None` if it cannot run.
fn printed(arguments: &[&str]) -> Option<Value> {
    if !needs::wire(false) {
        return None;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_covalent-bench"));
    let (temporary, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = Command::new(program)
        .args([
            "latency",
            "--force-debug",
            "--format",
            "json",
            "--seconds",
            "0.2",
        ])
        .args(arguments)
        .arg("--results")
        .arg(results.path())
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    // 1: the spread exceeds the requested bound.
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    let kept = fs::read_dir(results.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept: Value = serde_json::from_slice(&fs::read(kept.path()).unwrap()).unwrap();
    assert_eq!(printed, kept);
    Some(printed)
}

const SOCKETS: &str = "udp,udp-spin,udp-busy,tcp,tcp-spin,tcp-busy";

#[test]
fn every_side_answers_to_a_schedule_and_one_after_the_other() {
    // Repeats and sizes have nothing to do with pacing: each begins with daemons of its own.
    for (pacing, repeats, sizes) in [
        (&["--rate", "500"][..], "2", "8,64"),
        (&["--ping-pong"], "1", "8"),
    ] {
        let run = ["--repeats", repeats, "--sizes", sizes];
        let Some(printed) = printed(&[&run[..], pacing, &["--against", SOCKETS]].concat()) else {
            return;
        };
        for contestant in printed["contestants"].as_array().unwrap() {
            let absent = &contestant["absent"];
            // Busy polling needs a program and a kernel that others do not.
            assert!(
                absent.is_null() || contestant["name"].as_str().unwrap().ends_with("-busy"),
                "{contestant}"
            );
            assert_eq!(
                contestant["failures"].as_array().unwrap().len(),
                0,
                "{contestant}"
            );
        }
        let figures = printed["figures"].as_array().unwrap();
        for side in [
            "covalent-cas",
            "covalent-cas-two-phase",
            "covalent-message",
            "udp",
            "udp-spin",
            "tcp",
            "tcp-spin",
        ] {
            let has_one_size = side.starts_with("covalent-cas");
            let sizes = sizes.split(',').take(if has_one_size { 1 } else { 2 });
            let of_side: Vec<&Value> = figures.iter().filter(|one| one["side"] == side).collect();
            assert_eq!(of_side.len(), sizes.count(), "{side}: {printed}");
            for one in of_side {
                let times = |name: &str| one["times_us"][name].as_f64().unwrap();
                assert!(
                    times("min") > 0.0
                        && times("p99") <= times("p999")
                        && times("p999") <= times("max"),
                    "{one}"
                );
                let repeated = one["p50_us"]["repeats"].as_array().unwrap().len();
                assert_eq!(repeated.to_string(), repeats);
                assert!(one["watched"]["others_cores"].as_f64().unwrap() >= 0.0);
                if pacing.len() == 2 {
                    // 500 a second for a tenth of a second, twice.
                    assert_eq!(one["requests"], 100, "{one}");
                }
            }
        }
    }
}

#[test]
fn a_local_node_answers_without_a_cable_and_the_spread_is_shown() {
    let Some(printed) = printed(&[
        "--against",
        "covalent-local-cas",
        "--sizes",
        "8",
        "--repeats",
        "1",
        "--ping-pong",
        "--spread-max",
        "0.001",
        "--repeats-max",
        "3",
    ]) else {
        return;
    };
    assert_eq!(printed["figures"][0]["side"], "covalent-local-cas");
    let settled = &printed["settled"];
    assert_eq!(settled["spread_max"], 0.001);
    // Fewer than five repeats do not determine the spread.
    assert_eq!(settled["repeats"], 3, "{settled}");
}

#[test]
fn every_peer_in_shared_memory_answers_or_reports_why_not() {
    // The sockets test above covers the other pacing: a run with this many sides takes long.
    let peers = ["covalent-pipe", "ucx", "libfabric", "aeron", "iceoryx2"];
    let against = peers.join(",");
    let options = [
        "--rate",
        "500",
        "--repeats",
        "2",
        "--sizes",
        "8,1024,4096",
        "--against",
        &against,
    ];
    let Some(printed) = printed(&options) else {
        return;
    };
    let contestants = printed["contestants"].as_array().unwrap();
    let figures = printed["figures"].as_array().unwrap();
    for name in peers {
        let entry = contestants
            .iter()
            .find(|entry| entry["name"] == name)
            .unwrap();
        assert_eq!(entry["failures"], Value::Array(Vec::new()), "{entry}");
        let of_it: Vec<_> = figures.iter().filter(|one| one["side"] == name).collect();
        if let Some(absent) = entry["absent"].as_str() {
            eprintln!("skipped: {name}: {absent}");
            assert!(
                absent.contains("feature `peers`") || absent.contains("apt-get install"),
                "{absent}"
            );
            assert!(of_it.is_empty(), "{of_it:?}");
            continue;
        }
        // None carries 4096 bytes here.
        assert_eq!(of_it.len(), 2, "{printed}");
        for one in of_it {
            assert!(one["times_us"]["min"].as_f64().unwrap() > 0.0, "{one}");
            // 500 a second for a tenth of a second, twice.
            assert_eq!(one["requests"], 100, "{one}");
        }
    }
}

#[test]
fn redis_counts_every_request_once_pipelined_or_not() {
    // The sockets test above covers the other pacing: a run with this many sides takes long.
    let options = [
        "--rate",
        "500",
        "--repeats",
        "2",
        "--sizes",
        "8",
        "--against",
        "redis,redis-pipelined,covalent-cas",
    ];
    let Some(printed) = printed(&options) else {
        return;
    };
    for entry in printed["contestants"].as_array().unwrap() {
        assert_eq!(entry["failures"], Value::Array(Vec::new()), "{entry}");
        if let Some(absent) = entry["absent"].as_str() {
            eprintln!("skipped: {}: {absent}", entry["name"]);
            assert!(absent.contains("redis-tools"), "{absent}");
            continue;
        }
        let figures = printed["figures"].as_array().unwrap();
        let of_it = figures.iter().find(|one| one["side"] == entry["name"]);
        let one = of_it.unwrap();
        assert!(one["times_us"]["min"].as_f64().unwrap() > 0.0, "{one}");
        assert_eq!(one["requests"], 100, "{one}");
    }
}

#[test]
fn every_echo_and_every_lane_answers_or_reports_why_not() {
    // The sockets test above covers the other pacing: a run with this many sides takes long.
    let sides = [
        "af_xdp",
        "af_xdp-unread",
        "af_xdp-handed-over",
        "af_packet",
        "af_packet-spin",
        "af_packet-busy",
        "dpdk-af_xdp",
        "dpdk-af_packet",
        "covalent-echo",
        "covalent-lane-cas",
        "covalent-lane-cas-to-daemon",
        "covalent-cas",
        "udp",
    ];
    let against = sides.join(",");
    let options = [
        "--rate",
        "500",
        "--repeats",
        "1",
        "--sizes",
        "8",
        "--against",
        &against,
    ];
    let Some(printed) = printed(&options) else {
        return;
    };
    let contestants = printed["contestants"].as_array().unwrap();
    assert_eq!(contestants.len(), sides.len());
    let figures = printed["figures"].as_array().unwrap();
    for entry in contestants {
        assert_eq!(entry["failures"], Value::Array(Vec::new()), "{entry}");
        let name = entry["name"].as_str().unwrap();
        if let Some(absent) = entry["absent"].as_str() {
            eprintln!("skipped: {name}: {absent}");
            assert!(
                name.starts_with("dpdk-") || name.ends_with("-busy"),
                "{entry}"
            );
            continue;
        }
        let one = figures.iter().find(|one| one["side"] == name).unwrap();
        assert!(one["times_us"]["min"].as_f64().unwrap() > 0.0, "{one}");
        // A polling side keeps its core busy as long as the scheduler lets it run.
        if name == "af_xdp" {
            assert!(one["answering_core"].as_f64().unwrap() > 0.1, "{one}");
        }
        // 500 a second for a fifth of a second.
        assert_eq!(one["requests"], 100, "{one}");
    }
    let goals: Vec<&str> = printed["goals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|goal| goal["goal"].as_str().unwrap())
        .collect();
    assert_eq!(goals, ["rtt_lane", "rtt_lane_udp", "rtt", "rtt_udp"]);
}
