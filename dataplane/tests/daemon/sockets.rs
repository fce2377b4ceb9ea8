//! Wrong peers on the socket.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    API_VERSION, MAX_DATAGRAM_BYTES, datagram,
    request::{Reply, Request},
};
use covalent_ipc::seqpacket::{Connection, Listener};

use super::{
    client::Client,
    node::{Node, PATIENCE, eventually},
};

/// Sends `bytes` as the first message. Returns the reason for which the daemon closes the
/// connection.
fn turned_away(node: &Node, bytes: &[u8]) -> String {
    let connection = Connection::connect(&node.config.socket_path()).expect("the daemon listens");
    connection.send(bytes, &[]).expect("the daemon receives");
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).expect("a reason");
    let Ok(Reply::Refused { reason, .. }) = datagram::decode(&buffer[..length]) else {
        panic!("no refusal")
    };
    assert!(
        connection.recv(&mut buffer).is_err(),
        "the connection is closed"
    );
    reason
}

#[test]
fn invalid_peers_get_a_reason_and_are_closed_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let version = datagram::encode(&Request::Hello {
        version: 99,
        oldest: None,
        program: "old".into(),
    })
    .expect("fits");
    let reason = turned_away(&node, &version);
    assert!(
        reason.contains("99") && reason.contains(&API_VERSION.to_string()),
        "{reason}"
    );
    for garbage in [
        &b"not json"[..],
        b"{}",
        b"{\"request\":\"unheard_of\"}",
        &[0xff; 5000],
        b"\0",
    ] {
        turned_away(&node, garbage);
    }
    let reason = turned_away(&node, &vec![b' '; MAX_DATAGRAM_BYTES + 1]);
    assert!(reason.contains("65536"), "{reason}");
    let early = datagram::encode(&Request::Status).expect("fits");
    assert!(turned_away(&node, &early).contains("hello"));
    let refused = node.status().peers_refused;
    assert_eq!(
        (refused["version"], refused["bad_message"]),
        (1, 7),
        "{refused:?}"
    );
}

#[test]
fn a_client_that_misbehaves_later_is_closed_and_others_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut steady = node.client();
    let mut bad = node.client();
    bad.connection
        .send(b"garbage", &[])
        .expect("the daemon receives");
    assert!(matches!(bad.receive(), Some((Reply::Refused { .. }, _))));
    assert!(bad.receive().is_none());
    // The daemon runs in this process, and so do other tests: only this file is this one's.
    let sent = dir.path().join("sent");
    fs::write(&sent, "").expect("own directory");
    let open = || {
        let all = fs::read_dir("/proc/self/fd").expect("procfs");
        all.filter(|entry| {
            let link = entry.as_ref().map(|entry| fs::read_link(entry.path()));
            link.is_ok_and(|link| link.is_ok_and(|link| link == sent))
        })
        .count()
    };
    for _ in 0..50 {
        // Descriptors that come unasked are closed.
        let client = node.client();
        let file = fs::File::open(&sent).expect("a file");
        assert!(open() > 0, "open descriptors are found");
        let bytes = datagram::encode(&Request::Status).expect("fits");
        // Where the kernel can, it refuses them already.
        let _ = client
            .connection
            .send(&bytes, &[std::os::fd::AsFd::as_fd(&file)]);
    }
    steady.status();
    eventually("descriptors are closed", || open() == 0);
}

/// Runs `what` as user and group 65534, with the supplementary groups `groups`.
fn as_unprivileged<T: Send + 'static>(
    groups: &[u32],
    what: impl FnOnce() -> T + Send + 'static,
) -> T {
    let raw = |&group: &u32| rustix::process::Gid::from_raw(group);
    let groups: Vec<_> = groups.iter().map(raw).collect();
    let thread = thread::spawn(move || {
        // Of this thread alone; they end with it.
        rustix::thread::set_thread_groups(&groups).expect("root may");
        rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(65_534)).expect("root may");
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).expect("root may");
        what()
    });
    thread.join().expect("it ends well")
}

#[test]
fn only_the_group_can_connect_to_the_socket() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: becoming another user needs root");
        return;
    }
    let group = nix::unistd::Group::from_name("daemon").expect("a group file");
    let group = group.expect("every system has it");
    let gid = group.gid.as_raw();
    for (name, mode) in [("", 0o600), (group.name.as_str(), 0o660)] {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        let mut node = Node::new(dir.path(), "a", &["p0"], "");
        node.config.node.group = name.to_owned();
        let node = node.start();
        let socket = node.config.socket_path();
        let found = fs::metadata(&socket).expect("a socket");
        assert_eq!(found.permissions().mode() & 0o777, mode);
        assert!(name.is_empty() || found.gid() == gid);
        let connect = move |socket: std::path::PathBuf| {
            move || Connection::connect(&socket).map_err(|error| error.kind())
        };
        let untrusted_user = as_unprivileged(&[7], connect(socket.clone()));
        assert_eq!(
            untrusted_user.expect_err("shut out"),
            std::io::ErrorKind::PermissionDenied
        );
        // By a group that the process has, which no database knows of this user.
        let member = as_unprivileged(&[7, gid], move || {
            Connection::connect(&socket).map(|_| Client::connect(&socket).status().node)
        });
        assert_eq!(member.is_ok(), !name.is_empty(), "{member:?}");
    }
}

