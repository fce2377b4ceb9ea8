//! A measurement that is told to end leaves nothing.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    pty::openpty,
    sys::signal::{self, SigHandler, Signal, kill},
    unistd::Pid,
};
use procfs::process::Process;

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

/// Whether a process has handlers for all signals that end it.
fn listens(pid: u32, told: Told) -> bool {
    let process = Process::new(i32::try_from(pid).unwrap());
    let status = process.and_then(|process| process.status()).unwrap();
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM]
        .iter()
        .skip(usize::from(told == Told::IgnoredHangUp))
        .all(|&signal| status.sigcgt & (1 << (signal as i32 - 1)) != 0)
}

/// How a measurement is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Signal(Signal),
    /// SIGHUP, which nohup(1) has it ignore, and a moment later SIGTERM.
    IgnoredHangUp,
    /// Its controlling terminal is closed, and the kernel signals its session.
    TerminalCloses,
    /// A terminal is closed that it only writes to, of which no signal tells.
    OutputTerminalCloses,
    PipeCloses,
}

impl Told {
    /// Which signal the exit status names.
    fn signal(self) -> Signal {
        match self {
            Self::Signal(signal) => signal,
            Self::TerminalCloses | Self::OutputTerminalCloses => Signal::SIGHUP,
            Self::PipeCloses => Signal::SIGPIPE,
            Self::IgnoredHangUp => Signal::SIGTERM,
        }
    }
}

/// Starts it, and gives the other end of its output with it.
fn start(command: &mut Command, told: Told) -> (Guarded, OwnedFd) {
    let (output, other): (Stdio, OwnedFd) = match told {
        Told::TerminalCloses | Told::OutputTerminalCloses => {
            let pty = openpty(None, None).unwrap();
            // A child that had the other side of its terminal would keep it open.
            fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
            command.stdin(pty.slave.try_clone().unwrap());
            command.stderr(pty.slave.try_clone().unwrap());
            (pty.slave.into(), pty.master)
        }
        Told::Signal(_) | Told::PipeCloses | Told::IgnoredHangUp => {
            let (reader, writer) = std::io::pipe().unwrap();
            command.stdin(Stdio::null()).stderr(Stdio::null());
            (writer.into(), reader.into())
        }
    };
    (Guarded(command.stdout(output).spawn().unwrap()), other)
}

#[test]
fn whatever_ends_a_measurement_ends_daemons_and_directories() {
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
    for (measurement, told) in [
        ("idle", Told::Signal(Signal::SIGINT)),
        ("idle", Told::Signal(Signal::SIGHUP)),
        ("idle", Told::IgnoredHangUp),
        ("idle", Told::TerminalCloses),
        ("idle", Told::OutputTerminalCloses),
        ("idle", Told::PipeCloses),
        ("rate", Told::Signal(Signal::SIGTERM)),
        ("rate", Told::TerminalCloses),
        ("rate", Told::PipeCloses),
        ("latency", Told::Signal(Signal::SIGINT)),
        ("latency", Told::Signal(Signal::SIGHUP)),
        ("latency", Told::OutputTerminalCloses),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = Command::new("setsid");
        if told == Told::TerminalCloses {
            command.arg("--ctty");
        }
        command
            .arg(&program)
            .args([measurement, "--force-debug", "--seconds", "100"])
            .env("TMPDIR", temporary.path());
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; sigaction is one, and no handler is installed. A
        // shell's job in the background ignores SIGINT, one of nohup(1) SIGHUP, and both pass that on.
        unsafe {
            command.pre_exec(move || {
                let of_hang_up = match told {
                    Told::IgnoredHangUp => SigHandler::SigIgn,
                    _ => SigHandler::SigDfl,
                };
                signal::signal(Signal::SIGINT, SigHandler::SigDfl)?;
                signal::signal(Signal::SIGHUP, of_hang_up)?;
                Ok(())
            });
        }
        let (mut bench, output) = start(&mut command, told);
        // What keeps the other side of its terminal open.
        drop(command);
        wait_until("it listens for signals", || listens(bench.0.id(), told));
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
        let mut output = Some(output);
        let pid = Pid::from_raw(i32::try_from(bench.0.id()).unwrap());
        match told {
            Told::Signal(signal) => kill(pid, signal).unwrap(),
            Told::IgnoredHangUp => {
                kill(pid, Signal::SIGHUP).unwrap();
                thread::sleep(Duration::from_millis(500));
                kill(pid, Signal::SIGTERM).unwrap();
            }
            _ => drop(output.take()),
        }
        let mut status = None;
        wait_until(&format!("{measurement} ends after {told:?}"), || {
            status = bench.0.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        let expected = Some(128 + told.signal() as i32);
        assert_eq!(status.code(), expected, "{measurement} {told:?}: {status}");
        let left = entries(temporary.path());
        assert_eq!(left, Vec::<PathBuf>::new(), "{measurement} {told:?}");
    }
}
