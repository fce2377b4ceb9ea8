//! Descriptors that take long to close, on a kernel that passes them to the daemon (before Linux
//! 6.16).

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::Path,
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use covalent_api::{datagram, request::Request};
use covalent_dataplane::{
    Daemon, FaultInjection,
    journal::OnLoss,
    privilege::{Privileges, raise_descriptor_limit},
};
use covalent_ipc::seqpacket::{Connection, DESCRIPTORS_MAX, Listener};
use nix::{
    sys::{
        inotify::{AddWatchFlags, InitFlags, Inotify},
        socket::{setsockopt, sockopt},
    },
    unistd::{Gid, Group},
};

use super::{
    client::Client,
    node::{Node, PATIENCE, eventually},
};

/// Connections that each bring one.
const LADEN: usize = 100;
/// Much longer than an honest client waits, and much shorter than such a descriptor takes to close.
const SOON: Duration = Duration::from_secs(5);

/// Connections of one user that wait to be closed: far more than a user has places.
const FAR_OVER: usize = 2500;
/// How long they may take to be sent.
const FLOOD: Duration = Duration::from_secs(2);
/// Things that are slow to close of one user, of which Linux gives each 128, and such users.
const WATCHES: usize = 100;
const WATCHERS: u32 = 60;
/// Users that are neither root nor the daemon's own user.
const GREEDY: u32 = 65_534;
const OTHER: u32 = 65_533;

/// Starts a node that receives any descriptors that clients send.
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

/// Returns a socket whose close waits ten minutes, and its peer, which reads nothing.
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

/// Sends a request with a descriptor that is slow to close. Returns the peer that keeps it slow.
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
fn descriptors_that_close_slowly_delay_no_client() {
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
        // Before a hello and after it; closed at once and not at all.
        if number % 2 == 0 {
            let connection = Connection::connect(&socket).expect("the daemon listens");
            peers.push(send_laden(&connection, &tcp));
        } else {
            let client = Client::connect(&socket);
            peers.push(send_laden(&client.connection, &tcp));
        }
        if number % 10 == 0 {
            let requested = Instant::now();
            node.client();
            steady.status();
            assert!(
                requested.elapsed() < SOON,
                "others wait: {:?}",
                requested.elapsed()
            );
        }
    }
    // Each daemon of another test has one too.
    assert!(closing_threads() < before + LADEN / 2, "a thread for each");
    eprintln!("{LADEN} of them in {:?}", begun.elapsed());
    // Their senders are notified, and their descriptors are closed: the sockets' contents come to
    // an end.
    for mut peer in peers {
        peer.set_read_timeout(Some(SOON)).expect("a socket");
        std::io::copy(&mut peer, &mut std::io::sink()).expect("its other end is closed");
    }
    eventually("they are counted", || {
        steady.status().peers_refused["bad_message"] == LADEN as u64
    });
}

#[test]
fn descriptors_that_close_slowly_do_not_delay_shutdown() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = Node::new(dir.path(), "a", &["p0"], "");
    start_as_before_linux_6_16(&mut node);
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
    // The next request of a client with an unread reply is not read, so this one stays unread.
    let mut client = node.client();
    client.done(&Request::Subscribe);
    let peer = send_laden(&client.connection, &tcp);
    let begun = Instant::now();
    node.daemon.take().expect("runs").stop();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop((client, peer));
}

/// Runs `work` on a thread of user `uid`. Returns a receiver for its result.
fn as_user<T: Send + 'static>(uid: u32, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        // SAFETY: Without the C library's wrapper this call changes the calling thread alone, which
        // exits here.
        let changed =
            unsafe { nix::libc::syscall(nix::libc::SYS_setresuid, u32::MAX, uid, u32::MAX) };
        assert_eq!(changed, 0);
        // The receiver may be gone.
        let _ = done.send(work());
    });
    result
}

/// Returns descriptors that take milliseconds to close, even if signals arrive: as many of each
/// user as that user may have.
fn always_slow_to_close(dir: &Path) -> Vec<OwnedFd> {
    let watching = |uid| {
        let dir = dir.to_owned();
        as_user(uid, move || {
            let watch = || {
                let watch = Inotify::init(InitFlags::IN_CLOEXEC).ok()?;
                watch.add_watch(&dir, AddWatchFlags::IN_CREATE).ok()?;
                Some(OwnedFd::from(watch))
            };
            (0..WATCHES).map_while(|_| watch()).collect::<Vec<_>>()
        })
    };
    let all: Vec<_> = (0..WATCHERS).map(|at| watching(GREEDY - at)).collect();
    all.iter()
        .flat_map(|it| it.recv().expect("threads"))
        .collect()
}

/// Connects `count` times, and leaves a request with descriptors in each connection. The first
/// connections carry those of `slow`.
fn send_laden_and_go(socket: &Path, mut slow: Vec<OwnedFd>, count: usize) {
    let status = datagram::encode(&Request::Status).expect("fits");
    for _ in 0..count {
        let mut laden = slow.split_off(slow.len().saturating_sub(DESCRIPTORS_MAX));
        if laden.is_empty() {
            laden.push(io::pipe().expect("a pipe").0.into());
        }
        let laden_fds: Vec<_> = laden.iter().map(AsFd::as_fd).collect();
        let connection = Connection::connect(socket).expect("the daemon listens");
        // One that finds no place may be ended before this.
        let _ = connection.send(&status, &laden_fds);
    }
}

#[test]
fn slow_closes_of_one_user_keep_no_other_user_out() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: root is needed to act as another user");
        return;
    }
    raise_descriptor_limit();
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = Node::new(dir.path(), "a", &["p0"], "");
    let group = Group::from_gid(Gid::from_raw(0)).expect("a database");
    node.config.node.group = group.expect("root's").name;
    start_as_before_linux_6_16(&mut node);
    let open = Permissions::from_mode(0o755);
    fs::set_permissions(dir.path(), open).expect("ours");
    let socket = node.config.socket_path();
    let slow = always_slow_to_close(dir.path());
    let laden = socket.clone();
    let flood = as_user(GREEDY, move || send_laden_and_go(&laden, slow, FAR_OVER));
    // The flood never ends if connections are no longer accepted. Other users connect in that case
    // too.
    let all_sent = flood.recv_timeout(FLOOD).is_ok();
    let begun = Instant::now();
    let answers = [OTHER, 0].map(|uid| {
        let socket = socket.clone();
        as_user(uid, move || Client::connect(&socket).status().node)
    });
    let answers = answers.map(|answer| answer.recv_timeout(PATIENCE).is_ok());
    let took = begun.elapsed();
    assert_eq!(answers, [true; 2], "another user, and root");
    eprintln!("{FAR_OVER} sent: {all_sent}; both were greeted in {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
}
