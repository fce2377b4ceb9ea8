//! Captures: the frames that a lane receives and sends on a port, in a pipe that belongs to root.

use covalent_api::{
    request::Request,
    rule::Match,
    tap::{TapFrames, TapHead},
};
use covalent_pipe::app::RxPipe;

use super::{
    client::App,
    node::{eventually, pair},
    streams::numbered,
};

const TEST_FRAMES: Match = Match::EtherType { ethertype: 0x1234 };

const fn tap(pipe: u32, frames: TapFrames, snap_bytes: u32) -> Request {
    Request::Tap {
        pipe,
        frames,
        snap_bytes,
    }
}

/// Heads and bytes of the next `count` records.
fn records(app: &mut App, pipe: u32, rx: &mut RxPipe, count: usize) -> Vec<(TapHead, Vec<u8>)> {
    let records = app.receive(pipe, rx, count);
    let read = |record: &Vec<u8>| {
        let (head, frame) = TapHead::split(record).expect("a record");
        (head, frame.to_vec())
    };
    records.iter().map(read).collect()
}

#[test]
fn both_directions_are_captured_in_their_order_up_to_so_many_bytes() {
    const SENT: u32 = 200;
    const RECEIVED: u32 = 100;
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut tapper = App::attach(&a.config.socket_path());
    let (captured, mut capture) = tapper.rx(Some("p0"));
    tapper.client.done(&tap(captured, TapFrames::Data, 64));

    for (from, to, count) in [(&a, &b, SENT), (&b, &a, RECEIVED)] {
        let mut receiver = App::attach(&to.config.socket_path());
        let (pipe, mut rx) = receiver.rx(None);
        receiver.bind(pipe, TEST_FRAMES);
        let mut sender = App::attach(&from.config.socket_path());
        let (out, mut tx) = sender.tx("p0");
        for number in 0..count {
            sender.send(out, &mut tx, &numbered(number, 300));
        }
        let arrived = receiver.receive(pipe, &mut rx, count as usize);
        let is_sent = from.guid() == a.guid();
        let seen = records(&mut tapper, captured, &mut capture, count as usize);
        for ((head, bytes), frame) in seen.iter().zip(&arrived) {
            assert_eq!(
                (head.sent, head.frame_bytes, head.missed),
                (is_sent, 300, 0)
            );
            assert_eq!(bytes[..], frame[..64]);
        }
        assert!(seen.is_sorted_by_key(|(head, _)| head.at_ns));
    }

    // Link frames alone, in another capture; data is nothing to it.
    tapper.client.done(&Request::ClosePipe { pipe: captured });
    let (links, mut capture) = tapper.rx(Some("p0"));
    tapper.client.done(&tap(links, TapFrames::Links, 65_535));
    let mut sender = App::attach(&a.config.socket_path());
    let (out, mut tx) = sender.tx("p0");
    sender.send(out, &mut tx, &numbered(0, 300));
    for (head, frame) in records(&mut tapper, links, &mut capture, 20) {
        assert_eq!(frame.len(), head.frame_bytes as usize);
        assert_eq!(frame[12..14], [0x88, 0xb5], "{head:?}");
    }
}

#[test]
fn a_tap_record_without_space_is_counted_in_the_next_and_is_no_drop() {
    const FRAMES: usize = 4000;
    const BURST: usize = 40;
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut tapper = App::attach(&a.config.socket_path());
    let (captured, mut capture) = tapper.rx(Some("p0"));
    tapper.client.done(&tap(captured, TapFrames::Data, 65_535));
    let mut receiver = App::attach(&b.config.socket_path());
    let (pipe, mut rx) = receiver.rx(None);
    receiver.bind(pipe, TEST_FRAMES);
    let mut sender = App::attach(&a.config.socket_path());
    let (out, mut tx) = sender.tx("p0");
    for first in (0..FRAMES as u32).step_by(BURST) {
        for number in (first..).take(BURST) {
            sender.send(out, &mut tx, &numbered(number, 1400));
        }
        // The capturing application stops reading. The receiving application continues.
        receiver.receive(pipe, &mut rx, BURST);
    }
    let mut seen = Vec::new();
    let mut read = |tapper: &mut App, capture: &mut RxPipe| {
        while let Some(batch) = capture.recv() {
            seen.extend(
                batch
                    .iter()
                    .filter_map(|record| Some(TapHead::split(record)?.0)),
            );
        }
        tapper.ring(captured);
        seen.len() as u64 + seen.iter().map(|head| u64::from(head.missed)).sum::<u64>()
    };
    assert!(
        read(&mut tapper, &mut capture) < FRAMES as u64,
        "it was full"
    );
    let mut sent = FRAMES as u64;
    eventually("missed frames are reported", || {
        sender.send(out, &mut tx, &numbered(0, 1400));
        sent += 1;
        receiver.receive(pipe, &mut rx, 1);
        read(&mut tapper, &mut capture) == sent
    });
    assert!(seen.iter().any(|head| head.missed > 1000));
    let status = a.status();
    assert_eq!(status.ports[0].drops["pipe_full"], 0);
    let of_tapper = status
        .pipes
        .iter()
        .find(|pipe| pipe.session == tapper.session);
    let drops = &of_tapper.expect("its pipe").drops;
    assert!(drops.values().all(|&dropped| dropped == 0), "{drops:?}");
}

#[test]
fn a_capture_that_cannot_be_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair(dir.path(), &["p0"]);
    let mut app = App::attach(&a.config.socket_path());
    let (everywhere, _rx) = app.rx(None);
    let (out, _tx) = app.tx("p0");
    let (first, _first) = app.rx(Some("p0"));
    let (second, _second) = app.rx(Some("p0"));
    let all = |pipe| tap(pipe, TapFrames::All, 64);
    for (request, expected) in [
        (all(everywhere), "names no port"),
        (all(out), "captures go into RX pipes"),
        (tap(first, TapFrames::All, 13), "expected 14 to 65535"),
        (all(99), "99"),
    ] {
        let reason = app.client.refused(&request);
        assert!(reason.contains(expected), "{reason}");
    }
    app.client.done(&all(first));
    let reason = app.client.refused(&all(second));
    assert!(reason.contains("one capture at a time"), "{reason}");
    app.client.done(&Request::ClosePipe { pipe: first });
    app.client.done(&all(second));
    drop(app);
    let mut next = App::attach(&a.config.socket_path());
    let (third, _third) = next.rx(Some("p0"));
    eventually("a capture ends with its application", || {
        next.client.send(&all(third));
        let (reply, _) = next.client.receive().expect("an answer");
        reply == covalent_api::request::Reply::Done
    });
}
