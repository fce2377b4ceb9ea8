//! The commands around a node, as an operator types them.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use covalent_ipc::seqpacket::Listener;
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

/// Writes the configuration of a node with one cable port and all paths below `directory`.
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
fn errors_in_a_configuration_are_reported_with_line_and_key() {
    let place = tempfile::tempdir().unwrap();
    let (output, text) = run(covalent(place.path()).args(["config", "print-default"]));
    assert!(output.status.success());
    let file = place.path().join("covalent.toml");
    fs::write(&file, &text).unwrap();
    let (output, printed) = run(covalent(place.path()).args(["config", "check"]).arg(&file));
    assert!(
        output.status.success() && printed.contains("valid"),
        "{printed}"
    );

    fs::write(
        &file,
        text.replace("spin_us = 50", "spin_us = 50\nspinn_us = 50"),
    )
    .unwrap();
    let (output, printed) = run(covalent(place.path()).args(["config", "check"]).arg(&file));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        printed.contains("spinn_us") && printed.contains("covalent.toml"),
        "{printed}"
    );
}

#[test]
fn config_check_takes_its_file_with_and_without_the_option() {
    let place = tempfile::tempdir().unwrap();
    let file = write_config(place.path());
    let check = |words: &[&str]| {
        let mut command = covalent(place.path());
        run(command.args(["config", "check"]).args(words))
    };
    let path = file.to_str().unwrap();
    let (output, plain) = check(&[path]);
    assert!(
        output.status.success() && plain.contains("valid: node"),
        "{plain}"
    );
    let (output, printed) = check(&["--config", path]);
    assert!(output.status.success(), "{printed}");
    assert_eq!(printed, plain);
    for wrong in [&[] as &[_], &[path, "--config", path]] {
        let (output, printed) = check(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {printed}");
    }
}

#[test]
fn doctor_names_obstacles_and_sets_its_exit_status() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("covalent.toml");
    let text = "[node]\nname = \"a\"\n[[lane]]\ncore = 999\n[[port]]\nname = \"p0\"\nkind \
        = \"af_xdp\"\ninterface = \"nosuch0\"\n";
    fs::write(&file, text).unwrap();
    let (output, printed) = run(covalent(place.path())
        .args(["doctor", "--format", "json", "--config"])
        .arg(&file));
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        report["took_ms"].as_u64().is_some() && report["failed"].as_u64() >= Some(1),
        "{report}"
    );
    let findings = report["findings"].as_array().unwrap();
    // A node starts without the interface, but its port does not work.
    for (check, level, names) in [
        ("lane 0", "failed", "999"),
        ("port p0: interface", "failed", "nosuch0"),
    ] {
        let of_it = findings.iter().find(|finding| finding["check"] == check);
        let finding = of_it.unwrap();
        assert_eq!(finding["level"], level, "{finding}");
        assert!(finding["found"].as_str().unwrap().contains(names));
    }
}

#[test]
fn every_command_without_a_daemon_prints_one_text_and_its_cure() {
    let place = tempfile::tempdir().unwrap();
    let absent = place.path().join("absent.sock");
    // The listener of a killed daemon: it accepts, and closes without a reply.
    let closing = place.path().join("closing.sock");
    let listener = Listener::bind(&closing).unwrap();
    listener.set_nonblocking(true).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(listener.accept());
                thread::sleep(Duration::from_millis(1));
            }
        });
        let _stop = scopeguard(|| stop.store(true, Ordering::Relaxed));
        for (socket, cause) in [
            (&absent, "No such file or directory (os error 2)"),
            (&closing, "the other end closed the connection"),
        ] {
            for command in [
                &["status"][..],
                &["links"],
                &["verb", "lookup", "b", "bank"],
                &["capture", "out.pcapng"],
            ] {
                let mut covalent = covalent(place.path());
                let (output, printed) = run(covalent.args(command).arg("--socket").arg(socket));
                assert_eq!(output.status.code(), Some(1), "{command:?}");
                assert_eq!(
                    printed,
                    format!(
                        "covalent: no covalentd answers at {} ({cause})\n  cure: `covalent up` \
                         starts it; `--config FILE` or `--socket PATH` selects another node\n",
                        socket.display()
                    ),
                    "{command:?}"
                );
            }
        }
    });
}

