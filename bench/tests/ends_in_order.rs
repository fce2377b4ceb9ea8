//! A stopped measurement leaves nothing behind.
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
fn listens(pid: u32, end_request: EndRequest) -> bool {
    let process = Process::new(i32::try_from(pid).unwrap());
    let status = process.and_then(|process| process.status()).unwrap();
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM]
        .iter()
        .skip(usize::from(end_request == EndRequest::IgnoredHangUp))
        .all(|&signal| status.sigcgt & (1 << (signal as i32 - 1)) != 0)
}

/// How a measurement is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndRequest {
    Signal(Signal),
    /// SIGHUP, which nohup(1) has it ignore, and a moment later SIGTERM.
    IgnoredHangUp,
    /// Its controlling terminal is closed, and the kernel signals its session.
    TerminalCloses,
    /// Closes a terminal that is only its output, without any signal.
    OutputTerminalCloses,
    PipeCloses,
}

impl EndRequest {
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
fn start(command: &mut Command, end_request: EndRequest) -> (Guarded, OwnedFd) {
    let (output, other): (Stdio, OwnedFd) = match end_request {
        EndRequest::TerminalCloses | EndRequest::OutputTerminalCloses => {
            let pty = openpty(None, None).unwrap();
            // A child that had the other side of its terminal would keep it open.
            fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
            command.stdin(pty.slave.try_clone().unwrap());
            command.stderr(pty.slave.try_clone().unwrap());
            (pty.slave.into(), pty.master)
        }
        EndRequest::Signal(_) | EndRequest::PipeCloses | EndRequest::IgnoredHangUp => {
            let (reader, writer) = std::io::pipe().unwrap();
            command.stdin(Stdio::null()).stderr(Stdio::null());
            (writer.into(), reader.into())
        }
    };
    (Guarded(command.stdout(output).spawn().unwrap()), other)
}

#[test]
fn every_end_of_a_measurement_removes_daemons_and_directories() {
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
    for (measurement, end_request) in [
        ("idle", EndRequest::Signal(Signal::SIGINT)),
        ("idle", EndRequest::Signal(Signal::SIGHUP)),
        ("idle", EndRequest::IgnoredHangUp),
        ("idle", EndRequest::TerminalCloses),
        ("idle", EndRequest::OutputTerminalCloses),
        ("idle", EndRequest::PipeCloses),
        ("rate", EndRequest::Signal(Signal::SIGTERM)),
        ("rate", EndRequest::TerminalCloses),
        ("rate", EndRequest::PipeCloses),
        ("latency", EndRequest::Signal(Signal::SIGINT)),
        ("latency", EndRequest::Signal(Signal::SIGHUP)),
        ("latency", EndRequest::OutputTerminalCloses),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = Command::new("setsid");
        if end_request == EndRequest::TerminalCloses {
            command.arg("--ctty");
        }
        command
            .arg(&program)
            .args([measurement, "--force-debug", "--seconds", "100"])
            .env("TMPDIR", temporary.path());
        // SAFETY: only async-signal-safe calls are allowed between fork and exec. sigaction is one,
        // and no handler is installed. A background job of a shell ignores SIGINT, and one of
        // nohup(1) ignores SIGHUP. Both settings are inherited.
        unsafe {
            command.pre_exec(move || {
                let hang_up_handler = match end_request {
                    EndRequest::IgnoredHangUp => SigHandler::SigIgn,
                    _ => SigHandler::SigDfl,
                };
                signal::signal(Signal::SIGINT, SigHandler::SigDfl)?;
                signal::signal(Signal::SIGHUP, hang_up_handler)?;
                Ok(())
            });
        }
        let (mut bench, output) = start(&mut command, end_request);
        // It would keep the slave side of the terminal open.
        drop(command);
        wait_until("it listens for signals", || {
            listens(bench.0.id(), end_request)
        });
        // `rate` and `latency` run their sides in turn for a long time. They must react to the
        // signal during that too.
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
        match end_request {
            EndRequest::Signal(signal) => kill(pid, signal).unwrap(),
            EndRequest::IgnoredHangUp => {
                kill(pid, Signal::SIGHUP).unwrap();
                thread::sleep(Duration::from_millis(500));
                kill(pid, Signal::SIGTERM).unwrap();
            }
            _ => drop(output.take()),
        }
        let mut status = None;
        wait_until(&format!("{measurement} ends after {end_request:?}"), || {
            status = bench.0.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        let expected = Some(128 + end_request.signal() as i32);
        assert_eq!(
            status.code(),
            expected,
            "{measurement} {end_request:?}: {status}"
        );
        let left = entries(temporary.path());
        assert_eq!(left, Vec::<PathBuf>::new(), "{measurement} {end_request:?}");
    }
}
