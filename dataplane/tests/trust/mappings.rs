//! The daemon counts the mappings that applications take of those that it may have.

use std::fs;

use covalent_api::request::{PipeKind, Reply, Request};

use super::{
    client::{App, CAPACITY_BYTES, Client},
    node::{self, Node, eventually, pair_on_a_cable},
    turn,
};

/// Mappings of files whose names begin so that the kernel counts in the daemon's process.
fn mapped_of(node: &Node, name: &str) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/maps", node.pid())).expect("it lives");
    maps.matches(name).count() as u64
}

/// Mappings of shared memory that the kernel counts in the daemon's process.
fn mapped(node: &Node) -> u64 {
    mapped_of(node, "memfd:")
}

const OPEN_SESSION: Request = Request::OpenSession { lane: 0 };

/// Opens a session and does not say that it is mapped.
fn unmapped(node: &Node) -> Client {
    let mut client = node.client();
    let (reply, _fds) = client.ask(&OPEN_SESSION);
    assert!(matches!(reply, Reply::Session { .. }), "{reply:?}");
    client
}

#[test]
fn every_mapping_is_counted_until_it_is_there_no_more() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, _b) = pair_on_a_cable(dir.path());
    let (at_rest, nobody) = (mapped(&a), a.status());
    assert_eq!(nobody.mappings, 0);
    assert!(nobody.mappings_max > 1000);
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
    };
    let (reply, _fds) = app.client.ask(&open);
    assert!(matches!(reply, Reply::Pipe { .. }), "{reply:?}");
    check("a pipe handed over", 8);
    app.client.status();
    eventually("it is forgone", || a.status().mappings == 5);
    check("a pipe forgone", 5);
    drop(app);
    eventually("nobody is attached", || a.status().sessions == 0);
    check("nobody", 0);
}

/// The rings of a session cost nothing that is charged in bytes, so nobody has those of many made over one connection.
#[test]
fn one_connection_opens_one_session() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, _b) = pair_on_a_cable(dir.path());
    let at_rest = mapped(&a);
    let waiting = unmapped(&a);
    let mut forgone = unmapped(&a);
    // Asks for something else first.
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

/// Others give the daemon's workers so much to do that what is left to them waits.
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
        });
    }
    forgoing.refused(&Request::ClosePipe { pipe: 0 });
    // While it is charged to nobody.
    assert_eq!(mapped_of(&a, "memfd:session"), BUSY as u64);
    for app in &mut busy {
        assert!(app.client.receive().is_some());
    }
}