#[test]
fn a_refusal_names_the_users_that_may() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: becoming another user needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let socket = node.config.socket_path();
    // The socket is open to all users. The daemon checks their credentials all the same.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).expect("own socket");
    let reason = std::thread::spawn(move || {
        // Of this thread alone; it ends with it.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).expect("root may");
        let connection = Connection::connect(&socket).expect("every user may connect");
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        let (length, _) = connection.recv(&mut buffer).expect("a reason");
        match datagram::decode(&buffer[..length]) {
            Ok(Reply::Refused { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    });
    let reason = reason
        .join()
        .expect("the other user's thread does not panic");
    assert!(
        reason.contains("65534") && reason.contains("node.group"),
        "{reason}"
    );
    assert_eq!(node.status().peers_refused["credentials"], 1);
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_with_a_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut slow = node.client();
    slow.done(&Request::Subscribe);
    let mut quick = node.client();
    quick.done(&Request::Subscribe);
    let mut sequences = Vec::new();
    for _ in 0..1500 {
        let mut client = node.client();
        client.call(&Request::OpenSession { lane: 0 });
        client.done(&Request::Mapped);
        while quick
            .connection
            .wait(Some(Duration::ZERO))
            .expect("poll works")
        {
            match quick.receive() {
                Some((Reply::Event(event), _)) => sequences.push(event.sequence),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(sequences.len() > 2000, "{} events arrived", sequences.len());
    assert!(
        sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "a reading client misses no event"
    );
    let mut last = None;
    while let Some((reply, _)) = slow.receive() {
        last = Some(reply);
    }
    let Some(Reply::Refused { reason, .. }) = last else {
        panic!("the slow client receives the reason: {last:?}")
    };
    assert!(reason.contains("subscribe again"), "{reason}");
}

#[test]
fn a_second_daemon_is_refused_and_the_socket_goes_with_the_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = Node::new(dir.path(), "a", &["p0"], "").start();
    let guid = node.guid();
    let socket = node.config.socket_path();
    let mut second = node.config.clone();
    let error = covalent_dataplane::Daemon::start(second.clone())
        .expect_err("in use")
        .to_string();
    let holder = format!("another daemon, process {}", std::process::id());
    assert!(
        error.contains("state") && error.contains(&holder),
        "{error}"
    );
    second.node.state_dir = dir.path().join("other-state");
    let error = covalent_dataplane::Daemon::start(second)
        .expect_err("in use")
        .to_string();
    let holder = format!(
        "another daemon answers there, process {}",
        std::process::id()
    );
    assert!(error.contains(&holder), "{error}");
    Client::connect(&socket);
    node.daemon.take().expect("runs").stop();
    assert!(!socket.exists());
    let restarted = node.start();
    assert_eq!(restarted.guid(), guid, "the identity is kept");
}

#[test]
fn a_daemon_waits_briefly_for_locks_of_a_killed_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "");
    let (state, socket) = (
        node.config.node.state_dir.clone(),
        node.config.socket_path(),
    );
    for at in [&state, &node.config.node.runtime_dir] {
        fs::create_dir_all(at).expect("room on the disk");
    }
    let lock = fs::File::create(state.join("lock")).expect("a file");
    lock.try_lock().expect("no process holds it");
    let listener = Listener::bind(&socket).expect("a socket");
    let ending = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        drop(lock);
        thread::sleep(Duration::from_millis(200));
        drop(listener);
    });
    let daemon = covalent_dataplane::Daemon::start(node.config.clone()).expect("it has waited");
    ending.join().expect("no panic");
    Client::connect(&socket);
    daemon.stop();
}

#[test]
fn a_silent_client_is_closed_with_a_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut idle = node.client();
    let begun = Instant::now();
    let silent = Connection::connect(&node.config.socket_path()).expect("the daemon listens");
    assert!(
        silent.wait(Some(PATIENCE)).expect("poll works"),
        "the daemon notices the silence"
    );
    assert!(begun.elapsed() > Duration::from_millis(1500));
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = silent.recv(&mut buffer).expect("a reason");
    let Ok(Reply::Refused { reason, .. }) = datagram::decode(&buffer[..length]) else {
        panic!("no refusal")
    };
    assert!(
        reason.contains("`hello`") && reason.contains("2s"),
        "{reason}"
    );
    assert!(
        silent.recv(&mut buffer).is_err(),
        "the connection is closed"
    );
    // A client that has sent its hello may be silent for any time.
    assert_eq!(idle.status().peers_refused["no_hello"], 1);
}

#[test]
fn one_user_takes_no_slots_from_others() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: becoming another user needs root");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
    let mut node = Node::new(dir.path(), "a", &["p0"], "");
    // This process's own group, so that other users in it are admitted.
    let group = nix::unistd::Group::from_gid(nix::unistd::getegid());
    node.config.node.group = group.expect("a group file").expect("a group").name;
    let node = node.start();
    let socket = node.config.socket_path();
    let (held, reason) = std::thread::spawn(move || {
        // Of this thread alone; it ends with it.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).expect("root may");
        let held: Vec<Client> = (0..64).map(|_| Client::connect(&socket)).collect();
        let late = Connection::connect(&socket).expect("every user may connect");
        assert!(
            late.wait(Some(PATIENCE)).expect("poll works"),
            "one connection too many is turned away"
        );
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        let (length, _) = late.recv(&mut buffer).expect("a reason");
        match datagram::decode(&buffer[..length]) {
            Ok(Reply::Refused { reason, .. }) => (held, reason),
            other => panic!("{other:?}"),
        }
    })
    .join()
    .expect("the other user ends well");
    assert!(reason.contains("user 65534 has 64 connections"), "{reason}");
    let many: Vec<Client> = (0..70).map(|_| node.client()).collect();
    assert_eq!(node.status().peers_refused["too_many"], 1);
    drop((held, many));
}
