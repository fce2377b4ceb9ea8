//! Shared code of the tests of the whole command.

// Each test binary uses its part of this.
#![allow(dead_code)]

pub mod node;
pub mod terminal;

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::{self, SigHandler, Signal};

/// The programs that a node and the demonstration are made of.
const PROGRAMS: [&str; 5] = [
    "covalentd",
    "covalent-control",
    "covalent-echo",
    "covalent-replay",
    "covalent-bank",
];

/// Returns `covalent`, with its temporary files below `temporary`.
///
/// # Panics
/// If the other programs were not built: cargo does not build them, because they are not
/// dependencies of this package.
pub fn covalent(temporary: &Path) -> Command {
    for name in PROGRAMS {
        program(name);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_covalent"));
    command.env("TMPDIR", temporary).stdin(Stdio::null());
    // Tests search for phrases, which a narrow table would break.
    command.env("COLUMNS", "500");
    // Remove the caller's environment variables for a node.
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"COVALENT_") {
            command.env_remove(name);
        }
    }
    give_default_signals(&mut command);
    command
}

/// Gives the child the default actions of the signals that stop it. A background job ignores
/// SIGINT, and a job of nohup(1) ignores SIGHUP. A test runner that is such a job passes this on.
pub fn give_default_signals(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. sigaction is one, and
    // no handler is installed.
    unsafe {
        command.pre_exec(|| {
            for ended_by in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
                signal::signal(ended_by, SigHandler::SigDfl)?;
            }
            Ok(())
        });
    }
}

/// The path of one of the other programs.
///
/// # Panics
/// As [`covalent`].
pub fn program(name: &str) -> PathBuf {
    let covalent = PathBuf::from(env!("CARGO_BIN_EXE_covalent"));
    let path = covalent.with_file_name(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --workspace` first (`make test` does)",
        path.display()
    );
    path
}

/// Returns whether this process may create network namespaces. Prints a message if not.
pub fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped over AF_XDP: it needs root");
    }
    root
}

/// The media that can be tested here.
pub fn media() -> &'static [&'static str] {
    if is_root() {
        &["cable", "af_xdp"]
    } else {
        &["cable"]
    }
}

/// Waits until `holds` returns true, at most `patience`.
///
/// # Panics
/// If the condition does not become true in time.
pub fn wait_until(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes whose parent is `parent`.
pub fn children_of(parent: u32) -> BTreeSet<i32> {
    procfs::process::all_processes()
        .expect("procfs")
        .filter_map(|process| process.ok()?.stat().ok())
        .filter(|stat| u32::try_from(stat.ppid) == Ok(parent))
        .map(|stat| stat.pid)
        .collect()
}

/// Whether a process with this number exists.
pub fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// A network namespace that is held open: the kernel reuses the number of a destroyed namespace for
/// the next one.
pub struct Held {
    /// `net:[NUMBER]`.
    name: PathBuf,
    _handle: File,
}

/// The network namespaces of these processes, other than this one's.
pub fn namespaces_of(processes: &BTreeSet<i32>) -> Vec<Held> {
    let name = |handle: &File| fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).ok();
    let own = fs::read_link("/proc/self/ns/net").ok();
    let mut held: Vec<Held> = Vec::new();
    for pid in processes {
        // A child may be gone already.
        let Ok(handle) = File::open(format!("/proc/{pid}/ns/net")) else {
            continue;
        };
        let Some(name) = name(&handle).filter(|name| Some(name) != own.as_ref()) else {
            continue;
        };
        if held.iter().all(|other| other.name != name) {
            held.push(Held {
                name,
                _handle: handle,
            });
        }
    }
    held
}

/// Whether any other process is in one of these network namespaces, or holds a descriptor of it.
pub fn is_inhabited(namespaces: &[Held]) -> bool {
    let own = std::process::id();
    let is_one = |link: &PathBuf| namespaces.iter().any(|held| held.name == *link);
    let links = |directory: PathBuf| {
        fs::read_dir(directory)
            .into_iter()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
    };
    procfs::process::all_processes()
        .expect("procfs")
        .filter_map(Result::ok)
        .filter(|process| u32::try_from(process.pid) != Ok(own))
        .any(|process| {
            let root = PathBuf::from(format!("/proc/{}", process.pid));
            fs::read_link(root.join("ns/net")).is_ok_and(|name| is_one(&name))
                || links(root.join("fd")).any(|link| is_one(&link))
        })
}

/// Returns the entries of a directory.
pub fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// A child that is ended when the test ends, however it ends.
pub struct Guarded(pub Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guarded {
    /// Waits for its end, at most `patience`, and gives its exit code; none if a signal ended it.
    ///
    /// # Panics
    /// If it does not end.
    pub fn exit_code(&mut self, patience: Duration) -> Option<i32> {
        let mut status = None;
        wait_until("the command ends", patience, || {
            status = self.0.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Sends a signal to it alone.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).expect("small"));
        nix::sys::signal::kill(pid, signal).expect("it is not waited for yet");
    }
}
