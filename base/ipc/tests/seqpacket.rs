//! The socket: credentials, descriptors, truncation, stale names.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    thread,
    time::Duration,
};

use covalent_ipc::seqpacket::{Connection, DESCRIPTORS_MAX, Listener, SeqpacketError};
use rustix::io::FdFlags;
use tempfile::tempdir;

/// How many descriptors of this process lead to `file`.
fn copies_open(file: &OwnedFd) -> usize {
    let wanted = rustix::fs::fstat(file).unwrap();
    fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::metadata(entry.ok()?.path()).ok())
        .filter(|found| (found.dev(), found.ino()) == (wanted.st_dev, wanted.st_ino))
        .count()
}

fn some_fd() -> OwnedFd {
    tempfile::tempfile().unwrap().into()
}

#[test]
fn datagrams_keep_their_bounds_and_descriptors_arrive() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = Listener::bind(&path).unwrap();
    assert_eq!(listener.path(), path);
    let client = Connection::connect(&path).unwrap();
    let server = listener.accept().unwrap();

    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"beside").unwrap();
    client.send(b"one", &[]).unwrap();
    client.send(b"two", &[file.as_fd(), file.as_fd()]).unwrap();
    let mut buffer = [0; 16];
    let (len, fds) = server.recv(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], fds.len()), (&b"one"[..], 0));
    let (len, fds) = server.recv(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], fds.len()), (&b"two"[..], 2));
    for fd in fds {
        assert!(
            rustix::io::fcntl_getfd(&fd)
                .unwrap()
                .contains(FdFlags::CLOEXEC)
        );
        let mut bytes = [0; 6];
        assert_eq!(rustix::io::pread(&fd, &mut bytes, 0).unwrap(), 6);
        assert_eq!(&bytes, b"beside");
    }
}

/// The kernel first reports that the other end did not read all data.
#[test]
fn the_last_messages_of_an_end_with_unread_data_are_received() {
    type Receive = fn(&Connection, &mut [u8]) -> Result<usize, SeqpacketError>;
    let with_descriptors: Receive = |end, buffer| end.recv(buffer).map(|(length, _)| length);
    for receive in [with_descriptors, Connection::recv_bytes] {
        let (one, other) = Connection::pair().unwrap();
        other.send(b"first", &[]).unwrap();
        other.send(b"last", &[]).unwrap();
        one.send(b"unread", &[]).unwrap();
        drop(other);
        let mut buffer = [0; 16];
        assert_eq!(receive(&one, &mut buffer).unwrap(), 5);
        assert_eq!(receive(&one, &mut buffer).unwrap(), 4);
        let end = receive(&one, &mut buffer).unwrap_err();
        assert!(matches!(end, SeqpacketError::Closed), "{end}");
    }
}

#[test]
fn a_socket_that_another_made_is_taken_over_and_keeps_its_name() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    let maker = Listener::bind(&path).unwrap();
    let copy = || maker.as_fd().try_clone_to_owned().unwrap();
    let client = Connection::connect(&path).unwrap();
    let taken = Listener::adopt(copy()).unwrap();
    assert_eq!(taken.path(), path);
    client.send(b"waited", &[]).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(taken.accept().unwrap().recv(&mut buffer).unwrap().0, 6);
    drop(taken);
    assert!(path.exists());
    // A new connection waits again.
    Connection::connect(&path).unwrap();
    drop(Listener::adopt(copy()).unwrap().accept().unwrap());

    let (no_listener, _other) = Connection::pair().unwrap();
    let no_listener = no_listener.as_fd().try_clone_to_owned().unwrap();
    let error = Listener::adopt(no_listener).unwrap_err();
    assert!(error.to_string().contains("does not listen"), "{error}");
    let stream = std::os::unix::net::UnixListener::bind(directory.path().join("stream")).unwrap();
    let error = Listener::adopt(stream.into()).unwrap_err();
    assert!(error.to_string().contains("SOCK_SEQPACKET"), "{error}");
}

#[test]
fn the_kernel_reports_the_identity_of_the_peer() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = Listener::bind(&path).unwrap();
    let client = Connection::connect(&path).unwrap();
    let server = listener.accept().unwrap();
    for connection in [client, server] {
        let credentials = connection.peer_credentials().unwrap();
        assert_eq!(credentials.pid, std::process::id() as i32);
        assert_eq!(credentials.uid, rustix::process::getuid().as_raw());
        assert_eq!(credentials.gid, rustix::process::getgid().as_raw());
    }
}

#[test]
fn a_datagram_that_does_not_fit_is_an_error_and_leaks_nothing() {
    let (one, other) = Connection::pair().unwrap();
    let mut buffer = [0; 4];
    let file = some_fd();
    one.send(b"too long", &[file.as_fd()]).unwrap();
    assert!(matches!(
        other.recv(&mut buffer),
        Err(SeqpacketError::Truncated { max: 4 })
    ));
    one.send(b"fits", &[]).unwrap();
    assert_eq!(
        other.recv(&mut buffer).unwrap().0,
        4,
        "the next datagram is whole"
    );
    assert_eq!(copies_open(&file), 1);
}

