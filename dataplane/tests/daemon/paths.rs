//! Applications that wait for a path to come or go.

use std::time::Duration;

use covalent_api::request::Request;
use covalent_protocol::verb::watch::Watch;

use super::{
    client::{App, Ended, Verbs},
    node::{Node, eventually, pair, pair_with},
};

fn watch(verbs: &mut Verbs, user_data: u64, target: u64, known_up: bool) {
    let mut message = [0; Watch::BYTES];
    let watch = Watch {
        user_data,
        target,
        known_up,
    };
    watch.encode(&mut message).expect("room for a watch");
    assert!(verbs.post_raw(&message));
}

fn path(up: bool) -> Ended {
    Ended::Other(format!("Path {{ up: {up} }}"))
}

fn set_port(node: &Node, port: &str, enabled: bool) {
    node.client().done(&Request::SetPort {
        port: port.to_owned(),
        enabled,
    });
}

#[test]
fn a_watch_reports_unknown_state_at_once_and_later_changes_by_a_wake_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    watch(&mut verbs, 1, b.guid(), false);
    assert_eq!(verbs.wait(), [(1, path(true))]);
    watch(&mut verbs, 2, 0xdead, true);
    assert_eq!(verbs.wait(), [(2, path(false))], "never met");
    for target in [0, a.guid()] {
        watch(&mut verbs, 3, target, false);
        assert_eq!(verbs.wait(), [(3, path(true))], "this node");
    }
    watch(&mut verbs, 4, b.guid(), true);
    watch(&mut verbs, 5, 0, true);
    verbs.app.sleep(Duration::from_millis(50));
    assert_eq!(verbs.poll(), []);
    set_port(&a, "p0", false);
    assert_eq!(verbs.wait(), [(4, path(false))]);
    watch(&mut verbs, 6, b.guid(), false);
    set_port(&a, "p0", true);
    assert_eq!(verbs.wait(), [(6, path(true))]);
    let status = a.status().verbs;
    assert_eq!(
        status.submitted - status.completed,
        1,
        "the one on the own node waits for ever"
    );
}

#[test]
fn another_path_keeps_a_node_reached() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0", "p1"]);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    watch(&mut verbs, 1, b.guid(), true);
    for port in ["p0", "p1"] {
        set_port(&a, port, false);
        let mut client = a.client();
        eventually("the cut is seen", || {
            client.status().links.iter().any(|link| link.state != "up")
        });
        set_port(&a, port, true);
        eventually("the links are up", || {
            client.status().links.iter().all(|link| link.state == "up")
        });
    }
    assert_eq!(verbs.poll(), []);
}

/// The other daemon stops. Its cable reports this, and also the start of another daemon in its
/// place.
#[test]
fn a_stopped_daemon_is_reported_lost_and_its_return_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, mut b) = pair_with(dir.path(), &["p0"], "");
    let guid = b.guid();
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    watch(&mut verbs, 1, guid, true);
    drop(b.daemon.take());
    assert_eq!(verbs.wait(), [(1, path(false))]);
    watch(&mut verbs, 2, guid, false);
    let b = b.start();
    assert_eq!(b.guid(), guid);
    assert_eq!(verbs.wait(), [(2, path(true))]);
}

#[test]
fn watches_are_bounded_and_go_with_their_session() {
    const EACH: u64 = 64;
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let socket = a.config.socket_path();
    let mut watching = Vec::new();
    for _ in 0..4 {
        let mut verbs = Verbs::new(App::attach(&socket));
        for number in 0..EACH {
            watch(&mut verbs, number, b.guid(), true);
        }
        watch(&mut verbs, EACH, b.guid(), true);
        let refused = Ended::Other("Refused(NoResources)".into());
        assert_eq!(verbs.wait(), [(EACH, refused)], "the session's share");
        watching.push(verbs);
    }
    let mut late = Verbs::new(App::attach(&socket));
    watch(&mut late, 1, b.guid(), true);
    let refused = Ended::Other("Refused(NoResources)".into());
    assert_eq!(late.wait(), [(1, refused)], "the lane's room");
    // Sessions that end leave none behind.
    watching.truncate(1);
    let mut control = a.client();
    eventually("three sessions have ended", || {
        let verbs = control.status().verbs;
        verbs.submitted - verbs.completed == EACH
    });
    for number in 0..EACH {
        watch(&mut late, number, b.guid(), true);
    }
    set_port(&a, "p0", false);
    for verbs in [&mut late, &mut watching[0]] {
        let mut reported = 0;
        while reported < EACH {
            for (number, how) in verbs.wait() {
                assert!(number < EACH);
                assert_eq!(how, path(false));
                reported += 1;
            }
        }
    }
    let verbs = control.status().verbs;
    assert_eq!(verbs.submitted, verbs.completed);
}
