//! A listening socket that a service manager holds: the next daemon serves clients that connect
//! while no daemon runs.

use std::{
    os::fd::AsFd,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use covalent_api::{
    MAX_DATAGRAM_BYTES, datagram,
    request::{Reply, Request},
};
use covalent_ipc::seqpacket::{Connection, Listener};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    command::{Running, file, wait_until_it_listens},
    node::{Node, PATIENCE},
};

/// Starts the program with `listener` as a service manager hands it over (`sd_listen_fds(3)`).
fn start_with(listener: &Listener, config: &str) -> Running {
    // The shell becomes the daemon, so the number of its process is the daemon's.
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" --config \"$1\"";
    start_by(script, listener, config)
}

/// Starts the program with `script`, which gets `listener` as its standard input.
fn start_by(script: &str, listener: &Listener, config: &str) -> Running {
    let fd = listener.as_fd().try_clone_to_owned().expect("a descriptor");
    let program = env!("CARGO_BIN_EXE_covalentd");
    let child = Command::new("sh")
        .args(["-c", script, program, config])
        .env_remove("NOTIFY_SOCKET")
        .stdin(fd)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("covalentd runs");
    Running(child)
}

fn stop(mut daemon: Running) -> ExitStatus {
    kill(Pid::from_raw(daemon.0.id() as i32), Signal::SIGTERM).expect("it runs");
    daemon.0.wait().expect("it ends")
}

/// Sends a hello, whether or not a daemon runs.
fn knock(socket: &Path) -> Connection {
    let connection = Connection::connect_timeout(socket, PATIENCE).expect("the socket is there");
    let hello = Request::hello("test");
    let hello = datagram::encode(&hello).expect("fits");
    connection.send(&hello, &[]).expect("there is room");
    connection
}

fn is_welcome(connection: &Connection, patience: Duration) -> bool {
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    if !connection.wait(Some(patience)).expect("a socket") {
        return false;
    }
    let (length, _) = connection.recv(&mut buffer).expect("an answer");
    matches!(
        datagram::decode(&buffer[..length]),
        Ok(Reply::Welcome { .. })
    )
}

#[test]
fn a_client_that_connects_during_a_restart_waits_for_the_daemon() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let (config, socket) = (file(dir.path(), &node), node.config.socket_path());
    std::fs::create_dir_all(&node.config.node.runtime_dir).expect("room on the disk");
    let listener = Listener::bind(&socket).expect("a socket");
    let early = knock(&socket);
    let daemon = start_with(&listener, &config);
    assert!(is_welcome(&early, PATIENCE));
    assert!(stop(daemon).success());
    assert!(socket.exists(), "the name is not the daemon's to remove");
    let waiting = knock(&socket);
    assert!(!is_welcome(&waiting, Duration::from_millis(50)));
    let daemon = start_with(&listener, &config);
    assert!(is_welcome(&waiting, PATIENCE));
    // No graceful shutdown, with the same result.
    daemon.kill();
    let waiting = knock(&socket);
    let _daemon = start_with(&listener, &config);
    assert!(is_welcome(&waiting, PATIENCE));
}

#[test]
fn a_socket_that_is_elsewhere_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let config = file(dir.path(), &node);
    let elsewhere = Listener::bind(&dir.path().join("elsewhere")).expect("a socket");
    let daemon = start_with(&elsewhere, &config);
    wait_until_it_listens(&node);
    assert_eq!(node.status().node, "a");
    assert!(stop(daemon).success());
    assert!(!node.config.socket_path().exists());
}

#[test]
fn of_several_descriptors_the_socket_of_this_node_is_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let (config, socket) = (file(dir.path(), &node), node.config.socket_path());
    std::fs::create_dir_all(&node.config.node.runtime_dir).expect("room on the disk");
    let listener = Listener::bind(&socket).expect("a socket");
    let waiting = knock(&socket);
    // A file first, then a descriptor that is not open, and the socket last.
    let script = "exec 3</dev/null 4<&- 5<&0 0</dev/null; LISTEN_FDS=3 \
        LISTEN_FDNAMES=log:other:covalentd.socket LISTEN_PID=$$ \
                  exec \"$0\" --config \"$1\"";
    let daemon = start_by(script, &listener, &config);
    assert!(is_welcome(&waiting, PATIENCE));
    assert!(stop(daemon).success());
    assert!(socket.exists(), "the name is not the daemon's to remove");
}

#[test]
fn descriptors_for_another_process_are_left_alone() {
    for pid in ["LISTEN_PID=1", ""] {
        let dir = tempfile::tempdir().expect("a directory");
        let node = Node::new(dir.path(), "a", &["p0"], "");
        let config = file(dir.path(), &node);
        let elsewhere = Listener::bind(&dir.path().join("elsewhere")).expect("a socket");
        let path = elsewhere.path().to_owned();
        let knocking = knock(&path);
        let script = format!(
            "exec 3<&0 0</dev/null; unset LISTEN_PID; LISTEN_FDS=1 {pid} exec \"$0\" \
             --config \"$1\""
        );
        let daemon = start_by(&script, &elsewhere, &config);
        wait_until_it_listens(&node);
        // Its descriptor 3 is unchanged: the daemon neither listened on it nor closed it.
        let held = std::fs::read_link(format!("/proc/{}/fd/3", daemon.0.id()));
        let held = held.expect("it is open").display().to_string();
        assert!(held.starts_with("socket:"), "{held}");
        assert!(!is_welcome(&knocking, Duration::from_millis(50)));
        assert!(stop(daemon).success());
    }
}
