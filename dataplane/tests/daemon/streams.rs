//! Packets from pipe to pipe.

use std::{sync::mpsc::sync_channel, thread};

use covalent_api::{
    request::Request,
    rule::{Match, Transport},
};

use super::{
    client::App,
    node::{eventually, pair, pair_on_a_short_cable},
};

/// Returns a frame whose bytes are derived from `number`.
pub fn numbered(number: u32, length: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length)
        .map(|at| (at as u32).wrapping_mul(31).wrapping_add(number) as u8)
        .collect();
    frame[12..14].copy_from_slice(&[0x12, 0x34]);
    if length >= 18 {
        frame[14..18].copy_from_slice(&number.to_be_bytes());
    }
    frame
}

/// Lengths over the whole range, odd ones too.
pub fn lengths() -> impl Iterator<Item = usize> {
    [14, 15, 60, 63, 64, 65, 127, 128, 590, 1024, 1513, 1514]
        .into_iter()
        .cycle()
}

#[test]
fn a_stream_arrives_byte_for_byte_and_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let frames: Vec<_> = (0..20_000)
        .zip(lengths())
        .map(|(number, length)| numbered(number, length))
        .collect();
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::EtherType { ethertype: 0x1234 });
    let socket = a.config.socket_path();
    let sent = frames.clone();
    // At most as many in flight as the RX pipe holds: it drops any further frames.
    let (open, window) = sync_channel(4);
    let sender = thread::spawn(move || {
        let mut app = App::attach(&socket);
        let (pipe, mut tx) = app.tx("p0");
        for burst in sent.chunks(100) {
            open.send(()).expect("the receiver runs");
            for frame in burst {
                app.send(pipe, &mut tx, frame);
            }
        }
        app
    });
    for burst in frames.chunks(100) {
        let received = receiver.receive(rx_pipe, &mut rx, burst.len());
        assert!(received == burst, "the stream differs from the sent frames");
        window.recv().expect("the sender runs");
    }
    let _app = sender.join().expect("the sender ends well");
    let (tx, rx) = (a.status(), b.status());
    assert_eq!(tx.pipes[0].tx_packets, 20_000);
    assert_eq!(rx.pipes[0].rx_packets, 20_000);
    assert_eq!(rx.pipes[0].drops["full"], 0);
    assert_eq!(rx.ports[0].drops["no_pipe"], 0);
    assert!(
        rx.pipes[0].notifications_suppressed > 0,
        "notifications are reactive"
    );
}

#[test]
fn an_echo_in_place_returns_every_byte() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut echo = App::attach(&b.config.socket_path());
    let (echo_pipe, mut rx_tx) = echo.rx_tx("p0");
    echo.bind(echo_pipe, Match::Any);
    let mut app = App::attach(&a.config.socket_path());
    let (tx_pipe, mut tx) = app.tx("p0");
    let (rx_pipe, mut rx) = app.rx(Some("p0"));
    app.bind(rx_pipe, Match::Any);
    let frames: Vec<_> = (0..500)
        .zip(lengths())
        .map(|(number, length)| numbered(number, length))
        .collect();
    for burst in frames.chunks(50) {
        for frame in burst {
            app.send(tx_pipe, &mut tx, frame);
        }
        let mut echoed = 0;
        while echoed < burst.len() {
            if let Some(mut batch) = rx_tx.recv_mut() {
                while let Some(mut packet) = batch.next_packet() {
                    packet[0] ^= 0xff;
                    echoed += 1;
                }
                if batch.send_all() {
                    echo.ring(echo_pipe);
                }
            } else if rx_tx.wait_for_more() {
                echo.ring(echo_pipe);
                std::thread::yield_now();
            }
        }
        for (mut packet, frame) in app
            .receive(rx_pipe, &mut rx, burst.len())
            .into_iter()
            .zip(burst)
        {
            packet[0] ^= 0xff;
            assert!(packet == *frame, "the echo differs from the sent frames");
        }
    }
    assert_eq!(b.status().pipes[0].tx_packets, 500);
}

#[test]
fn the_most_specific_binding_receives_and_other_frames_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut receiver = App::attach(&b.config.socket_path());
    let (udp_pipe, mut udp) = receiver.rx(None);
    receiver.bind(
        udp_pipe,
        Match::Port {
            transport: Transport::Udp,
            dst_port: 80,
        },
    );
    let (net_pipe, mut net) = receiver.rx(None);
    receiver.bind(
        net_pipe,
        Match::Prefix {
            dst: "10.0.0.0/8".parse().expect("a prefix"),
        },
    );
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("p0");
    let frame = |port: u16, last: u8| {
        let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([1, 1, 1, 1], [10, 0, 0, last], 9)
            .udp(7, port);
        let mut frame = Vec::new();
        builder.write(&mut frame, &[last; 10]).expect("memory");
        frame
    };
    for last in 0..10 {
        sender.send(pipe, &mut tx, &frame(80, last));
        sender.send(pipe, &mut tx, &frame(81, last));
        sender.send(pipe, &mut tx, &numbered(u32::from(last), 60));
    }
    let expected = |port| (0..10).map(|last| frame(port, last)).collect::<Vec<_>>();
    assert_eq!(receiver.receive(udp_pipe, &mut udp, 10), expected(80));
    assert_eq!(receiver.receive(net_pipe, &mut net, 10), expected(81));
    eventually("the rest is counted", || {
        b.status().ports[0].drops["no_pipe"] == 10
    });
}

