//! A measurement that is told to end leaves nothing.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, SigHandler, Signal, kill},
    unistd::Pid,
};

const PATIENCE: Duration = Duration::from_secs(60);

struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_signal_ends_daemons_and_directories() {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_covalent-bench"));
    let daemon = program.with_file_name("covalentd");
    assert!(
        daemon.exists(),
        "{} is not there: run `cargo build --workspace` first (`make test` does)",
        daemon.display()
    );
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: making network namespaces needs root");
        return;
    }
    for (measurement, signal) in [
        ("idle", Signal::SIGINT),
        ("rate", Signal::SIGTERM),
        ("latency", Signal::SIGINT),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = Command::new(&program);
        command
            .args([measurement, "--force-debug", "--seconds", "100"])
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; sigaction is one, and no handler is installed. A
        // shell's job in the background ignores SIGINT and passes that on.
        unsafe {
            command.pre_exec(|| {
                signal::signal(Signal::SIGINT, SigHandler::SigDfl)?;
                Ok(())
            });
        }
        let mut bench = Guarded(command.spawn().unwrap());
        // `rate` and `latency` take their sides in turn, and that for long: there it must hear the signal as well.
        if measurement == "idle" {
            wait_until("a daemon runs", || {
                entries(temporary.path())
                    .iter()
                    .any(|directory| directory.join("run/covalentd.sock").exists())
            });
        } else {
            thread::sleep(Duration::from_secs(1));
        }
        let pid = Pid::from_raw(i32::try_from(bench.0.id()).unwrap());
        kill(pid, signal).unwrap();
        let mut status = None;
        wait_until("it ends", || {
            status = bench.0.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(
            status.unwrap().code(),
            Some(128 + signal as i32),
            "{measurement}"
        );
        assert_eq!(entries(temporary.path()), Vec::<PathBuf>::new());
    }
}
