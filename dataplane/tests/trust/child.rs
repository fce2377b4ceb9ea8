//! Applications in separate processes: this test program again, started to run one of its ignored
//! tests.

use std::{
    env,
    fs::File,
    io::{BufRead, BufReader, Lines},
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::OnceLock,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    unistd::Pid,
};

use super::node::unprivileged;

const SOCKET: &str = "COVALENT_TEST_SOCKET";
const ARGUMENT: &str = "COVALENT_TEST_ARGUMENT";
const REPORT_PREFIX: &str = "report: ";

/// A child process, killed when this is dropped.
pub struct Application {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Application {
    /// Starts the ignored test `role` for the daemon at `socket`.
    pub fn start(role: &str, socket: PathBuf, argument: &str) -> Self {
        Self::spawn(&mut Command::new(program()), role, socket, argument)
    }

    /// As [`Application::start`], as a user without rights if this process may become one.
    pub fn start_unprivileged(role: &str, socket: PathBuf, argument: &str) -> Self {
        let Some(group) = unprivileged() else {
            return Self::start(role, socket, argument);
        };
        let mut command = Command::new(program_for_others());
        command.uid(group.gid.as_raw()).gid(group.gid.as_raw());
        Self::spawn(&mut command, role, socket, argument)
    }

    fn spawn(command: &mut Command, role: &str, socket: PathBuf, argument: &str) -> Self {
        let mut process = command
            .args([
                "--exact",
                role,
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(SOCKET, socket)
            .env(ARGUMENT, argument)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("a child");
        let output = process.stdout.take().expect("its output");
        Self {
            process,
            output: BufReader::new(output).lines(),
        }
    }

    /// Returns the next text that it prints with [`report`]. `None` if it exits.
    pub fn next_report(&mut self) -> Option<String> {
        self.output
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once(REPORT_PREFIX)?.1.to_owned()))
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    /// Stops it. Returns the last text that it prints.
    pub fn stop(self) -> Option<String> {
        self.stop_and_read().pop()
    }

    /// Stops it by the end of its input. Returns all texts that it prints. It must exit
    /// successfully.
    pub fn stop_and_read(mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        let mut reported = Vec::new();
        while let Some(more) = self.next_report() {
            reported.push(more);
        }
        let status = self.process.wait().expect("a child");
        assert!(
            status.success(),
            "an application of the test failed: {status}"
        );
        reported
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(mut self) {
        self.process.kill().expect("SIGKILL");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> PathBuf {
    env::current_exe().expect("this test")
}

/// The same by a descriptor: an unprivileged user may have no access to the build directory, for
/// example below `/root`.
fn program_for_others() -> PathBuf {
    static OPEN: OnceLock<File> = OnceLock::new();
    let file = OPEN.get_or_init(|| {
        let file = File::open(program()).expect("this test");
        fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).expect("a descriptor that children keep");
        file
    });
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Returns a child's arguments: its daemon's socket and its own argument. `None` in a process that
/// is not a child and has nothing to do.
pub fn orders() -> Option<(PathBuf, String)> {
    let socket = env::var_os(SOCKET)?;
    Some((socket.into(), env::var(ARGUMENT).unwrap_or_default()))
}

/// Prints a text to the parent.
#[allow(clippy::print_stdout, reason = "the parent reads it")]
pub fn report(what: &str) {
    println!("{REPORT_PREFIX}{what}");
}