#[test]
fn a_full_pipe_drops_and_counts_until_it_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::Any);
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("p0");
    // One pipe holds one mebibyte less one quantum, and a frame of 1514 bytes takes 24 quanta.
    let fits = ((1 << 20) - 64) / (24 * 64);
    for number in 0..fits + 100 {
        sender.send(pipe, &mut tx, &numbered(number, 1514));
    }
    eventually("the overflow is counted", || {
        b.status().pipes[0].drops["full"] == 100
    });
    assert_eq!(
        receiver.receive(rx_pipe, &mut rx, fits as usize).len(),
        fits as usize
    );
    assert_eq!(b.status().ports[0].drops["pipe_full"], 100);
    sender.send(pipe, &mut tx, &numbered(1, 64));
    assert_eq!(receiver.receive(rx_pipe, &mut rx, 1), [numbered(1, 64)]);
}

#[test]
fn frames_that_the_port_cannot_take_are_refused_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::Any);
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("p0");
    let max = a.status().ports[0].frame_bytes_max as usize;
    // This application bypasses the library, which would refuse them.
    for _ in 0..3 {
        sender.send(pipe, &mut tx, &numbered(0, max + 1));
        sender.send(pipe, &mut tx, &[0; 13]);
    }
    sender.send(pipe, &mut tx, &numbered(7, max));
    assert_eq!(receiver.receive(rx_pipe, &mut rx, 1), [numbered(7, max)]);
    let refusals = &a.status().ports[0].refusals;
    assert_eq!(
        (refusals["too_long"], refusals["runt"]),
        (3, 3),
        "{refusals:?}"
    );
}

#[test]
fn packets_that_the_library_refuses_are_counted_and_stay_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair(dir.path(), &["p0"]);
    let mut sender = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = sender.tx("p0");
    let max = a.status().ports[0].frame_bytes_max as usize;
    tx.set_frame_bytes_max(max);
    for _ in 0..2 {
        assert!(tx.send(&vec![0; max + 1]).is_err());
        assert!(tx.send(&[]).is_err());
        tx.count_too_short();
        tx.count_link_type();
    }
    let refused = |of: &super::node::Node| {
        let refusals = of.status().ports[0].refusals.clone();
        ["too_long", "runt", "link_type"].map(|cause| refusals[cause])
    };
    assert_eq!(refused(&a), [2, 4, 2]);
    assert_eq!(refused(&a), [2, 4, 2], "each is counted once");
    assert!(tx.send(&vec![0; max + 1]).is_err());
    // Not looked at between the last refusal and the end of the pipe.
    sender.client.done(&Request::ClosePipe { pipe });
    assert_eq!(refused(&a), [3, 4, 2]);
}

#[test]
fn pipes_share_a_port_fairly() {
    const MODEST: u32 = 50;
    const FIRST_MODEST: u32 = 1 << 30;
    let dir = tempfile::tempdir().expect("a directory");
    // Shorter than a burst: the pipe that is served first could take all the space, again and
    // again.
    let (a, b) = pair_on_a_short_cable(dir.path(), 64);
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(None);
    receiver.bind(rx_pipe, Match::Any);
    let mut sender = App::attach(&a.config.socket_path());
    let (greedy_pipe, mut greedy) = sender.tx("p0");
    let (modest_pipe, mut modest) = sender.tx("p0");
    // Both fill their pipes while the cable is down, so that both wait when it is back.
    sender.client.done(&Request::SetPort {
        port: "p0".to_owned(),
        enabled: false,
    });
    let mut filled = 0;
    while filled < 600 && greedy.send(&numbered(filled, 1514)).is_ok() {
        filled += 1;
    }
    for number in 0..MODEST {
        modest
            .send(&numbered(FIRST_MODEST + number, 1514))
            .expect("room");
    }
    assert!(greedy.publish() && modest.publish());
    sender.ring(greedy_pipe);
    sender.ring(modest_pipe);
    // A lane replies at its loop boundary: after two replies it has seen the doorbells.
    a.status();
    a.status();
    sender.client.done(&Request::SetPort {
        port: "p0".to_owned(),
        enabled: true,
    });
    let received = receiver.receive(rx_pipe, &mut rx, (filled + MODEST) as usize);
    let place = received
        .iter()
        .rposition(|frame| *frame == numbered(FIRST_MODEST + MODEST - 1, 1514))
        .expect("it arrives");
    // The lane may see the greedy pipe's doorbell a round earlier and then holds one burst of its
    // frames. Served in doorbell order, the modest pipe would finish last.
    assert!(
        place < (256 + 2 * MODEST) as usize,
        "the modest pipe's {MODEST} frames were done after {place} of {filled}"
    );
}
