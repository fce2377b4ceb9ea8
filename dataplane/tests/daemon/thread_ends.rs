//! A thread of the daemon that exits without an order to do so.

use std::{
    fs::{self, File},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use covalent_ipc::seqpacket::Connection;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::{
    command::{Running, file},
    node::{Node, eventually},
};

/// Much less than a service manager waits for a watchdog notification, and much more than the exit
/// takes.
const AT_ONCE: Duration = Duration::from_secs(5);

#[test]
fn the_end_of_the_host_thread_ends_the_daemon_and_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let log = dir.path().join("log");
    let child = Command::new(env!("CARGO_BIN_EXE_covalentd"))
        .args(["--config", &file(dir.path(), &node)])
        .env_remove("NOTIFY_SOCKET")
        .env_remove("RUST_LOG")
        .stdout(Stdio::null())
        .stderr(File::create(&log).expect("room on the disk"))
        .spawn()
        .expect("covalentd runs");
    let mut daemon = Running(child);
    let socket = node.config.socket_path();
    eventually("the daemon answers", || {
        Connection::connect(&socket).is_ok() && node.status().node == "a"
    });
    let read = || fs::read_to_string(&log).expect("its log");
    eventually("it is ready", || read().contains("ready"));
    // poll(2) takes no more descriptors than a process may have open.
    let few = Rlimit {
        current: Some(3),
        maximum: Some(3),
    };
    prlimit(Pid::from_raw(daemon.0.id() as i32), Resource::Nofile, few).expect("a child");
    let begun = Instant::now();
    // Has it look again.
    let _ = Connection::connect(&socket);
    let status = loop {
        if let Some(status) = daemon.0.try_wait().expect("a child") {
            break status;
        }
        assert!(begun.elapsed() < AT_ONCE, "it does not exit: {}", read());
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(!status.success(), "a service manager starts it again");
    let log_text = read();
    assert!(
        log_text.contains("a thread of the daemon has ended")
            && log_text.contains("the host thread"),
        "{log_text}"
    );
    assert!(!socket.exists(), "the shutdown was graceful");
}
