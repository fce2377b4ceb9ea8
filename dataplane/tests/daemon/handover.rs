//! Memory is handed over, mapped, sealed, and only then served.

use std::os::fd::OwnedFd;

use covalent_api::{
    request::{PipeKind, Reply, Request, Rights},
    rule::Match,
};
use covalent_pipe::{Direction, PipeMemory, app::TxPipe};
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate};

use super::{
    client::{App, CAPACITY_BYTES},
    node::{Node, pair},
    streams::numbered,
};

fn open(app: &mut App, kind: PipeKind) -> (u32, [OwnedFd; 2]) {
    let (reply, fds) = app.client.call(&Request::OpenPipe {
        kind,
        capacity_bytes: CAPACITY_BYTES,
        port: Some("p0".to_owned()),
        completions: None,
    });
    let Reply::Pipe { pipe, .. } = reply else {
        panic!("{reply:?}")
    };
    (pipe, fds.try_into().expect("two descriptors"))
}

fn can_make_a_hole(memory: &OwnedFd) -> bool {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(memory, hole, 4096, 4096).is_ok()
}

/// Punching a hole into a large file takes the kernel many milliseconds. A thread that touches a
/// page of it meanwhile waits: here, the lane.
#[test]
fn no_client_makes_holes_in_served_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::Any);
    let mut app = App::attach(&a.config.socket_path());
    let (pipe, fds) = open(&mut app, PipeKind::Tx);
    let kept = fds
        .each_ref()
        .map(|fd| fd.try_clone().expect("a descriptor"));
    // Mapping it brings all its pages in, so the holes come after that.
    let memory = PipeMemory::open(fds, Direction::Tx, CAPACITY_BYTES).expect("pipe memory");
    assert!(kept.iter().all(can_make_a_hole), "no lane serves it yet");
    let mut tx = TxPipe::new(memory).expect("a TX pipe");
    app.client.done(&Request::Mapped);
    assert!(!kept.iter().any(can_make_a_hole));
    // The holes of before are filled: the lane never waits for a page.
    for fd in &kept {
        let stat = fstat(fd).expect("a memfd");
        assert!(stat.st_blocks * 512 >= stat.st_size, "a page is missing");
    }
    // The mapping is as good as before.
    app.send(pipe, &mut tx, &numbered(1, 100));
    assert_eq!(receiver.receive(rx_pipe, &mut rx, 1), [numbered(1, 100)]);

    let (reply, fds) = app.client.call(&Request::RegisterRegion {
        name: "bank".to_owned(),
        size_bytes: CAPACITY_BYTES,
        rights: Rights::ALL,
        durable: false,
    });
    assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
    app.client.done(&Request::Mapped);
    assert!(!can_make_a_hole(&fds[0]));
}

/// The rings of a session are small. A lane that meets a hole in them still waits for a page, and
/// for the process that punches the hole.
#[test]
fn no_client_makes_holes_in_the_rings_of_a_session() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut client = node.client();
    let open = Request::OpenSession { lane: 0 };
    let (reply, fds) = client.call(&open);
    assert!(matches!(reply, Reply::Session { .. }), "{reply:?}");
    assert!(can_make_a_hole(&fds[0]), "no lane looks at it yet");
    client.done(&Request::Mapped);
    assert!(!can_make_a_hole(&fds[0]));
    assert!(ftruncate(&fds[0], 4096).is_err());
    let stat = fstat(&fds[0]).expect("a memfd");
    assert!(stat.st_blocks * 512 >= stat.st_size, "a page is missing");
    assert_eq!(node.status().sessions, 1);

    // A client that does not map the memory has no session.
    let mut client = node.client();
    let (reply, fds) = client.call(&open);
    assert!(matches!(reply, Reply::Session { .. }), "{reply:?}");
    let reason = client.refused(&Request::ClosePipe { pipe: 0 });
    for part in ["connect again", "open_session", "send `mapped`"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(client.refused(&Request::Mapped).contains("open a session"));
    drop(fds);
    assert_eq!(node.status().sessions, 1);
}

#[test]
fn unmapped_memory_is_not_served_and_closed_by_the_next_request() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut app = App::attach(&node.config.socket_path());
    assert!(
        app.client
            .refused(&Request::Mapped)
            .contains("a pipe or register")
    );
    let (pipe, fds) = open(&mut app, PipeKind::Rx);
    assert!(node.status().pipes.is_empty());
    let reason = app.client.refused(&Request::Bind {
        pipe,
        matches: Match::Any,
        spread: None,
    });
    assert!(reason.contains("no pipe"), "{reason}");
    assert!(
        app.client
            .refused(&Request::Mapped)
            .contains("a pipe or register")
    );
    // A client that seals the memory against sealing has no pipe either.
    let (_, sealed_early) = open(&mut app, PipeKind::Tx);
    fcntl_add_seals(&sealed_early[0], SealFlags::SEAL).expect("no seal prevents it so far");
    assert!(app.client.refused(&Request::Mapped).contains("F_ADD_SEALS"));
    assert!(app.client.status().pipes.is_empty());
    drop((fds, sealed_early));
    // Its number and name are free.
    let (reopened, _rx) = app.rx(None);
    assert_eq!(reopened, pipe);
    app.register("bank", 64);
}
