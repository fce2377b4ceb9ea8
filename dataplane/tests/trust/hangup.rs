//! A connection that closes in the middle of a request: the reply is in flight and finds no
//! receiver.

use covalent_api::{
    request::{PipeKind, Request, Rights},
    rule::Match,
};

use super::{
    client::{App, CAPACITY_BYTES, Client},
    holdings::Holdings,
    node::{self, Node, eventually, pair_on_a_cable},
    turn,
    witness::Witness,
};

/// Times that each request is left alone.
const TIMES: usize = 100;

/// Every request that a lane or the host thread has something to do for.
fn requests() -> Vec<Request> {
    vec![
        Request::OpenPipe {
            kind: PipeKind::Rx,
            capacity_bytes: CAPACITY_BYTES,
            port: None,
            completions: None,
        },
        Request::OpenPipe {
            kind: PipeKind::VerbSubmit,
            capacity_bytes: CAPACITY_BYTES,
            port: None,
            completions: None,
        },
        Request::RegisterRegion {
            name: "left".to_owned(),
            size_bytes: CAPACITY_BYTES,
            rights: Rights::ALL,
            durable: false,
        },
        Request::Bind {
            pipe: 0,
            matches: Match::EtherType { ethertype: 0x4321 },
            spread: None,
        },
        Request::Unbind {
            pipe: 0,
            matches: Match::Any,
        },
        Request::ClosePipe { pipe: 0 },
        Request::Status,
        Request::Subscribe,
    ]
}

fn leave_in_the_midst_of(node: &Node, request: &Request) {
    let mut app = App::attach(&node.socket());
    let (pipe, _rx) = app.rx(None);
    app.bind(pipe, Match::Any);
    app.client.send(request);
}

#[test]
fn a_connection_that_closes_in_the_midst_of_a_request_is_reclaimed() {
    let _turn = turn::take();
    let dir = node::place();
    let (mut a, _b) = pair_on_a_cable(dir.path());
    for request in &requests() {
        leave_in_the_midst_of(&a, request);
    }
    let at_rest = || eventually("no application is attached", || a.status().sessions == 0);
    at_rest();
    let witness = Witness::start(&a);
    let before = Holdings::of(a.pid());
    for request in &requests() {
        for _ in 0..TIMES {
            leave_in_the_midst_of(&a, request);
            // And before the session itself is there.
            Client::connect(&a.socket()).send(&Request::OpenSession { lane: 0 });
        }
    }
    at_rest();
    eventually("everything is given back", || {
        Holdings::of(a.pid()).is_no_more_than(before)
    });
    let status = a.status();
    assert!(
        (status.pipes.len(), status.regions.len()) == (0, 0),
        "{status:?}"
    );
    // Nothing is held without an owner: the same resources are available again.
    let mut app = App::attach(&a.socket());
    let (pipe, _rx) = app.rx(None);
    app.bind(pipe, Match::Any);
    app.bind(pipe, Match::EtherType { ethertype: 0x4321 });
    app.register("left", CAPACITY_BYTES);
    a.disable_port();
    let ends = witness.detached();
    let pipes: u32 = ends.iter().map(|end| end.pipes).sum();
    assert!(
        ends.len() >= requests().len() * TIMES,
        "{} ends",
        ends.len()
    );
    assert!(
        pipes as usize >= (requests().len() - 1) * TIMES,
        "{pipes} pipes"
    );
    assert!(ends.iter().all(|end| end.reason == "closed"), "{ends:?}");
    a.check_alive();
}