#[test]
fn a_node_starts_is_shown_and_stops() {
    let place = tempfile::tempdir().unwrap();
    let file = write_config(place.path());
    let with_config = |command: &str| {
        let mut covalent = covalent(place.path());
        covalent.arg(command).arg("--config").arg(&file);
        covalent
    };
    let (output, printed) = run(&mut with_config("up"));
    // The node must not outlive the test, whatever fails below.
    let down = scopeguard(|| drop(run(&mut with_config("down"))));
    assert!(
        output.status.success() && printed.contains("port p0: cable"),
        "{printed}"
    );

    let (output, printed) = run(&mut with_config("up"));
    assert!(
        output.status.success() && printed.contains("up already"),
        "{printed}"
    );

    // Half a node is not up.
    let record = place.path().join("run/covalent-control.pid");
    let pid = || -> i32 {
        let text = std::fs::read_to_string(&record).unwrap();
        text.split_once('-').unwrap().0.parse().unwrap()
    };
    let killed = pid();
    kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
    // Without a process that reaps orphans, it stays a zombie.
    wait_until("control is gone", PATIENCE, || {
        let stat = procfs::process::Process::new(killed).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.state == 'Z') || !exists(killed)
    });
    let (output, printed) = run(&mut with_config("up"));
    assert!(
        output.status.success() && printed.contains("covalentd runs already"),
        "{printed}"
    );
    assert!(pid() != killed && exists(pid()), "control runs again");
    let of_daemon = place.path().join("run/covalentd.log.before");
    assert!(!of_daemon.exists(), "it was not started again");
    let log = place.path().join("run/covalent-control.log.before");
    let of_killed = std::fs::read_to_string(log).unwrap();
    assert!(!of_killed.is_empty(), "its log is kept");

    let (output, printed) = run(with_config("status").args(["--format", "json"]));
    assert!(output.status.success(), "{printed}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["node"], "tester");
    assert_eq!(status["ports"][0]["kind"], "cable");
    let (_, printed) = run(&mut with_config("status"));
    assert!(
        printed.contains("node tester") && printed.contains("p0"),
        "{printed}"
    );

    drop(down);
    let (output, printed) = run(&mut with_config("down"));
    assert!(
        output.status.success() && printed.contains("was not up"),
        "{printed}"
    );
    let left: Vec<_> = but_counters(&place.path().join("run"))
        .filter(|path| !path.to_string_lossy().contains(".log"))
        .collect();
    assert!(left.is_empty(), "only logs and counters are left: {left:?}");
}