#[test]
fn too_many_descriptors_are_refused_at_both_ends_and_closed() {
    let (one, other) = Connection::pair().unwrap();
    let file = some_fd();
    let many = vec![file.as_fd(); DESCRIPTORS_MAX + 1];
    assert!(matches!(
        one.send(b"x", &many),
        Err(SeqpacketError::TooManyDescriptors { found: 17 })
    ));
    one.send(b"x", &many[1..]).unwrap();
    let mut buffer = [0; 4];
    assert_eq!(other.recv(&mut buffer).unwrap().1.len(), DESCRIPTORS_MAX);

    // A peer that does not keep the limit.
    let most = vec![file.as_fd(); 253];
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&most)));
    rustix::net::sendmsg(
        &one,
        &[io::IoSlice::new(b"x")],
        &mut ancillary,
        rustix::net::SendFlags::empty(),
    )
    .unwrap();
    assert!(matches!(
        other.recv(&mut buffer),
        Err(SeqpacketError::TooManyDescriptors { found: 253 })
    ));
    assert_eq!(copies_open(&file), 1);
}

#[test]
fn the_end_of_a_connection_is_reported() {
    let (one, other) = Connection::pair().unwrap();
    one.send(b"last", &[]).unwrap();
    drop(one);
    let mut buffer = [0; 4];
    assert_eq!(other.recv(&mut buffer).unwrap().0, 4);
    assert!(matches!(
        other.recv(&mut buffer),
        Err(SeqpacketError::Closed)
    ));
    assert!(other.wait(Some(Duration::ZERO)).unwrap());
    assert!(matches!(other.send(b"x", &[]), Err(SeqpacketError::Closed)));
}

#[test]
fn a_non_blocking_connection_does_not_block() {
    let (one, other) = Connection::pair().unwrap();
    other.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4];
    assert!(matches!(
        other.recv(&mut buffer),
        Err(SeqpacketError::WouldBlock)
    ));
    assert!(!other.wait(Some(Duration::from_millis(1))).unwrap());
    for attempt in 0.. {
        assert!(attempt < 100_000, "the socket never fills");
        match other.send(&[0; 1000], &[]) {
            Ok(()) => {}
            Err(SeqpacketError::WouldBlock) => break,
            Err(error) => panic!("{error}"),
        }
    }
    drop(one);
}

#[test]
fn nothing_empty_is_sent() {
    let (one, _other) = Connection::pair().unwrap();
    assert!(matches!(one.send(b"", &[]), Err(SeqpacketError::Empty)));
}

#[test]
fn a_stale_name_is_replaced_and_a_live_one_is_not() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    // A socket file whose listener exited without unlinking it, as after kill -9.
    let kept = directory.path().join("kept");
    let listener = Listener::bind(&path).unwrap();
    fs::rename(&path, &kept).unwrap();
    drop(listener);
    fs::rename(&kept, &path).unwrap();
    assert_eq!(
        Connection::connect(&path).unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused
    );

    let listener = Listener::bind(&path).unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(
        error
            .to_string()
            .contains("another process listens there already"),
        "{error}"
    );
    assert!(
        Connection::connect(&path).is_ok(),
        "the live listener was left alone"
    );

    drop(listener);
    assert!(!path.exists(), "the name goes with its listener");
    assert_eq!(
        Connection::connect(&path).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn a_listener_with_a_full_backlog_is_alive() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    let _listener = Listener::bind(&path).unwrap();
    let mut waiting = Vec::new();
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    for attempt in 0.. {
        assert!(attempt < 10_000, "the backlog never fills");
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        if rustix::net::connect(&socket, &address).is_err() {
            break;
        }
        waiting.push(socket);
    }
    assert_eq!(
        Listener::bind(&path).unwrap_err().kind(),
        io::ErrorKind::AddrInUse
    );
}

#[test]
fn a_path_that_is_not_a_socket_is_left_alone() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    fs::write(&path, "precious").unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert!(
        error.to_string().contains("a file that is not a socket"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_successor_s_name_is_not_removed() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    let first = Listener::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let second = Listener::bind(&path).unwrap();
    drop(first);
    assert!(Connection::connect(&path).is_ok());
    drop(second);
    assert!(!path.exists());
}

#[test]
fn of_two_that_start_at_once_one_wins() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    for _ in 0..50 {
        // Left behind by a killed process.
        let stale = Listener::bind(&path).unwrap();
        let kept = directory.path().join("kept");
        fs::rename(&path, &kept).unwrap();
        drop(stale);
        fs::rename(&kept, &path).unwrap();
        let listeners: Vec<_> = thread::scope(|scope| {
            let starts: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| Listener::bind(&path)))
                .collect();
            starts
                .into_iter()
                .map(|start| start.join().unwrap())
                .collect()
        });
        assert_eq!(
            listeners.iter().filter(|listener| listener.is_ok()).count(),
            1
        );
        assert!(Connection::connect(&path).is_ok());
    }
}

