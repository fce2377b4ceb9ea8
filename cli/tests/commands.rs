//! The commands around a node, as an operator types them.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use support::{Guarded, children_of, covalent, entries, exists, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

fn run(command: &mut Command) -> (Output, String) {
    let output = command.output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, text)
}

/// A node with one cable port, all of whose places are below `directory`.
fn write_config(directory: &Path) -> std::path::PathBuf {
    let place = directory.display();
    let text = format!(
        "[node]\nname = \"tester\"\nruntime_dir = \"{place}/run\"\nstate_dir = \"{place}/state\"\n\
         [dataplane]\nhuge_pages = \"never\"\n\
         [[port]]\nname = \"p0\"\nkind = \"cable\"\npath = \"{place}/p0.sock\"\n\
         [control]\nmetrics_listen = \"127.0.0.1:0\"\n"
    );
    let file = directory.join("covalent.toml");
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn the_default_configuration_is_valid_and_a_wrong_one_is_told_with_line_and_key() {
    let place = tempfile::tempdir().unwrap();
    let (output, text) = run(covalent(place.path()).args(["config", "print-default"]));
    assert!(output.status.success());
    let file = place.path().join("covalent.toml");
    fs::write(&file, &text).unwrap();
    let (output, told) = run(covalent(place.path()).args(["config", "check"]).arg(&file));
    assert!(output.status.success() && told.contains("valid"), "{told}");

    fs::write(
        &file,
        text.replace("spin_us = 50", "spin_us = 50\nspinn_us = 50"),
    )
    .unwrap();
    let (output, told) = run(covalent(place.path()).args(["config", "check"]).arg(&file));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told.contains("spinn_us") && told.contains("covalent.toml"),
        "{told}"
    );
}

#[test]
fn doctor_says_what_stands_in_the_way_with_its_exit_status() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("covalent.toml");
    let text = "[node]\nname = \"a\"\n[[lane]]\ncore = 999\n[[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"nosuch0\"\n";
    fs::write(&file, text).unwrap();
    let (output, told) = run(covalent(place.path())
        .args(["doctor", "--format", "json", "--config"])
        .arg(&file));
    assert_eq!(output.status.code(), Some(1), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        report["took_ms"].as_u64().is_some() && report["failed"].as_u64() >= Some(1),
        "{report}"
    );
    let findings = report["findings"].as_array().unwrap();
    // A node starts without an interface, which may come later; without a core it does not.
    for (check, level, names) in [
        ("lane 0", "failed", "999"),
        ("port p0: interface", "warning", "nosuch0"),
    ] {
        let of_it = findings.iter().find(|finding| finding["check"] == check);
        let finding = of_it.unwrap();
        assert_eq!(finding["level"], level, "{finding}");
        assert!(finding["found"].as_str().unwrap().contains(names));
    }
}

#[test]
fn without_a_daemon_status_says_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("nobody.sock");
    let (output, told) = run(covalent(place.path())
        .args(["status", "--socket"])
        .arg(&socket));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told.contains("nobody.sock") && told.contains("covalent up"),
        "{told}"
    );
}

#[test]
fn a_node_goes_up_shows_itself_and_goes_down() {
    let place = tempfile::tempdir().unwrap();
    let file = write_config(place.path());
    let with_config = |command: &str| {
        let mut covalent = covalent(place.path());
        covalent.arg(command).arg("--config").arg(&file);
        covalent
    };
    let (output, told) = run(&mut with_config("up"));
    // Whatever fails below: the node must not outlive the test.
    let down = scopeguard(|| drop(run(&mut with_config("down"))));
    assert!(
        output.status.success() && told.contains("port p0: cable"),
        "{told}"
    );

    let (output, told) = run(&mut with_config("up"));
    assert!(
        output.status.success() && told.contains("up already"),
        "{told}"
    );

    // Half a node is not up.
    let record = place.path().join("run/covalent-control.pid");
    let pid = || -> i32 {
        let text = std::fs::read_to_string(&record).unwrap();
        text.split_once('-').unwrap().0.parse().unwrap()
    };
    let killed = pid();
    kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
    // Where nobody waits for orphans it stays as a zombie.
    wait_until("control is gone", PATIENCE, || {
        let stat = procfs::process::Process::new(killed).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.state == 'Z') || !exists(killed)
    });
    let (output, told) = run(&mut with_config("up"));
    assert!(
        output.status.success() && told.contains("covalentd runs already"),
        "{told}"
    );
    assert!(pid() != killed && exists(pid()), "control runs again");
    let of_daemon = place.path().join("run/covalentd.log.before");
    assert!(!of_daemon.exists(), "it was not started again");
    let log = place.path().join("run/covalent-control.log.before");
    let of_killed = std::fs::read_to_string(log).unwrap();
    assert!(!of_killed.is_empty(), "its log is kept");

    let (output, told) = run(with_config("status").args(["--format", "json"]));
    assert!(output.status.success(), "{told}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["node"], "tester");
    assert_eq!(status["ports"][0]["kind"], "cable");
    let (_, told) = run(&mut with_config("status"));
    assert!(
        told.contains("node tester") && told.contains("p0"),
        "{told}"
    );

    drop(down);
    let (output, told) = run(&mut with_config("down"));
    assert!(
        output.status.success() && told.contains("was not up"),
        "{told}"
    );
    let left: Vec<_> = but_counters(&place.path().join("run"))
        .filter(|path| !path.to_string_lossy().contains(".log"))
        .collect();
    assert!(left.is_empty(), "only logs and counters are left: {left:?}");
}