/// Also across crashes of either side: control adopts the held configuration, and the dataplane
/// gets the agreed one back.
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
    // Use the socket: while the file is bad, the node's location cannot be read from it.
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
    let (output, printed) = run(&mut with_config("up"));
    let down = scopeguard(|| drop(run(&mut with_config("down"))));
    assert!(output.status.success(), "{printed}");

    // Control is ready before it has received the daemon's configuration.
    fs::write(&file, with_spin(77)).unwrap();
    let mut printed = String::new();
    wait_until("the file is in force", PATIENCE, || {
        let (output, now) = run(&mut with_config("reload"));
        printed = now;
        output.status.success()
    });
    assert!(
        printed.contains("dataplane.spin_us: 77 in place of 50"),
        "{printed}"
    );
    let agreed = held();
    assert_eq!(agreed["epoch"], 1);
    let (output, printed) = run(&mut with_config("reload"));
    assert!(
        output.status.success() && printed.contains("nothing to change"),
        "{printed}"
    );

    fs::write(&file, format!("{}[link]\nslots = 3\n", with_spin(99))).unwrap();
    let refused = |printed: &str, what: &str| {
        let line = printed.lines().find(|line| line.contains(what));
        assert!(
            printed.contains("nothing was changed")
                && line.is_some_and(|line| line.contains(&format!("{}:", file.display()))),
            "{printed}"
        );
    };
    let (output, printed) = run(&mut with_config("reload"));
    assert_eq!(output.status.code(), Some(1), "{printed}");
    refused(&printed, "`link.slots`");
    fs::write(&file, with_spin(99).replace("spin_us", "spim_us")).unwrap();
    let (output, printed) = run(&mut with_config("reload"));
    assert_eq!(output.status.code(), Some(1), "{printed}");
    refused(&printed, "`dataplane.spim_us`");
    assert_eq!(held(), agreed);

    // The file differs from the configuration in force. The surviving process determines the
    // latter.
    fs::write(&file, with_spin(99)).unwrap();
    kill_hard("covalent-control");
    let (output, printed) = run(&mut with_config("up"));
    assert!(output.status.success(), "{printed}");
    assert_eq!(held(), agreed);
    let log = place.path().join("run/covalent-control.log");
    wait_until("control adopts the held configuration", PATIENCE, || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.matches("control adopted the dataplane's configuration")
            .count()
            >= 1
            && log.contains("the file differs from the configuration in force")
    });
    kill_hard("covalentd");
    let (output, printed) = run(&mut with_config("up"));
    assert!(output.status.success(), "{printed}");
    wait_until(
        "the agreed configuration is in force again",
        PATIENCE,
        || {
            let now = held();
            now["digest"] == agreed["digest"] && now["epoch"].as_u64() > agreed["epoch"].as_u64()
        },
    );
    let (output, printed) = run(&mut with_config("reload"));
    assert!(
        output.status.success() && printed.contains("dataplane.spin_us: 99 in place of 77"),
        "{printed}"
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
        let (output, printed) = run(covalent(place.path())
            .args([command, "--config"])
            .arg(&file));
        // Should it have come up after all, it must not outlive the test.
        if command == "up" && output.status.success() {
            drop(other);
            run(covalent(place.path()).args(["down", "--config"]).arg(&file));
            panic!("up beside another: {printed}");
        }
        assert_eq!(output.status.code(), Some(1), "{command}: {printed}");
        assert!(
            printed.contains("another `covalent up`") && printed.contains("tester"),
            "{command}: {printed}"
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
    // Keep it open: a command exits without a signal if its output has no reader.
    let mut printed = BufReader::new(up.0.stdout.take().unwrap()).lines();
    assert!(
        printed.any(|line| line.unwrap().contains("Ctrl-C")),
        "it reports when it is up"
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
fn if_one_process_cannot_start_the_other_is_stopped() {
    let place = tempfile::tempdir().unwrap();
    let file = write_config(place.path());
    // Control cannot listen at an address that is in use.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("127.0.0.1:0", &taken.local_addr().unwrap().to_string());
    fs::write(&file, text).unwrap();
    let (output, printed) = run(covalent(place.path()).args(["up", "--config"]).arg(&file));
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("covalent-control") && printed.contains("last words"),
        "{printed}"
    );
    let (_, printed) = run(covalent(place.path()).args(["down", "--config"]).arg(&file));
    assert!(printed.contains("was not up"), "{printed}");
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
    install(env!("CARGO_BIN_EXE_covalent"), &own);
    let alone = Command::new(&own)
        .args(["bench", "latency", "--help"])
        .env("PATH", place.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&alone.stderr);
    assert!(!alone.status.success());
    assert!(
        printed.contains("`covalent-bench` is neither in") && printed.contains("cure: "),
        "{printed}"
    );
    let other = place.path().join("covalent-bench");
    let text = place.path().join("text");
    fs::write(&text, "#!/bin/sh\necho \"$@\"; exit 7\n").unwrap();
    install(&text, &other);
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

/// Copies a program from another process. A descriptor of this one, open for writing, would be
/// inherited by a process that another test starts, and until its `exec` the copy could not run.
fn install(from: impl AsRef<Path>, to: &Path) {
    let mut copy = Command::new("install");
    assert!(copy.arg(from.as_ref()).arg(to).status().unwrap().success());
}

/// Returns the entries of `directory`, except the counters of a stopped daemon, which stay for
/// later inspection.
fn but_counters(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = entries(directory).into_iter();
    entries.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with("counters")
    })
}