#[test]
fn a_lock_on_the_directory_delays_no_process() {
    let directory = tempdir().unwrap();
    let held = fs::File::open(directory.path()).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let path = directory.path().join("socket");
    let _listener = Listener::bind(&path).unwrap();
    let names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["socket"], "nothing else is left");
}

#[test]
fn a_held_lock_on_the_name_is_reported_without_waiting() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    let lock = fs::File::create(directory.path().join("socket.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains("socket.lock"), "{error}");
    drop(lock);
    Listener::bind(&path).unwrap();
}

#[test]
fn descriptors_are_refused_by_the_kernel_where_it_can() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = Listener::bind(&path).unwrap();
    if !listener.refuse_descriptors().unwrap() {
        eprintln!("skipped: SO_PASSRIGHTS needs Linux 6.16");
        return;
    }
    let client = Connection::connect(&path).unwrap();
    // Also before the connection is accepted.
    assert!(client.send(b"one", &[some_fd().as_fd()]).is_err());
    let server = listener.accept().unwrap();
    assert!(client.send(b"two", &[some_fd().as_fd()]).is_err());
    client.send(b"three", &[]).unwrap();
    let mut buffer = [0; 16];
    let (len, fds) = server.recv(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], fds.len()), (&b"three"[..], 0));
    // The other way they pass.
    server.send(b"four", &[some_fd().as_fd()]).unwrap();
    let (_, fds) = client.recv(&mut buffer).unwrap();
    assert_eq!(fds.len(), 1);
}

/// A connection whose server end accepts descriptors, as before Linux 6.16.
fn old_pair() -> (Connection, Connection) {
    Connection::pair().unwrap()
}

#[test]
fn a_datagram_with_descriptors_stays_unread() {
    let (client, server) = old_pair();
    server.set_nonblocking(true).unwrap();
    let mut buffer = [0; 16];
    let would_block = server.recv_bytes(&mut buffer);
    assert!(matches!(would_block, Err(SeqpacketError::WouldBlock)));
    client.send(b"plain", &[]).unwrap();
    client.send(b"longer than the buffer", &[]).unwrap();
    let (read, write) = std::io::pipe().unwrap();
    client.send(b"laden", &[write.as_fd()]).unwrap();
    drop(write);
    assert_eq!(server.recv_bytes(&mut buffer).unwrap(), 5);
    let cut = server.recv_bytes(&mut buffer);
    assert!(matches!(cut, Err(SeqpacketError::Truncated { max: 16 })));
    for _ in 0..3 {
        let laden = server.recv_bytes(&mut buffer);
        assert!(matches!(laden, Err(SeqpacketError::Descriptors)));
    }
    // It was neither received nor closed.
    assert!(server.wait(Some(Duration::ZERO)).unwrap());
    rustix::io::ioctl_fionbio(&read, true).unwrap();
    assert_eq!(
        rustix::io::read(&read, &mut [0; 1]),
        Err(rustix::io::Errno::AGAIN),
        "its descriptor is open"
    );
    assert!(!server.hang_up(), "descriptors are left");
    drop(server);
    assert_eq!(rustix::io::read(&read, &mut [0; 1]), Ok(0), "it is closed");
}

#[test]
fn hanging_up_leaves_nothing_but_descriptors() {
    // Nothing was sent. The client is connected, then it is gone.
    let (client, server) = old_pair();
    assert!(server.hang_up());
    assert!(client.send(b"late", &[]).is_err(), "nothing more arrives");
    let (client, server) = old_pair();
    drop(client);
    assert!(server.hang_up());
    // Datagrams, also empty ones and such as come with a reset connection.
    let (client, server) = old_pair();
    server.send(b"never read", &[]).unwrap();
    client.send(b"a request", &[]).unwrap();
    for _ in 0..3 {
        rustix::net::send(&client, b"", rustix::net::SendFlags::empty()).unwrap();
    }
    client.send(b"another", &[]).unwrap();
    drop(client);
    assert!(server.hang_up());
    // Descriptors behind an empty datagram.
    let (client, server) = old_pair();
    rustix::net::send(&client, b"", rustix::net::SendFlags::empty()).unwrap();
    client.send(b"laden", &[some_fd().as_fd()]).unwrap();
    assert!(!server.hang_up());
    // More than are taken out.
    let (client, server) = old_pair();
    (0..100).for_each(|_| client.send(b"x", &[]).unwrap());
    assert!(!server.hang_up());
    // Data sent before `hang_up` can still be read after it.
    let (client, server) = old_pair();
    server.send(b"the reason", &[]).unwrap();
    assert!(server.hang_up());
    let mut buffer = [0; 16];
    assert_eq!(client.recv(&mut buffer).unwrap().0, 10);
    assert!(matches!(
        client.recv(&mut buffer),
        Err(SeqpacketError::Closed)
    ));
}

#[test]
fn the_groups_of_a_peer_are_those_at_connect_time() {
    let (_client, server) = old_pair();
    let own: Vec<u32> = nix::unistd::getgroups()
        .unwrap()
        .into_iter()
        .map(nix::unistd::Gid::as_raw)
        .collect();
    assert_eq!(server.peer_groups().unwrap(), own);
}
