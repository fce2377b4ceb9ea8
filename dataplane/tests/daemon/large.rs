//! Memory that takes long to allocate delays the client that requested it, and no other.

use std::time::{Duration, Instant};

use covalent_api::{
    event::EventKind,
    request::{PipeKind, Reply, Request, Rights},
};

use super::{
    client::{App, CAPACITY_BYTES, Client},
    node::{Node, eventually},
};

/// A slow size: it takes some hundred milliseconds to allocate.
const LARGE_BYTES: u64 = 256 << 20;
/// As large as nothing else in this process.
const ORPHANED_BYTES: u64 = 128 << 20;
/// Requests that are answered in that time at least.
const ANSWERED_MIN: u32 = 20;

fn open(capacity_bytes: u64) -> Request {
    Request::OpenPipe {
        kind: PipeKind::RxTx,
        capacity_bytes,
        port: Some("p0".to_owned()),
        completions: None,
    }
}

fn register(name: &str) -> Request {
    Request::RegisterRegion {
        name: name.to_owned(),
        size_bytes: LARGE_BYTES,
        rights: Rights::ALL,
        durable: false,
    }
}

/// The requests of another application in the meantime.
fn small_requests(app: &mut App) {
    app.client.status();
    let (reply, _) = app.client.call(&open(CAPACITY_BYTES / 16));
    let Reply::Pipe { pipe, .. } = reply else {
        panic!("{reply:?}")
    };
    app.client.done(&Request::Mapped);
    app.client.done(&Request::ClosePipe { pipe });
}

/// Sends `request` as `client` and has `other` make small requests until the reply arrives. Fails
/// unless many of them got a reply.
fn beside(what: &str, client: &mut Client, request: &Request, other: &mut App) -> Reply {
    client.send(request);
    let begin = Instant::now();
    let (mut answered, mut longest) = (0, Duration::ZERO);
    let arrived = |client: &Client| {
        let wait = client.connection.wait(Some(Duration::ZERO));
        wait.expect("poll works")
    };
    while !arrived(client) {
        let requested = Instant::now();
        small_requests(other);
        longest = longest.max(requested.elapsed());
        answered += 4;
    }
    let took = begin.elapsed();
    eprintln!(
        "{what} took {took:?}; meanwhile {answered} small requests were answered, four of them in \
         {longest:?} at most"
    );
    assert!(answered >= ANSWERED_MIN, "{what}: {answered} in {took:?}");
    client.receive().expect("the daemon answers").0
}

fn node(dir: &std::path::Path) -> Node {
    let more = "[dataplane]\nsession_memory_max_mib = 2048\n";
    Node::new(dir, "a", &["p0"], more).start()
}

#[test]
fn a_large_allocation_delays_no_other_client() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = node(dir.path());
    let socket = node.config.socket_path();
    let mut other = App::attach(&socket);
    let mut app = App::attach(&socket);
    let client = &mut app.client;
    let reply = beside("a pipe", client, &open(LARGE_BYTES), &mut other);
    assert!(matches!(reply, Reply::Pipe { .. }), "{reply:?}");
    client.done(&Request::Mapped);
    let reply = beside("a region", client, &register("bank"), &mut other);
    assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
    client.done(&Request::Mapped);
    client.done(&Request::ClosePipe { pipe: 0 });
}

/// How many mappings of this process are of so many bytes.
fn mappings_of(bytes: u64) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let spans = maps
        .lines()
        .filter_map(|line| line.split_once(' ')?.0.split_once('-'));
    let at = |address| u64::from_str_radix(address, 16).expect("an address");
    spans
        .filter(|&(first, end)| at(end) - at(first) == bytes)
        .count()
}

/// The daemon does not carry out a request of a client that is gone. The client's quota is given
/// back once its memory is free.
#[test]
fn a_client_that_dies_during_an_allocation_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = node(dir.path());
    let socket = node.config.socket_path();
    let mut subscriber = node.client();
    subscriber.done(&Request::Subscribe);
    let mut sessions = Vec::new();
    // It would be found if it were there.
    let mut app = App::attach(&socket);
    let (reply, _fds) = app.client.call(&open(ORPHANED_BYTES));
    assert!(matches!(reply, Reply::Pipe { .. }), "{reply:?}");
    assert_eq!(mappings_of(ORPHANED_BYTES), 2);
    sessions.push(app.session);
    drop(app);
    // The first client's pipe is in progress, and the second client's pipe waits for it. The third
    // client has sent everything and waits for nothing.
    for number in 0..3 {
        let app = App::attach(&socket);
        app.client.send(&open(ORPHANED_BYTES));
        if number == 2 {
            app.client.send(&Request::Mapped);
            app.client.send(&register("bank"));
        }
        sessions.push(app.session);
        drop(app);
    }
    while !sessions.is_empty() {
        let Some((Reply::Event(event), _)) = subscriber.receive() else {
            panic!("an event")
        };
        if let EventKind::Detached { session, pipes, .. } = event.kind {
            assert_eq!(pipes, 0, "no lane had one");
            sessions.retain(|&of| of != session);
        }
    }
    eventually("they are detached", || node.status().sessions == 0);
    assert_eq!(mappings_of(ORPHANED_BYTES), 0);
    // Their quota is free, and so is the name.
    let mut app = App::attach(&socket);
    app.register("bank", 64);
    let (reply, _) = app.client.call(&open(LARGE_BYTES));
    assert!(matches!(reply, Reply::Pipe { .. }), "{reply:?}");
}
