//! What links and ports count of frames adds up: one end received what the other sent, and what is of no link is of applications.

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

/// Long enough for three looks between two balls of a link at rest.
const PACE: &str = "idle_pace_ms = 50\n";

/// Frames sent and received.
type Frames = (u64, u64);

fn at<'s>(status: &'s NodeStatus, port: &str) -> (&'s PortStatus, &'s LinkStatus) {
    let one = status.ports.iter().find(|it| it.name == port);
    let link = status.links.iter().find(|it| it.port == port);
    (one.expect("the port"), link.expect("its link"))
}

/// What one end of a cable says of its link, when its port has counted nothing but that and the frames of `applications`.
fn look(client: &mut Client, cable: &str, applications: Frames) -> Frames {
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

/// Waits until nothing is under way on a cable and both ends have counted the same. `applications`: frames that they sent over it from the one
/// end to the other.
fn ends_agree([one, other]: [&Node; 2], cable: &str, applications: u64) {
    let [mut one, mut other] = [one.client(), other.client()];
    eventually("both ends of a cable count the same frames", || {
        let before = look(&mut one, cable, (applications, 0));
        let (sent, received) = look(&mut other, cable, (0, applications));
        let after = look(&mut one, cable, (applications, 0));
        assert!(
            received <= after.0 && before.1 <= sent,
            "{cable}: more came than was sent: {before:?}, {sent} and {received}, {after:?}"
        );
        before == after && (received, sent) == after
    });
}

/// Three nodes in a row: the ends are no neighbours, so what trees and paths say is among the frames.
#[test]
fn what_one_end_of_a_link_sent_the_other_received() {
    const VERBS: u64 = 600;
    const SENT: usize = 200;
    let dir = tempfile::tempdir().expect("a directory");
    let node = |name, cables: &[&str]| Node::new(dir.path(), name, cables, PACE).start();
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
