//! Doorbells that need not be rung.

use covalent_api::{request::Request, rule::Match};

use super::{client::App, node::pair_with, streams::numbered};

/// Pipes that a lane polls without a doorbell: see `dataplane/src/lane/hot.rs`.
const HOT_SET_MAX: usize = 8;

#[test]
fn a_lane_polls_only_the_pipes_that_it_emptied_last() {
    let dir = tempfile::tempdir().expect("a directory");
    // A lane that slept would look at nothing.
    let (a, b) = pair_with(dir.path(), &["p0"], "[dataplane]\nidle = \"poll\"\n");
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::Any);
    let mut app = App::attach(&a.config.socket_path());
    let mut pipes: Vec<_> = (0..=HOT_SET_MAX).map(|_| app.tx("p0")).collect();
    for (number, (pipe, tx)) in (0..).zip(&mut pipes) {
        app.send(*pipe, tx, &numbered(number, 64));
        assert_eq!(
            receiver.receive(rx_pipe, &mut rx, 1),
            [numbered(number, 64)]
        );
    }
    let (cold, hot) = pipes.split_first_mut().expect("nine of them");
    cold.1.send(&numbered(100, 64)).expect("room");
    assert!(cold.1.publish(), "a doorbell is needed for cold pipes");
    for (number, (_, tx)) in (200..).zip(hot) {
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
    // Closing a pipe of the hot set leaves the others in it.
    let (pipe, tx) = pipes.pop().expect("nine of them");
    drop(tx);
    app.client.done(&Request::ClosePipe { pipe });
    let (_, tx) = pipes.last_mut().expect("eight of them");
    tx.send(&numbered(300, 64)).expect("room");
    tx.publish();
    assert_eq!(receiver.receive(rx_pipe, &mut rx, 1), [numbered(300, 64)]);
}
