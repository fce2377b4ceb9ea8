//! The daemon counts the mappings that applications take of those that it may have.

use std::fs;

use covalent_api::request::{PipeKind, Reply, Request};

use super::{
    client::{App, CAPACITY_BYTES, Client},
    node::{self, Node, eventually, pair_on_a_cable},
    turn,
};

/// Returns the number of mappings in the daemon's process of files whose names begin with `name`,
/// as the kernel counts them.
fn mapped_of(node: &Node, name: &str) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/maps", node.pid())).expect("it lives");
    maps.matches(name).count() as u64
}

/// Mappings of shared memory that the kernel counts in the daemon's process.
fn mapped(node: &Node) -> u64 {
    mapped_of(node, "memfd:")
}

const OPEN_SESSION: Request = Request::OpenSession { lane: 0 };

/// Opens a session and does not report it as mapped.
fn unmapped(node: &Node) -> Client {
    let mut client = node.client();
    let (reply, _fds) = client.call(&OPEN_SESSION);
    assert!(matches!(reply, Reply::Session { .. }), "{reply:?}");
    client
}

#[test]
fn every_mapping_is_counted_until_it_is_unmapped() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, _b) = pair_on_a_cable(dir.path());
    let (at_rest, idle_status) = (mapped(&a), a.status());
    assert_eq!(idle_status.mappings, 0);
    assert!(idle_status.mappings_max > 1000);
    let check = |what: &str, expected: u64| {
        assert_eq!(mapped(&a) - at_rest, expected, "{what}");
        assert_eq!(a.status().mappings, expected, "{what}");
    };
    let mut app = App::attach(&a.socket());
    check("a session", 1);
    let (first, _rx) = app.rx(None);
    let (_second, _tx) = app.tx("p0");
    check("two pipes", 7);
    app.register("bank", CAPACITY_BYTES);
    check("a region", 8);
    app.client.done(&Request::ClosePipe { pipe: first });
    check("a pipe closed", 5);
    // One that the application does not map is there until its next request.
    let open = Request::OpenPipe {
        kind: PipeKind::Rx,
        capacity_bytes: CAPACITY_BYTES,
        port: None,
        completions: None,
    };
    let (reply, _fds) = app.client.call(&open);
    assert!(matches!(reply, Reply::Pipe { .. }), "{reply:?}");
    check("a pipe handed over", 8);
    app.client.status();
    eventually("it is forgone", || a.status().mappings == 5);
    check("a pipe forgone", 5);
    drop(app);
    eventually("no application is attached", || a.status().sessions == 0);
    check("unprivileged", 0);
}

/// The rings of a session are not charged in bytes, so one connection cannot have those of many
/// sessions.
#[test]
fn one_connection_opens_one_session() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, _b) = pair_on_a_cable(dir.path());
    let at_rest = mapped(&a);
    let waiting = unmapped(&a);
    let mut forgone = unmapped(&a);
    // Sends another request first.
    forgone.refused(&Request::ClosePipe { pipe: 0 });
    let mut served = App::attach(&a.socket());
    served.rx(None);
    for mut client in [waiting, forgone, served.client] {
        let reason = client.refused(&OPEN_SESSION);
        assert!(reason.contains("one session"), "{reason}");
        assert!(client.receive().is_none(), "it is turned away");
    }
    eventually("nothing is left", || {
        let status = a.status();
        (status.sessions, status.mappings, mapped(&a)) == (0, 0, at_rest)
    });
    assert_eq!(a.status().peers_refused["bad_message"], 3);
}

/// Other clients keep the daemon's workers so busy that jobs left to them wait.
#[test]
fn a_session_that_is_forgone_is_not_there_any_more() {
    const BUSY: usize = 24;
    let _turn = turn::take();
    let dir = node::place();
    let (a, _b) = pair_on_a_cable(dir.path());
    let mut busy: Vec<App> = (0..BUSY).map(|_| App::attach(&a.socket())).collect();
    let mut forgoing = unmapped(&a);
    assert_eq!(mapped_of(&a, "memfd:session"), BUSY as u64 + 1);
    for app in &busy {
        app.client.send(&Request::OpenPipe {
            kind: PipeKind::Rx,
            capacity_bytes: CAPACITY_BYTES,
            port: None,
            completions: None,
        });
    }
    forgoing.refused(&Request::ClosePipe { pipe: 0 });
    // Gone already, while it is charged to no session.
    assert_eq!(mapped_of(&a, "memfd:session"), BUSY as u64);
    for app in &mut busy {
        assert!(app.client.receive().is_some());
    }
}
