//! The EtherType of links: refused in the call, because no pipe carries it on a port with a link.

use covalent::{Device, Error, Match, Spread, TxPipe};
use covalent_config::Config;

use crate::nodes::{Nodes, PATIENCE, config, eventually, soon, start_when_free};

const PIPE_BYTES: u64 = 64 * 1024;

const fn typed(ethertype: u16) -> Match {
    Match::EtherType { ethertype }
}

/// A frame with these numbers at the places of tags and EtherType.
fn frame(ethertypes: &[u16]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (at, ethertype) in ethertypes.iter().enumerate() {
        if at > 0 {
            frame.extend([0, 7]);
        }
        frame.extend(ethertype.to_be_bytes());
    }
    frame.resize(frame.len() + 46, 9);
    frame
}

/// Checks that a call was refused because of `expected`, with the remedy.
#[track_caller]
fn is_of_links<T>(result: Result<T, Error>, expected: u16, instead: u16) {
    let Err(error) = result else {
        panic!("EtherType {expected:#06x} was accepted");
    };
    let text = error.to_string();
    assert!(
        matches!(error, Error::LinkEtherType { ethertype, .. } if ethertype == expected),
        "{text}"
    );
    for part in [
        &format!("{expected:#06x}"),
        &format!("for example {instead:#06x}"),
        "covalentd",
        "`link.ethertype`",
        "pipe ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Each way to put a frame of `expected` into the pipe is refused and takes no room.
#[track_caller]
fn sends_none_of_links(tx: &mut TxPipe<'_>, expected: u16, instead: u16) {
    for ethertypes in [
        &[expected][..],
        &[0x8100, expected],
        &[0x88a8, 0x8100, expected],
    ] {
        let frame = frame(ethertypes);
        is_of_links(tx.push(&frame), expected, instead);
        is_of_links(tx.send(&frame, soon()), expected, instead);
        let mut room = tx.reserve(frame.len()).unwrap();
        room.copy_from_slice(&frame);
        is_of_links(room.commit(), expected, instead);
        assert_eq!(tx.in_flight_bytes(), 0);
    }
}

/// Frames that were refused on port p0 because of their EtherType.
fn refused(device: &Device) -> u64 {
    device.status().unwrap().ports[0].refusals["link_type"]
}

#[test]
fn the_ethertype_of_links_is_refused_in_the_call() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    is_of_links(rx.bind(&typed(0x88b5)), 0x88b5, 0x88b6);
    let spread = Spread::RoundRobin;
    is_of_links(rx.bind_spread(&typed(0x88b5), spread), 0x88b5, 0x88b6);
    let mut on_port = b.rx_pipe_on(PIPE_BYTES, "p0").unwrap();
    is_of_links(on_port.bind(&typed(0x88b5)), 0x88b5, 0x88b6);
    let mut bytes = b.byte_pipe(PIPE_BYTES).unwrap();
    is_of_links(bytes.bind(&typed(0x88b5)), 0x88b5, 0x88b6);
    let mut echo = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    is_of_links(echo.bind(&typed(0x88b5)), 0x88b5, 0x88b6);
    // The pipe is as it was.
    rx.bind(&typed(0x88b6)).unwrap();

    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    sends_none_of_links(&mut tx, 0x88b5, 0x88b6);
    let sent = frame(&[0x88b6]);
    tx.try_send(&sent).unwrap();
    let batch = rx.recv(soon()).unwrap();
    assert_eq!(batch.iter().collect::<Vec<_>>(), [&sent[..]]);
    eventually("the lane has counted", || tx.counters().tx_packets == 1);
    assert_eq!(refused(&a), 9);
}

#[test]
fn a_full_pipe_reports_the_ethertype_and_not_that_it_is_full() {
    let nodes = Nodes::start(&["p0"]);
    let a = nodes.attach("a");
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    while tx.push(&frame(&[0x9000])).is_ok() {}
    is_of_links(tx.push(&frame(&[0x88b5])), 0x88b5, 0x88b6);
}

#[test]
fn links_with_another_ethertype_leave_the_default_to_applications() {
    let nodes = Nodes::start_with(&["p0"], "ethertype = 0x88b6");
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    is_of_links(rx.bind(&typed(0x88b6)), 0x88b6, 0x88b5);
    rx.bind(&typed(0x88b5)).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    sends_none_of_links(&mut tx, 0x88b6, 0x88b5);
    tx.try_send(&frame(&[0x88b5])).unwrap();
    assert_eq!(rx.recv(soon()).unwrap().iter().count(), 1);
}

#[test]
fn a_port_without_a_link_carries_every_ethertype() {
    let directory = tempfile::tempdir().unwrap();
    let mut text = config(&directory, "a", &["p0"], "").to_toml().unwrap();
    for end in ["near", "far"] {
        text += &format!(
            "[[port]]\nname = \"{end}\"\nlink = false\nkind = \"cable\"\npath = \"{}/loop\"\n",
            directory.path().display()
        );
    }
    let config = Config::parse(&text, "test").unwrap();
    let _daemon = start_when_free(&config);
    let device = Device::attach(config.socket_path(), "test").unwrap();
    let mut far = device.rx_pipe_on(PIPE_BYTES, "far").unwrap();
    far.bind(&typed(0x88b5)).unwrap();
    let mut near = device.tx_pipe(PIPE_BYTES, "near").unwrap();
    near.try_send(&frame(&[0x88b5])).unwrap();
    assert_eq!(far.recv(soon()).unwrap().iter().count(), 1);
    // A pipe on all ports receives from the one with the link too.
    let mut all = device.rx_pipe(PIPE_BYTES).unwrap();
    is_of_links(all.bind(&typed(0x88b5)), 0x88b5, 0x88b6);
}

/// A frame that a daemon did not take is no frame of its successor's links.
#[test]
fn unsent_frames_of_the_next_links_are_lost_and_counted() {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    for device in [&a, &b] {
        device.set_reconnect(Some(PATIENCE));
    }
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    tx.push(&frame(&[0x88b6])).unwrap();
    tx.push(&frame(&[0x9000])).unwrap();
    for name in ["a", "b"] {
        nodes.stop(name);
    }
    nodes.configure("ethertype = 0x88b6");
    for name in ["a", "b"] {
        nodes.respawn(name);
    }
    // Both reconnect. The receiver first, so that its pipe is there for the frame.
    eventually("the receiver is attached", || {
        b.check_connection().unwrap();
        b.next_reconnection().is_some()
    });
    eventually("the frames were taken over", || {
        tx.publish().unwrap();
        a.carried().frames == 1
    });
    assert_eq!(a.carried().frames_lost, 1);
    let batch = rx.recv(soon()).unwrap();
    assert_eq!(batch.iter().collect::<Vec<_>>(), [&frame(&[0x9000])[..]]);
    batch.free_all();
    is_of_links(tx.push(&frame(&[0x88b6])), 0x88b6, 0x88b5);
    is_of_links(rx.bind(&typed(0x88b6)), 0x88b6, 0x88b5);
    tx.push(&frame(&[0x88b5])).unwrap();
    assert_eq!(refused(&a), 1);
}
