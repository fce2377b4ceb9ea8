//! Applications that claim more than their share, or resources of others.

use std::time::{Duration, Instant};

use covalent_api::{
    datagram,
    request::{Reply, Request},
    rule::Match,
};
use covalent_ipc::seqpacket::SeqpacketError;
use covalent_protocol::{Mode, verb::Verb};

use super::{
    client::{App, CAPACITY_BYTES, Verbs},
    node::{Node, PATIENCE, eventually, pair},
    streams::numbered,
};

/// A filter that discards everything still receives: three rings' worth, and then one packet more.
#[test]
fn a_filter_that_discards_everything_continues_to_receive() {
    const LENGTH: usize = 1500;
    let frames = 3 * CAPACITY_BYTES as usize / LENGTH;
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut filter = App::attach(&b.config.socket_path());
    let (filter_pipe, mut rx_tx) = filter.rx_tx("p0");
    filter.bind(filter_pipe, Match::Any);
    let mut app = App::attach(&a.config.socket_path());
    let (tx_pipe, mut tx) = app.tx("p0");
    let mut discarded = 0;
    let deadline = Instant::now() + PATIENCE;
    while discarded < frames {
        assert!(
            Instant::now() < deadline,
            "{discarded} of {frames} frames arrived in time"
        );
        app.send(tx_pipe, &mut tx, &numbered(discarded as u32, LENGTH));
        let before = discarded;
        while discarded == before {
            assert!(
                Instant::now() < deadline,
                "{discarded} of {frames} frames arrived in time"
            );
            if let Some(mut batch) = rx_tx.recv_mut() {
                while let Some(packet) = batch.next_packet() {
                    assert!(*packet == *numbered(discarded as u32, LENGTH));
                    packet.discard();
                    discarded += 1;
                }
                if batch.send_all() {
                    filter.ring(filter_pipe);
                }
            } else if rx_tx.wait_for_more() {
                filter.ring(filter_pipe);
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn no_application_sends_frames_in_the_name_of_the_link() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::Any);
    let mut app = App::attach(&a.config.socket_path());
    let (tx_pipe, mut tx) = app.tx("p0");
    for ethertypes in [
        &[0x88b5_u16][..],
        &[0x8100, 0x88b5],
        &[0x88a8, 0x8100, 0x88b5],
    ] {
        let mut forged = vec![2; 12];
        for (at, ethertype) in ethertypes.iter().enumerate() {
            if at > 0 {
                forged.extend([0, 0]);
            }
            forged.extend(ethertype.to_be_bytes());
        }
        forged.resize(forged.len() + 64, 0);
        app.send(tx_pipe, &mut tx, &forged);
    }
    app.send(tx_pipe, &mut tx, &numbered(1, 64));
    assert_eq!(receiver.receive(rx_pipe, &mut rx, 1), [numbered(1, 64)]);
    assert_eq!(a.status().ports[0].refusals["link_type"], 3);
    let link = &b.status().links[0];
    assert_eq!(link.state, "up");
    for cause in ["length", "crc", "short", "malformed"] {
        assert_eq!(link.drops[cause], 0, "a forged frame arrived: {cause}");
    }
}

#[test]
fn a_completion_never_ends_a_verb_of_the_next_queue() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, memory) = owner.register("bank", 64);
    let mut control = a.client();
    let set = |enabled| Request::SetPort {
        port: "p0".to_owned(),
        enabled,
    };
    control.done(&set(false));
    eventually("the link is down", || a.status().links[0].state != "up");
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    assert!(verbs.post(
        b.guid(),
        Mode::TwoPhase,
        77,
        rkey,
        0,
        Verb::FetchAdd { delta: 1 }
    ));
    eventually("the verb is taken", || a.status().verbs.submitted == 1);

    // Another queue that numbers its verbs as the first one did.
    let mut app = verbs.app;
    for pipe in [0, 1] {
        app.client.done(&Request::ClosePipe { pipe });
    }
    let mut verbs = Verbs::new(app);
    assert!(verbs.post(0, Mode::OnePhase, 78, rkey, 0, Verb::FetchAdd { delta: 1 }));
    assert_eq!(verbs.wait()[0].0, 78);
    control.done(&set(true));
    assert!(verbs.post(
        b.guid(),
        Mode::TwoPhase,
        77,
        rkey,
        0,
        Verb::FetchAdd { delta: 10 }
    ));
    let mut ended = verbs.wait();
    let quiet_until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < quiet_until {
        ended.extend(verbs.poll());
        std::thread::yield_now();
    }
    assert_eq!(ended.len(), 1, "one verb, one end: {ended:?}");
    // Whether the forgotten verb was executed does not matter, but the reply belongs to the second
    // verb.
    let old = ended.remove(0).1.word();
    assert_eq!(memory.load(0), Some(old + 10));
    eventually("the forgotten verb is accounted for", || {
        let verbs = a.status().verbs;
        verbs.submitted == verbs.completed
    });
}

/// Requests are not read while replies wait, so that the daemon holds one reply at most.
#[test]
fn a_client_that_does_not_read_is_not_listened_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let client = node.client();
    client.connection.set_nonblocking(true).expect("a socket");
    let request = datagram::encode(&Request::Status).expect("fits");
    // Until nothing moves any more: its socket and the daemon's are full.
    let mut sent = 0;
    let mut stuck_since = Instant::now();
    while stuck_since.elapsed() < Duration::from_millis(300) {
        match client.connection.send(&request, &[]) {
            Ok(()) => {
                sent += 1;
                stuck_since = Instant::now();
            }
            Err(SeqpacketError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 20_000, "the daemon takes requests without end");
    }
    node.status();
    // All are answered once it reads.
    client.connection.set_nonblocking(false).expect("a socket");
    let mut buffer = vec![0; covalent_api::MAX_DATAGRAM_BYTES];
    for _ in 0..sent {
        assert!(client.connection.wait(Some(PATIENCE)).expect("poll works"));
        let (length, _) = client.connection.recv(&mut buffer).expect("an answer");
        assert!(matches!(
            datagram::decode(&buffer[..length]),
            Ok(Reply::Status(_))
        ));
    }
}
