//! `covalentd` as a program.

use std::{
    fs,
    io::Read,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use covalent_ipc::seqpacket::Connection;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    client::Client,
    node::{Node, eventually},
};

fn covalentd(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_covalentd"));
    command
        .args(arguments)
        .env_remove("NOTIFY_SOCKET")
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the program until it exits. Returns whether it succeeded, and its error output.
pub fn run(arguments: &[&str]) -> (bool, String) {
    let Output { status, stderr, .. } = covalentd(arguments).output().expect("covalentd runs");
    (status.success(), String::from_utf8(stderr).expect("text"))
}

/// A daemon that is killed when this goes, also because the test failed.
pub struct Running(pub Child);

impl Running {
    /// Kills it, without a chance to clean up, and waits for its end.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program, without a word.
pub fn start(arguments: &[&str]) -> Running {
    Running(
        covalentd(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("covalentd runs"),
    )
}

/// Starts the program, which writes its log to the file `log`.
pub fn start_logging(arguments: &[&str], log: &Path) -> Running {
    let log = fs::File::create(log).expect("room on the disk");
    Running(
        covalentd(arguments)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("covalentd runs"),
    )
}

/// Waits until a daemon listens at the node's configured path. The name exists a moment earlier.
pub fn wait_until_it_listens(node: &Node) {
    eventually("it listens at its configured path", || {
        Connection::connect(&node.config.socket_path()).is_ok()
    });
}

/// Writes the node's configuration to a file and gives its path.
pub fn file(dir: &Path, node: &Node) -> String {
    let path = dir.join("node.toml");
    fs::write(&path, node.config.to_toml().expect("a configuration")).expect("room on the disk");
    path.to_str().expect("text").to_owned()
}

#[test]
fn check_reports_success_or_the_problem_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(dir.path(), &Node::new(dir.path(), "a", &["p0"], ""));
    let (good, text) = run(&["--config", &path, "--check"]);
    assert!(good, "{text}");
    let wrong = fs::read_to_string(&path)
        .expect("the file")
        .replace("slots = 64", "slots = 0");
    fs::write(&path, wrong).expect("room on the disk");
    let (good, text) = run(&["--config", &path, "--check"]);
    assert!(
        !good && text.contains("slots") && text.contains("node.toml"),
        "{text}"
    );
    let (good, text) = run(&["--config", "/no/such/file", "--log-format", "json"]);
    assert!(
        !good && text.contains("/no/such/file") && text.starts_with('{'),
        "{text}"
    );
    assert!(!dir.path().join("a").exists() && !dir.path().join("a-state").exists());
}

#[test]
fn help_teaches() {
    let output = covalentd(&["--help"]).output().expect("covalentd runs");
    let help = String::from_utf8(output.stdout).expect("text");
    for word in [
        "--check",
        "--allow-faults",
        "--log-format",
        "print-default",
        "CAP_NET_ADMIN",
        "Examples",
        "RUST_LOG",
    ] {
        assert!(help.contains(word), "no {word} in {help}");
    }
}

#[test]
fn both_signals_end_it_cleanly() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let (path, socket) = (file(dir.path(), &node), node.config.socket_path());
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut child = Running(
            covalentd(&["--config", &path])
                .spawn()
                .expect("covalentd runs"),
        );
        // The socket's name exists a moment before the daemon listens.
        eventually("it listens", || Connection::connect(&socket).is_ok());
        let mut client = Client::connect(&socket);
        assert_eq!(client.status().pid, child.0.id());
        kill(Pid::from_raw(child.0.id().cast_signed()), signal).expect("it runs");
        eventually("it ends", || child.0.try_wait().expect("a child").is_some());
        let mut text = String::new();
        child
            .0
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut text)
            .expect("text");
        assert!(child.0.wait().expect("a child").success(), "{text}");
        assert!(!socket.exists() && client.receive().is_none());
        assert!(
            text.contains("ready") && text.contains(signal.as_str()),
            "{text}"
        );
    }
}

#[test]
fn its_lines_are_json_and_none_is_written_by_a_lane() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let (path, socket) = (file(dir.path(), &node), node.config.socket_path());
    let lines = dir.path().join("lines");
    let stderr = fs::File::create(&lines).expect("room on the disk");
    let mut child = Running(
        covalentd(&["--config", &path, "--log-format", "json"])
            .env("RUST_LOG", "trace")
            .stderr(stderr)
            .spawn()
            .expect("covalentd runs"),
    );
    eventually("it listens", || Connection::connect(&socket).is_ok());
    let mut client = Client::connect(&socket);
    assert_eq!(client.status().pid, child.0.id());
    kill(Pid::from_raw(child.0.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    eventually("it ends", || child.0.try_wait().expect("a child").is_some());
    let text = fs::read_to_string(&lines).expect("text");
    let mut threads = std::collections::BTreeSet::new();
    for line in text.lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|problem| panic!("{problem}: {line}"));
        assert!(
            line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
        let thread = line["threadName"].as_str().unwrap_or_default().to_owned();
        assert!(!thread.contains("lane"), "{line}");
        threads.insert(thread);
    }
    assert!(text.contains("\"ready\""), "{text}");
    assert!(threads.contains("main"), "{threads:?}");
}

#[test]
fn a_start_after_a_kill_finds_no_obstacle() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let (path, socket) = (file(dir.path(), &node), node.config.socket_path());
    let mut guids = Vec::new();
    for _ in 0..2 {
        let child = Running(
            covalentd(&["--config", &path])
                .spawn()
                .expect("covalentd runs"),
        );
        let pid = child.0.id();
        // The socket of the killed daemon still exists: what counts is which daemon replies.
        eventually("it answers", || {
            Connection::connect(&socket).is_ok() && Client::connect(&socket).status().pid == pid
        });
        guids.push(Client::connect(&socket).status().guid);
        drop(child);
        assert!(socket.exists(), "a killed daemon cannot clean up");
    }
    assert_eq!(guids[0], guids[1]);
}

#[test]
fn the_daemon_raises_its_descriptor_limit_to_the_maximum() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let (path, socket) = (file(dir.path(), &node), node.config.socket_path());
    let child = Running(
        Command::new("sh")
            .args(["-c", "ulimit -Sn 128 && exec \"$0\" --config \"$1\""])
            .args([env!("CARGO_BIN_EXE_covalentd"), &path])
            .env_remove("NOTIFY_SOCKET")
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell"),
    );
    eventually("the socket is there", || socket.exists());
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.0.id())).expect("procfs");
    let files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .expect("a limit of files");
    let [soft, hard] = [0, 1].map(|at| files.split_ascii_whitespace().nth(at).expect("a number"));
    assert_eq!(soft, hard);
    assert_ne!(soft, "128");
}
