//! `covalent sim`, as on a shell's command line.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use serde_json::Value;

fn sim(args: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_covalent"))
        .arg("sim")
        .args(args)
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, text)
}

#[test]
fn a_simulation_prints_its_events_and_the_command_that_replays_it() {
    let chosen = ["--seed", "7", "--nodes", "3", "--faults", "cut-both,loss"];
    let (output, printed) = sim(&chosen);
    assert!(output.status.success(), "{printed}");
    for part in [
        "seed 7: 3 nodes",
        "is up with",
        "is cut in both directions",
        "is notified: exchange 0",
        "failed: ",
        "Every invariant held.",
    ] {
        assert!(printed.contains(part), "`{part}` is not in {printed}");
    }
    assert!(!printed.contains("receives"), "frames are left out");
    assert_eq!(sim(&chosen).1, printed, "the same run again");

    let (output, printed) = sim(&["--seeds", "0..20", "--format", "json"]);
    let runs: Value = serde_json::from_slice(&output.stdout).expect(&printed);
    assert!(output.status.success() && runs["seeds_per_s"].as_f64() > Some(0.0));
    assert!(
        runs["report"]["committed"].as_u64() > Some(1000),
        "{printed}"
    );

    let broken = ["--mutant", "retries-blindly", "--faults", "cut-both"];
    let (output, printed) = sim(&[&broken[..], &["--seeds", "0..30"]].concat());
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("Broken: exactly-once:"), "{printed}");
    let replay = printed.split("replay: covalent sim ").nth(1).unwrap();
    let args: Vec<_> = replay.lines().next().unwrap().split(' ').collect();
    let (output, replayed) = sim(&args);
    assert_eq!(output.status.code(), Some(1), "{replayed}");
    assert!(replayed.contains("Broken: exactly-once:"), "{replayed}");
    assert_eq!(sim(&args).1, replayed, "{replay}");
}

#[test]
fn a_mesh_prints_its_events_and_is_reproducible() {
    let chosen = ["mesh", "--shape", "chords:2", "--nodes", "8", "--seed", "3"];
    let (output, printed) = sim(&chosen);
    assert!(output.status.success(), "{printed}");
    for part in [
        "--seed 3",
        "chords:2, 8 nodes, 10 cables",
        "is up, epoch 1",
        "is cut",
        "failed: ",
        "round trips to settle from nothing",
        "Every invariant held. Fingerprint ",
    ] {
        assert!(printed.contains(part), "`{part}` is not in {printed}");
    }
    assert_eq!(sim(&chosen).1, printed, "the same run again");

    let broken = ["mesh", "--mutant", "retries-blindly", "--faults", "cut"];
    let (output, printed) = sim(&[&broken[..], &["--seeds", "0..30"]].concat());
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("Broken: once:"), "{printed}");
    let replay = printed.split("replay: covalent sim ").nth(1).unwrap();
    let args: Vec<_> = replay.lines().next().unwrap().split(' ').collect();
    let (output, replayed) = sim(&args);
    assert_eq!(output.status.code(), Some(1), "{replayed}");
    assert!(replayed.contains("Broken: once:"), "{replayed}");

    let (output, printed) = sim(&["mesh", "--shape", "full", "--nodes", "20"]);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("has 19 cables, and may have 8"),
        "{printed}"
    );
}

#[test]
fn a_group_prints_its_events_and_is_reproducible() {
    let chosen = [
        "group", "--seed", "3", "--nodes", "5", "--shape", "ring", "--faults", "kill,cut",
    ];
    let (output, printed) = sim(&chosen);
    assert!(output.status.success(), "{printed}");
    for part in [
        "seed 3: 5 nodes, ring",
        "begins an incarnation",
        "is notified: view 2 of ",
        "is notified: view 1 of ",
        "Every invariant held.",
    ] {
        assert!(printed.contains(part), "`{part}` is not in {printed}");
    }
    assert!(!printed.contains(" sends to "), "envelopes are left out");
    assert_eq!(sim(&chosen).1, printed, "the same run again");

    let (output, printed) = sim(&["group", "--seeds", "0..20", "--format", "json"]);
    let runs: Value = serde_json::from_slice(&output.stdout).expect(&printed);
    assert!(output.status.success() && runs["seeds_per_s"].as_f64() > Some(0.0));
    assert!(
        runs["report"]["delivered"].as_u64() > Some(100),
        "{printed}"
    );

    let (output, printed) = sim(&["group", "--mutant", "skips-null", "--seeds", "0..100"]);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("Broken: total-order:"), "{printed}");
    let replay = printed.split("replay: covalent sim ").nth(1).unwrap();
    let args: Vec<_> = replay.lines().next().unwrap().split(' ').collect();
    let (output, replayed) = sim(&args);
    assert_eq!(output.status.code(), Some(1), "{replayed}");
    assert!(replayed.contains("Broken: total-order:"), "{replayed}");

    let (output, printed) = sim(&["group", "--figures", "--nodes", "3", "--format", "json"]);
    let figures: Value = serde_json::from_slice(&output.stdout).expect(&printed);
    let most = figures[0]["round_trips_max"].as_f64();
    assert!(Some(0.5) < most && most <= Some(3.0), "{printed}");

    let (output, printed) = sim(&["group", "--nodes", "8", "--shape", "grid:3x3"]);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("there is no such world"), "{printed}");
}

#[test]
fn a_hunt_fails_with_commands_that_reproduce_its_findings() {
    // The time only bounds a run on a busy machine: the runs are over in a second.
    let few = ["hunt", "links", "--base", "1000", "--minutes", "10"];
    let broken = ["--runs", "60", "--mutant", "retries-blindly"];
    let (output, printed) = sim(&[&few[..], &broken, &["--shrink-seconds", "2"]].concat());
    assert_eq!(output.status.code(), Some(1), "{printed}");
    // Each finding prints the command of its run and that of the smallest case.
    let findings: Vec<_> = printed.split("Broken: ").skip(1).collect();
    assert!(!findings.is_empty(), "{printed}");
    for finding in findings {
        let invariant = finding.split(':').next().unwrap();
        let replays: Vec<_> = finding.split("replay: covalent sim ").skip(1).collect();
        assert_eq!(replays.len(), 2, "{finding}");
        for replay in replays {
            let args: Vec<_> = replay.lines().next().unwrap().split(' ').collect();
            let (output, replayed) = sim(&args);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {replayed}");
            let broken = format!("Broken: {invariant}:");
            assert!(
                replayed.contains(&broken),
                "{args:?} is not {broken} {replayed}"
            );
        }
    }

    let (output, printed) = sim(&[&few[..], &["--runs", "20"]].concat());
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(
        printed.contains("Every invariant held in 20 runs"),
        "{printed}"
    );
}
