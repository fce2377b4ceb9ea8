//! The frame counts of links and ports add up. One end received the frames that the other sent, and
//! all frames outside a link belong to applications.

use covalent_api::{
    rule::Match,
    status::{LinkStatus, NodeStatus, PortStatus},
};

use super::{
    client::{App, Client, Verbs},
    node::{Node, eventually},
    streams::numbered,
    verbs::count_up,
};

/// Long enough for three status queries between two keepalives of an idle link.
const TICK_CONFIG: &str = "idle_tick_ms = 50\n";

/// Frames sent and received.
type Frames = (u64, u64);

fn at<'s>(status: &'s NodeStatus, port: &str) -> (&'s PortStatus, &'s LinkStatus) {
    let one = status.ports.iter().find(|it| it.name == port);
    let link = status.links.iter().find(|it| it.port == port);
    (one.expect("the port"), link.expect("its link"))
}

/// Returns one end's counts of its link. Fails if its port has counted more than those and the
/// frames of `applications`.
fn link_counts(client: &mut Client, cable: &str, applications: Frames) -> Frames {
    let status = client.status();
    let (port, link) = at(&status, cable);
    let (sent, received) = applications;
    assert_eq!(
        (port.tx_packets, port.rx_packets),
        (link.tx_frames + sent, link.rx_frames + received),
        "{cable}: {port:#?} {link:#?}"
    );
    (link.tx_frames, link.rx_frames)
}

/// Waits until nothing is in flight on a cable and both ends have the same counts. `applications`:
/// frames that applications sent over it from the first end to the second.
fn ends_agree([one, other]: [&Node; 2], cable: &str, applications: u64) {
    let [mut one, mut other] = [one.client(), other.client()];
    eventually("both ends of a cable count the same frames", || {
        let before = link_counts(&mut one, cable, (applications, 0));
        let (sent, received) = link_counts(&mut other, cable, (0, applications));
        let after = link_counts(&mut one, cable, (applications, 0));
        assert!(
            received <= after.0 && before.1 <= sent,
            "{cable}: more arrived than was sent: {before:?}, {sent} and {received}, {after:?}"
        );
        before == after && (received, sent) == after
    });
}

/// Three nodes in a row: the ends are not neighbors, so messages of trees and paths are among the
/// frames.
#[test]
fn both_ends_of_a_link_count_the_same_frames() {
    const VERBS: u64 = 600;
    const SENT: usize = 200;
    let dir = tempfile::tempdir().expect("a directory");
    let node = |name, cables: &[&str]| Node::new(dir.path(), name, cables, TICK_CONFIG).start();
    let a = node("a", &["ab"]);
    let b = node("b", &["ab", "bc"]);
    let c = node("c", &["bc"]);
    eventually("the ends know each other", || {
        [&a, &c].into_iter().all(|node| {
            let fabric = node.status().fabric.expect("it takes part");
            fabric.reached == 2
        })
    });
    ends_agree([&a, &b], "ab", 0);
    ends_agree([&b, &c], "bc", 0);

    let mut receiver = App::attach(&b.config.socket_path());
    let (pipe, mut rx) = receiver.rx(None);
    receiver.bind(pipe, Match::EtherType { ethertype: 0x1234 });
    let mut sender = App::attach(&a.config.socket_path());
    let (out, mut tx) = sender.tx("ab");
    for number in 0..SENT as u32 {
        sender.send(out, &mut tx, &numbered(number, 64));
    }
    assert_eq!(receiver.receive(pipe, &mut rx, SENT).len(), SENT);
    for target in [&b, &c] {
        let mut owner = App::attach(&target.config.socket_path());
        let (rkey, memory) = owner.register("counter", 64);
        let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
        count_up(&mut verbs, target.guid(), rkey, VERBS, |_| {});
        assert_eq!(memory.load(0), Some(VERBS));
    }
    ends_agree([&a, &b], "ab", SENT as u64);
    ends_agree([&b, &c], "bc", 0);
    let passed = b.status().fabric.expect("it takes part").passed_records;
    assert!(passed > 0, "frames of a path were among them");
}
