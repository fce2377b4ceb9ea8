//! Doorbells that need not be rung.

use covalent_api::{request::Request, rule::Match};

use super::{client::App, node::pair_with, streams::numbered};

/// Pipes that a lane looks at without being asked: see `dataplane/src/lane/warm.rs`.
const WARM_MAX: usize = 8;

#[test]
fn a_lane_looks_by_itself_at_the_pipes_it_emptied_last_and_at_no_others() {
    let dir = tempfile::tempdir().expect("a directory");
    // A lane that slept would look at nothing.
    let (a, b) = pair_with(dir.path(), &["p0"], "[dataplane]\nidle = \"poll\"\n");
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::Any);
    let mut app = App::attach(&a.config.socket_path());
    let mut pipes: Vec<_> = (0..=WARM_MAX).map(|_| app.tx("p0")).collect();
    for (number, (pipe, tx)) in (0..).zip(&mut pipes) {
        app.send(*pipe, tx, &numbered(number, 64));
        assert_eq!(
            receiver.receive(rx_pipe, &mut rx, 1),
            [numbered(number, 64)]
        );
    }
    let (cold, warm) = pipes.split_first_mut().expect("nine of them");
    cold.1.send(&numbered(100, 64)).expect("room");
    assert!(
        cold.1.publish(),
        "a doorbell is wanted, for pipes that are cold"
    );
    for (number, (_, tx)) in (200..).zip(warm) {
        tx.send(&numbered(number, 64)).expect("room");
        tx.publish();
        // So the one that is cold, and was there before, was not looked at.
        assert_eq!(
            receiver.receive(rx_pipe, &mut rx, 1),
            [numbered(number, 64)]
        );
    }
    app.ring(cold.0);
    assert_eq!(receiver.receive(rx_pipe, &mut rx, 1), [numbered(100, 64)]);
    // Closing one that is warm leaves the others alone.
    let (pipe, tx) = pipes.pop().expect("nine of them");
    drop(tx);
    app.client.done(&Request::ClosePipe { pipe });
    let (_, tx) = pipes.last_mut().expect("eight of them");
    tx.send(&numbered(300, 64)).expect("room");
    tx.publish();
    assert_eq!(receiver.receive(rx_pipe, &mut rx, 1), [numbered(300, 64)]);
}
