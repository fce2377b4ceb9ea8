//! The comparison of pipes with other systems: that it runs, not how fast.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, SigHandler, Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

fn bench(temporary: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covalent-bench"));
    command
        .args(["streams", "--force-debug", "--format", "json"])
        .args(options)
        .env("TMPDIR", temporary)
        // Huge pages are the whole host's; a test leaves them alone.
        .env("COVALENT_BENCH_PAGES", "small")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// Returns the processes whose command line contains `place`.
fn processes_at(place: &Path) -> Vec<String> {
    let place = place.display().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&place))
        .collect()
}

/// Reserves two cores: tests that poll on the same cores would take each other's time. `None` if
/// there are fewer cores.
fn two_cores() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    if thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        eprintln!("skipped: two polling processes need two cores");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn every_contestant_of_this_program_moves_packets_and_messages() {
    let Some(_cores) = two_cores() else {
        return;
    };
    let temporary = tempfile::tempdir().unwrap();
    let options = [
        "--against",
        "ring,unix,tcp",
        "--tests",
        "echo,one-way,stream,round-trip",
        "--repeats",
        "1",
        "--slice-ms",
        "100",
        "--sizes",
        "64,mix,4096",
    ];
    let output = bench(temporary.path(), &options).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    // 1: a goal is missed, as it may be in such a build.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{errors}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    for entry in results["contestants"].as_array().unwrap() {
        assert_eq!(entry["failures"], Value::Array(Vec::new()), "{entry}");
    }
    let figures = results["figures"].as_array().unwrap();
    // Ring and both pipes: echo and one way at two sizes. Both pipes and both sockets: two streams
    // at two sizes. All five: the round trip.
    assert_eq!(figures.len(), 3 * 4 + 4 * 4 + 5);
    for figure in figures {
        assert!(
            figure["figure"]["median"].as_f64().unwrap() > 0.0,
            "{figure}"
        );
    }
    assert_eq!(entries(temporary.path()), Vec::<String>::new());
}

#[test]
fn every_library_moves_packets_and_messages_or_reports_why_not() {
    let Some(_cores) = two_cores() else {
        return;
    };
    let temporary = tempfile::tempdir().unwrap();
    // Each with how many of the tests below it takes part in: streams are of messages of two sizes.
    let peers = [("iceoryx2", 3), ("aeron", 3), ("ucx", 5), ("libfabric", 5)];
    let options = [
        "--against",
        &peers.map(|(name, _)| name).join(","),
        "--tests",
        "echo,one-way,stream,round-trip",
        // On a busy machine, a core may be lost for one whole round, but hardly for all rounds.
        "--repeats",
        "3",
        "--slice-ms",
        "60",
        "--sizes",
        "64,65536",
    ];
    let output = bench(temporary.path(), &options).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{errors}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = results["figures"].as_array().unwrap();
    for (name, tests) in peers {
        let contestants = results["contestants"].as_array().unwrap();
        let entry = contestants
            .iter()
            .find(|entry| entry["name"] == name)
            .unwrap();
        assert_eq!(entry["failures"], Value::Array(Vec::new()), "{entry}");
        let of_it: Vec<_> = figures
            .iter()
            .filter(|figure| figure["contestant"] == name)
            .collect();
        if let Some(absent) = entry["absent"].as_str() {
            eprintln!("skipped: {name}: {absent}");
            assert!(
                absent.contains("feature `peers`") || absent.contains("apt-get install"),
                "{absent}"
            );
            assert!(of_it.is_empty(), "{of_it:?}");
            continue;
        }
        assert_eq!(of_it.len(), tests, "{of_it:?}");
        for figure in of_it {
            let best = figure["figure"]["max"].as_f64();
            assert!(best.is_some_and(|best| best > 0.0), "{figure}");
        }
    }
    assert_eq!(entries(temporary.path()), Vec::<String>::new());
}

#[test]
fn many_pipes_and_every_load_are_measured_and_shown() {
    let Some(_cores) = two_cores() else {
        return;
    };
    let temporary = tempfile::tempdir().unwrap();
    let options = [
        "--tests",
        "loads,pipe-count",
        "--repeats",
        "1",
        "--slice-ms",
        "40",
    ];
    let output = bench(temporary.path(), &options).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{errors}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["figures"], Value::Array(Vec::new()));
    let lines = results["loads"]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert_eq!(line["failures"], Value::Array(Vec::new()));
        let points = line["points"].as_array().unwrap();
        assert_eq!(points.len(), 13);
        // On a busy machine, a core may be lost for one whole trial, but hardly for all trials.
        for figure in ["received_mpps", "p99_us"] {
            assert!(
                points.iter().any(|point| positive(&point[figure])),
                "{figure} in {line}"
            );
        }
    }
    let counts = &results["counts"];
    assert_eq!(counts["failures"], Value::Array(Vec::new()));
    let points = counts["points"].as_array().unwrap();
    let pipes: Vec<u64> = points
        .iter()
        .map(|point| point["pipes"].as_u64().unwrap())
        .collect();
    assert_eq!(pipes, (0..=12).map(|at| 1 << at).collect::<Vec<_>>());
    for figure in ["flat_out_mpps", "lossless_mpps", "bare_mpps"] {
        assert!(
            points.iter().any(|point| positive(&point[figure])),
            "{figure} in {counts}"
        );
    }
    assert_eq!(entries(temporary.path()), Vec::<String>::new());
}

fn positive(summary: &Value) -> bool {
    summary["median"]
        .as_f64()
        .is_some_and(|median| median > 0.0)
}

#[test]
fn a_signal_ends_every_process_and_removes_every_file() {
    let Some(_cores) = two_cores() else {
        return;
    };
    let temporary = tempfile::tempdir().unwrap();
    let options = [
        "--against",
        "none",
        "--tests",
        "echo",
        "--slice-ms",
        "60000",
    ];
    let mut command = bench(temporary.path(), &options);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: only async-signal-safe calls are allowed between fork and exec. sigaction is one, and
    // no handler is installed. A background job of a shell ignores SIGINT, and this setting is
    // inherited.
    unsafe {
        command.pre_exec(|| {
            signal::signal(Signal::SIGINT, SigHandler::SigDfl)?;
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while processes_at(temporary.path()).len() < 2 {
        assert!(Instant::now() < deadline, "two processes do not start");
        thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(128 + Signal::SIGINT as i32));
    assert_eq!(processes_at(temporary.path()), Vec::<String>::new());
    assert_eq!(entries(temporary.path()), Vec::<String>::new());
}

#[test]
fn unknown_options_and_missing_files_are_refused() {
    let temporary = tempfile::tempdir().unwrap();
    for (options, words) in [
        (["--sizes", "65"], "size"),
        (["--against", "redis"], "takes no part in `streams`"),
        (["--captures", "/nowhere"], "/nowhere"),
        (["--ring-kib=1024", "--pages=huge"], "pages of 2 MiB"),
    ] {
        let output = bench(temporary.path(), &options).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
}