/// Through the deaths of either side, too: control adopts what is held, and the dataplane gets back what was agreed.
#[test]
fn an_edited_file_is_put_in_force_and_a_bad_one_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let file = write_config(place.path());
    let first = fs::read_to_string(&file).unwrap();
    let with_spin = |spin_us: u32| {
        let changed = format!("huge_pages = \"never\"\nspin_us = {spin_us}\n");
        first.replace("huge_pages = \"never\"\n", &changed)
    };
    let with_config = |command: &str| {
        let mut covalent = covalent(place.path());
        covalent.arg(command).arg("--config").arg(&file);
        covalent
    };
    // By its socket: while the file is bad nobody can read in it where the node is.
    let held = || {
        let socket = place.path().join("run/covalentd.sock");
        let (output, _) = run(covalent(place.path())
            .args(["status", "--format", "json", "--socket"])
            .arg(socket));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["config"]["held"].clone()
    };
    let pid = |name: &str| -> i32 {
        let record = place.path().join(format!("run/{name}.pid"));
        let text = fs::read_to_string(record).unwrap();
        text.split_once('-').unwrap().0.parse().unwrap()
    };
    let kill_hard = |name: &str| {
        let killed = pid(name);
        kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
        wait_until("it is gone", PATIENCE, || {
            let stat = procfs::process::Process::new(killed).and_then(|process| process.stat());
            stat.is_ok_and(|stat| stat.state == 'Z') || !exists(killed)
        });
    };
    let (output, told) = run(&mut with_config("up"));
    let down = scopeguard(|| drop(run(&mut with_config("down"))));
    assert!(output.status.success(), "{told}");

    // Control is ready before it has heard what the daemon holds.
    fs::write(&file, with_spin(77)).unwrap();
    let mut told = String::new();
    wait_until("the file is in force", PATIENCE, || {
        let (output, now) = run(&mut with_config("reload"));
        told = now;
        output.status.success()
    });
    assert!(
        told.contains("dataplane.spin_us: 77 in place of 50"),
        "{told}"
    );
    let agreed = held();
    assert_eq!(agreed["epoch"], 1);
    let (output, told) = run(&mut with_config("reload"));
    assert!(
        output.status.success() && told.contains("nothing to change"),
        "{told}"
    );

    fs::write(&file, format!("{}[link]\nslots = 3\n", with_spin(99))).unwrap();
    let refused = |told: &str, what: &str| {
        let line = told.lines().find(|line| line.contains(what));
        assert!(
            told.contains("nothing was changed")
                && line.is_some_and(|line| line.contains(&format!("{}:", file.display()))),
            "{told}"
        );
    };
    let (output, told) = run(&mut with_config("reload"));
    assert_eq!(output.status.code(), Some(1), "{told}");
    refused(&told, "`link.slots`");
    fs::write(&file, with_spin(99).replace("spin_us", "spim_us")).unwrap();
    let (output, told) = run(&mut with_config("reload"));
    assert_eq!(output.status.code(), Some(1), "{told}");
    refused(&told, "`dataplane.spim_us`");
    assert_eq!(held(), agreed);

    // The file is not what is in force; whoever lives on says what is.
    fs::write(&file, with_spin(99)).unwrap();
    kill_hard("covalent-control");
    let (output, told) = run(&mut with_config("up"));
    assert!(output.status.success(), "{told}");
    assert_eq!(held(), agreed);
    let log = place.path().join("run/covalent-control.log");
    wait_until("control adopts what is held", PATIENCE, || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.matches("control holds what the dataplane holds")
            .count()
            >= 1
            && log.contains("the file says something else than what is in force")
    });
    kill_hard("covalentd");
    let (output, told) = run(&mut with_config("up"));
    assert!(output.status.success(), "{told}");
    wait_until("what was agreed is in force again", PATIENCE, || {
        let now = held();
        now["digest"] == agreed["digest"] && now["epoch"].as_u64() > agreed["epoch"].as_u64()
    });
    let (output, told) = run(&mut with_config("reload"));
    assert!(
        output.status.success() && told.contains("dataplane.spin_us: 99 in place of 77"),
        "{told}"
    );
    // A signal does the same.
    let before = held();
    fs::write(&file, with_spin(33)).unwrap();
    let control = Pid::from_raw(pid("covalent-control"));
    kill(control, Signal::SIGHUP).unwrap();
    wait_until("the file is in force", PATIENCE, || {
        held()["epoch"].as_u64() > before["epoch"].as_u64()
    });
    drop(down);
}

