//! An application that does not read what it is sent keeps no memory of it.

use std::fs;

use covalent_api::request::{PipeKind, Request};

use super::{
    client::App,
    node::{self, Node, eventually, pair_on_a_cable},
    turn,
};

/// Large: freeing it takes long.
const CAPACITY_BYTES: u64 = 8 << 20;
/// Sessions that come and go, with two events each: more than the socket holds, and fewer than the
/// socket and the daemon's queue hold together.
const FILLING: usize = 200;

/// Descriptors of the memory of pipes that the daemon has.
fn descriptors(node: &Node) -> usize {
    let fds = fs::read_dir(format!("/proc/{}/fd", node.pid())).expect("it lives");
    fds.flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter(|link| link.to_string_lossy().contains("memfd:pipe"))
        .count()
}

#[test]
fn a_refused_client_holds_no_memory_that_it_was_not_sent() {
    let _turn = turn::take();
    let dir = node::place();
    let (mut a, _b) = pair_on_a_cable(dir.path());
    let mut slow = App::attach(&a.socket());
    slow.client.done(&Request::Subscribe);
    let raise_events = || (0..FILLING).for_each(|_| drop(App::attach(&a.socket())));
    raise_events();
    slow.client.send(&Request::OpenPipe {
        kind: PipeKind::RxTx,
        capacity_bytes: CAPACITY_BYTES,
        port: Some("p0".to_owned()),
        completions: None,
    });
    // Two are kept to be sealed, and two wait behind the events.
    eventually("its pipe is created and cannot be reported", || {
        descriptors(&a) == 4
    });
    raise_events();
    // It has read neither the reason nor anything else, and it has not closed the connection.
    eventually("its pipe is removed", || descriptors(&a) == 0);
    eventually("its session is over", || a.status().sessions == 0);
    assert_eq!(a.status().mappings, 0);
    drop(slow);
    a.check_alive();
}
