//! Descriptors that take long to close, on a kernel that lets them through (before Linux 6.16).

use std::{
    fs,
    io::Write,
    net::{TcpListener, TcpStream},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use covalent_api::{datagram, request::Request};
use covalent_dataplane::{Daemon, FaultInjection, journal::OnLoss, privilege::Privileges};
use covalent_pipe::seqpacket::{Connection, Listener};
use nix::sys::socket::{setsockopt, sockopt};

use super::{
    client::Client,
    node::{Node, eventually},
};

/// Connections that each bring one.
const LADEN: usize = 100;
/// Much more than an honest client waits, and much less than a descriptor wants to.
const SOON: Duration = Duration::from_secs(5);

/// A running node that gets whatever descriptors clients send.
fn start_as_before_linux_6_16(node: &mut Node) {
    fs::create_dir_all(&node.config.node.runtime_dir).expect("room on the disk");
    let listener = Listener::bind(&node.config.socket_path()).expect("a socket");
    let listener = listener.as_before_linux_6_16();
    let config = node.config.clone();
    let daemon = Daemon::start_with(
        config,
        Privileges::Keep,
        FaultInjection::Refused,
        OnLoss::Refuse,
        Some(listener),
    );
    node.daemon = Some(daemon.expect("the node starts"));
}

/// A socket that wants to be waited for, ten minutes, when it is closed: its peer, which is given too, reads nothing.
fn slow_to_close(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let address = listener.local_addr().expect("bound");
    let slow = TcpStream::connect(address).expect("it listens");
    let (peer, _) = listener.accept().expect("it has connected");
    let linger = nix::libc::linger {
        l_onoff: 1,
        l_linger: 600,
    };
    setsockopt(&slow, sockopt::Linger, &linger).expect("any user may");
    setsockopt(&slow, sockopt::SndBuf, &(1 << 14)).expect("any user may");
    slow.set_nonblocking(true).expect("a socket");
    while (&slow).write(&[0; 1 << 16]).is_ok() {}
    (slow, peer)
}

/// Sends a request with a descriptor that is slow to close, and gives what keeps it so.
fn send_laden(connection: &Connection, listener: &TcpListener) -> TcpStream {
    let (slow, peer) = slow_to_close(listener);
    let status = datagram::encode(&Request::Status).expect("fits");
    connection
        .send(&status, &[slow.as_fd()])
        .expect("as before Linux 6.16");
    peer
}

/// Threads of this process that close things.
fn closing_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("procfs").flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
        .filter(|name| name.starts_with("covalent-close"))
        .count()
}

#[test]
fn what_is_slow_to_close_holds_up_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = Node::new(dir.path(), "a", &["p0"], "");
    start_as_before_linux_6_16(&mut node);
    let socket = node.config.socket_path();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut steady = node.client();
    let before = closing_threads();
    let begun = Instant::now();
    let mut peers = Vec::new();
    for number in 0..LADEN {
        // Before a hello and after it; hung up at once and not at all.
        if number % 2 == 0 {
            let connection = Connection::connect(&socket).expect("the daemon listens");
            peers.push(send_laden(&connection, &tcp));
        } else {
            let client = Client::connect(&socket);
            peers.push(send_laden(&client.connection, &tcp));
        }
        if number % 10 == 0 {
            let asked = Instant::now();
            node.client();
            steady.status();
            assert!(asked.elapsed() < SOON, "others wait: {:?}", asked.elapsed());
        }
    }
    assert!(closing_threads() <= before, "a thread for each");
    eprintln!("{LADEN} of them in {:?}", begun.elapsed());
    // Their senders are told, and what they sent is closed: what lies in the sockets comes to an end.
    for mut peer in peers {
        peer.set_read_timeout(Some(SOON)).expect("a socket");
        std::io::copy(&mut peer, &mut std::io::sink()).expect("its other end is closed");
    }
    eventually("they are counted", || {
        steady.status().peers_refused["bad_message"] == LADEN as u64
    });
}

#[test]
fn what_is_slow_to_close_does_not_hold_up_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = Node::new(dir.path(), "a", &["p0"], "");
    start_as_before_linux_6_16(&mut node);
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
    // One whose answer waits to be read is not asked for its next request, so this one stays unread.
    let mut client = node.client();
    client.done(&Request::Subscribe);
    let peer = send_laden(&client.connection, &tcp);
    let begun = Instant::now();
    node.daemon.take().expect("runs").stop();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop((client, peer));
}
