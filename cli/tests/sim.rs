//! `covalent sim`, as somebody types it.
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
fn a_simulation_tells_what_happened_and_fails_with_the_command_that_replays_it() {
    let chosen = ["--seed", "7", "--nodes", "3", "--faults", "cut-both,loss"];
    let (output, told) = sim(&chosen);
    assert!(output.status.success(), "{told}");
    for part in [
        "seed 7: 3 nodes",
        "is up with",
        "is cut in both directions",
        "is told: exchange 0",
        "failed: ",
        "Every invariant held.",
    ] {
        assert!(told.contains(part), "`{part}` is not in {told}");
    }
    assert!(!told.contains("hears"), "frames are left out");
    assert_eq!(sim(&chosen).1, told, "the same run again");

    let (output, told) = sim(&["--seeds", "0..20", "--format", "json"]);
    let runs: Value = serde_json::from_slice(&output.stdout).expect(&told);
    assert!(output.status.success() && runs["seeds_per_s"].as_f64() > Some(0.0));
    assert!(runs["report"]["committed"].as_u64() > Some(1000), "{told}");

    let broken = ["--mutant", "retries-blindly", "--faults", "cut-both"];
    let (output, told) = sim(&[&broken[..], &["--seeds", "0..30"]].concat());
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("Broken: exactly-once:"), "{told}");
    let replay = told.split("replay: covalent sim ").nth(1).unwrap();
    let args: Vec<_> = replay.lines().next().unwrap().split(' ').collect();
    let (output, again) = sim(&args);
    assert_eq!(output.status.code(), Some(1), "{again}");
    assert!(again.contains("Broken: exactly-once:"), "{again}");
    assert_eq!(sim(&args).1, again, "{replay}");
}

#[test]
fn a_mesh_tells_what_happened_and_is_the_same_run_again() {
    let chosen = ["mesh", "--shape", "chords:2", "--nodes", "8", "--seed", "3"];
    let (output, told) = sim(&chosen);
    assert!(output.status.success(), "{told}");
    for part in [
        "--seed 3",
        "chords:2, 8 nodes, 10 cables",
        "is up, epoch 1",
        "is cut",
        "failed: ",
        "round trips to settle from nothing",
        "Every invariant held. Fingerprint ",
    ] {
        assert!(told.contains(part), "`{part}` is not in {told}");
    }
    assert_eq!(sim(&chosen).1, told, "the same run again");

    let broken = ["mesh", "--mutant", "retries-blindly", "--faults", "cut"];
    let (output, told) = sim(&[&broken[..], &["--seeds", "0..30"]].concat());
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("Broken: once:"), "{told}");
    let replay = told.split("replay: covalent sim ").nth(1).unwrap();
    let args: Vec<_> = replay.lines().next().unwrap().split(' ').collect();
    let (output, again) = sim(&args);
    assert_eq!(output.status.code(), Some(1), "{again}");
    assert!(again.contains("Broken: once:"), "{again}");

    let (output, told) = sim(&["mesh", "--shape", "full", "--nodes", "20"]);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("has 19 cables, and may have 8"), "{told}");
}

#[test]
fn a_group_tells_what_happened_and_is_the_same_run_again() {
    let chosen = [
        "group", "--seed", "3", "--nodes", "5", "--shape", "ring", "--faults", "kill,cut",
    ];
    let (output, told) = sim(&chosen);
    assert!(output.status.success(), "{told}");
    for part in [
        "seed 3: 5 nodes, ring",
        "begins a stay",
        "is told: view 2 of ",
        "is told: view 1 of ",
        "Every invariant held.",
    ] {
        assert!(told.contains(part), "`{part}` is not in {told}");
    }
    assert!(!told.contains(" says to "), "envelopes are left out");
    assert_eq!(sim(&chosen).1, told, "the same run again");

    let (output, told) = sim(&["group", "--seeds", "0..20", "--format", "json"]);
    let runs: Value = serde_json::from_slice(&output.stdout).expect(&told);
    assert!(output.status.success() && runs["seeds_per_s"].as_f64() > Some(0.0));
    assert!(runs["report"]["delivered"].as_u64() > Some(100), "{told}");

    let (output, told) = sim(&["group", "--mutant", "skips-null", "--seeds", "0..100"]);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("Broken: total-order:"), "{told}");
    let replay = told.split("replay: covalent sim ").nth(1).unwrap();
    let args: Vec<_> = replay.lines().next().unwrap().split(' ').collect();
    let (output, again) = sim(&args);
    assert_eq!(output.status.code(), Some(1), "{again}");
    assert!(again.contains("Broken: total-order:"), "{again}");

    let (output, told) = sim(&["group", "--figures", "--nodes", "3", "--format", "json"]);
    let figures: Value = serde_json::from_slice(&output.stdout).expect(&told);
    let most = figures[0]["round_trips_max"].as_f64();
    assert!(Some(0.5) < most && most <= Some(3.0), "{told}");

    let (output, told) = sim(&["group", "--nodes", "8", "--shape", "grid:3x3"]);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("there is no such world"), "{told}");
}

#[test]
fn a_hunt_fails_with_commands_that_break_the_same_invariant_again() {
    // The time only bounds a run on a busy machine: the runs are over in a second.
    let few = ["hunt", "links", "--base", "1000", "--minutes", "10"];
    let broken = ["--runs", "60", "--mutant", "retries-blindly"];
    let (output, told) = sim(&[&few[..], &broken, &["--shrink-seconds", "2"]].concat());
    assert_eq!(output.status.code(), Some(1), "{told}");
    // Each finding has the command of its run and that of the smallest case.
    let findings: Vec<_> = told.split("Broken: ").skip(1).collect();
    assert!(!findings.is_empty(), "{told}");
    for finding in findings {
        let invariant = finding.split(':').next().unwrap();
        let replays: Vec<_> = finding.split("replay: covalent sim ").skip(1).collect();
        assert_eq!(replays.len(), 2, "{finding}");
        for replay in replays {
            let args: Vec<_> = replay.lines().next().unwrap().split(' ').collect();
            let (output, again) = sim(&args);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {again}");
            let broken = format!("Broken: {invariant}:");
            assert!(again.contains(&broken), "{args:?} is not {broken} {again}");
        }
    }

    let (output, told) = sim(&[&few[..], &["--runs", "20"]].concat());
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("Every invariant held in 20 runs"), "{told}");
}