#[test]
fn one_up_or_down_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let file = write_config(place.path());
    let directory = place.path().join("run");
    fs::create_dir(&directory).unwrap();
    let lock = directory.join("node.lock");
    let other = Flock::lock(
        fs::File::create(&lock).unwrap(),
        FlockArg::LockExclusiveNonblock,
    )
    .unwrap();
    for command in ["up", "down"] {
        let (output, told) = run(covalent(place.path())
            .args([command, "--config"])
            .arg(&file));
        // Should it have come up after all, it must not outlive the test.
        if command == "up" && output.status.success() {
            drop(other);
            run(covalent(place.path()).args(["down", "--config"]).arg(&file));
            panic!("up beside another: {told}");
        }
        assert_eq!(output.status.code(), Some(1), "{command}: {told}");
        assert!(
            told.contains("another `covalent up`") && told.contains("tester"),
            "{command}: {told}"
        );
    }
    assert_eq!(entries(&directory), [lock], "nothing was started");
}

#[test]
fn in_the_foreground_the_node_ends_with_the_command() {
    let place = tempfile::tempdir().unwrap();
    let file = write_config(place.path());
    let mut command = covalent(place.path());
    command
        .args(["up", "--foreground", "--config"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut up = Guarded(command.spawn().unwrap());
    // Kept open: a command whose output nobody reads ends without a signal.
    let mut told = BufReader::new(up.0.stdout.take().unwrap()).lines();
    assert!(
        told.any(|line| line.unwrap().contains("Ctrl-C")),
        "it says when it is up"
    );
    let children = children_of(up.0.id());
    assert_eq!(children.len(), 2);
    up.signal(Signal::SIGINT);
    assert_eq!(up.exit_code(PATIENCE), Some(0));
    assert!(!children.iter().any(|&pid| exists(pid)));
    assert_eq!(
        but_counters(&place.path().join("run")).next(),
        None,
        "sockets go with their processes"
    );
}

#[test]
fn when_one_process_cannot_start_the_other_does_not_stay() {
    let place = tempfile::tempdir().unwrap();
    let file = write_config(place.path());
    // Control cannot listen where somebody else does.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("127.0.0.1:0", &taken.local_addr().unwrap().to_string());
    fs::write(&file, text).unwrap();
    let (output, told) = run(covalent(place.path()).args(["up", "--config"]).arg(&file));
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("covalent-control") && told.contains("last words"),
        "{told}"
    );
    let (_, told) = run(covalent(place.path()).args(["down", "--config"]).arg(&file));
    assert!(told.contains("was not up"), "{told}");
}

/// Runs `work` when it is dropped.
fn scopeguard(work: impl FnOnce()) -> impl Drop {
    struct Guard<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Guard<F> {
        fn drop(&mut self) {
            if let Some(work) = self.0.take() {
                work();
            }
        }
    }
    Guard(Some(work))
}

#[test]
fn bench_runs_the_program_beside_it_and_names_it_where_it_is_missing() {
    let place = tempfile::tempdir().unwrap();
    let own = place.path().join("covalent");
    fs::copy(env!("CARGO_BIN_EXE_covalent"), &own).unwrap();
    let alone = Command::new(&own)
        .args(["bench", "latency", "--help"])
        .env("PATH", place.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&alone.stderr);
    assert!(!alone.status.success());
    assert!(
        told.contains("`covalent-bench` is neither in") && told.contains("cure: "),
        "{told}"
    );
    let other = place.path().join("covalent-bench");
    fs::write(&other, "#!/bin/sh\necho \"$@\"; exit 7\n").unwrap();
    fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let both = Command::new(&own)
        .args(["bench", "latency", "--against", "udp", "--help"])
        .output()
        .unwrap();
    assert_eq!(both.status.code(), Some(7));
    assert_eq!(
        String::from_utf8_lossy(&both.stdout),
        "latency --against udp --help\n"
    );
}

/// What lies in `directory`, but for the counts of a daemon that has ended: they stay for whoever asks what became of it.
fn but_counters(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = entries(directory).into_iter();
    entries.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with("counters")
    })
}
