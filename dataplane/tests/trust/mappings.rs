//! The daemon counts the mappings that applications take of those that it may have.

use std::fs;

use covalent_api::request::{PipeKind, Reply, Request};

use super::{
    client::{App, CAPACITY_BYTES},
    node::{self, Node, eventually, pair_on_a_cable},
    turn,
};

/// Mappings of shared memory that the kernel counts in the daemon's process.
fn mapped(node: &Node) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/maps", node.pid())).expect("it lives");
    maps.matches("memfd:").count() as u64
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
