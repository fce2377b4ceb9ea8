//! Payloads of datagrams through byte pipes, and held packets.

use std::{
    thread,
    time::{Duration, Instant},
};

use covalent::{
    BytePipe, Error, Match, PipeTuning, RateLimit, RateUnit, Transport, TxPipe,
    framing::{Delimited, FixedSize, LengthPrefixed},
};
use etherparse::PacketBuilder;

use crate::nodes::{Nodes, PATIENCE, eventually, soon};

const PIPE_BYTES: u64 = 64 * 1024;
const PORT: u16 = 514;

pub fn datagram(payload: &[u8]) -> Vec<u8> {
    datagram_to(PORT, payload)
}

fn datagram_to(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(4000, port)
        .write(&mut frame, payload)
        .unwrap();
    frame.resize(frame.len().max(60), 0xaa);
    frame
}

pub fn to_port() -> Match {
    Match::Port {
        transport: Transport::Udp,
        dst_port: PORT,
    }
}

fn send(tx: &mut TxPipe<'_>, payload: &[u8]) {
    tx.send(&datagram(payload), soon()).unwrap();
}

/// Receives `count` lines, waiting for the rest of one that is not whole.
fn lines(pipe: &mut BytePipe<'_>, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen_bytes = 0;
    while lines.len() < count {
        let batch = pipe.recv_more_than(seen_bytes, soon()).unwrap();
        let mut messages = batch.messages(Delimited::new(b'\n', 1000));
        lines.extend(
            messages
                .by_ref()
                .map(|line| String::from_utf8(line.to_vec()).unwrap()),
        );
        assert_eq!(messages.error(), None);
        let consumed = messages.consumed_bytes();
        seen_bytes = batch.bytes().len() - consumed;
        batch.free(consumed);
    }
    lines
}

#[test]
fn lines_arrive_whole_however_the_datagrams_cut_them() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    // Large enough for all data: a delayed reader loses nothing.
    let mut pipe = b.byte_pipe(1 << 20).unwrap();
    pipe.bind(&to_port()).unwrap();
    let expected: Vec<String> = (0..3000)
        .map(|number| format!("{number} {}", "x".repeat(number * 7 % 200)))
        .collect();
    let stream: Vec<u8> = expected
        .iter()
        .flat_map(|line| format!("{line}\n").into_bytes())
        .collect();
    let (expected, stream) = (&expected, &stream);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
            for (number, cut) in stream.chunks(997).enumerate() {
                // Some find the reader asleep in the midst of a line.
                if number % 40 == 0 {
                    thread::sleep(Duration::from_millis(2));
                }
                send(&mut tx, cut);
            }
            tx.flush(soon()).unwrap();
        });
        assert_eq!(&lines(&mut pipe, expected.len()), expected);
    });
    eventually("the lane has counted", || {
        pipe.counters().rx_bytes == stream.len() as u64
    });
    assert_eq!(pipe.counters().full, 0);
}

/// A program that waits for its pipes with `next_rx_pipe` and takes the whole lines in them.
#[test]
fn a_partial_line_does_not_hide_data_of_the_next_daemon() {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    b.set_reconnect(Some(PATIENCE));
    let mut pipe = b.byte_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&to_port()).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let take = |pipe: &mut BytePipe<'_>| -> Vec<String> {
        let Some(batch) = pipe.try_recv().unwrap() else {
            return Vec::new();
        };
        let mut messages = batch.messages(Delimited::new(b'\n', 100));
        let lines = messages.by_ref().map(|line| line.to_vec());
        let lines = lines.map(|line| String::from_utf8(line).unwrap()).collect();
        let consumed = messages.consumed_bytes();
        batch.free(consumed);
        lines
    };
    send(&mut tx, b"one\nbeg");
    let mut seen = Vec::new();
    while seen.is_empty() {
        b.next_rx_pipe(soon()).unwrap();
        seen.extend(take(&mut pipe));
    }
    assert_eq!(seen, ["one"]);
    nodes.stop("b");
    nodes.respawn("b");
    b.check_connection().unwrap();
    // `next_rx_pipe` returns the pipe once for the old data. After the program has seen the data,
    // it does not.
    b.next_rx_pipe(soon()).unwrap();
    assert_eq!(take(&mut pipe), [] as [&str; 0]);
    let shortly = Instant::now() + Duration::from_millis(50);
    assert!(matches!(
        b.next_rx_pipe(shortly),
        Err(Error::Deadline { .. })
    ));
    assert_eq!(b.carried().bytes_lost, 0);
    let mut sent = 0;
    eventually("lines arrive again", || {
        // The cable needs a moment after the restart. Data sent before is lost.
        send(&mut tx, b"two\n");
        sent += 1;
        // The unconsumed rest does not make `poll_rx_pipe` return the pipe repeatedly.
        let mut named = 0;
        while b.try_next_rx_pipe().unwrap().is_some() {
            named += 1;
            assert!(named < 100);
            seen.extend(take(&mut pipe));
        }
        seen.len() > 1
    });
    assert_eq!(seen[1], "two", "after {sent} were sent");
    assert_eq!(b.carried().bytes_lost, 3);
}

#[test]
fn numbers_and_prefixed_messages_are_distinguished() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut pipe = b.byte_pipe_on(PIPE_BYTES, "p0").unwrap();
    pipe.bind(&to_port()).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    send(&mut tx, &1_u64.to_be_bytes());
    send(
        &mut tx,
        &[2_u64.to_be_bytes(), 3_u64.to_be_bytes()].concat(),
    );
    let batch = pipe.recv_more_than(23, soon()).unwrap();
    let numbers: Vec<u64> = batch
        .messages(FixedSize::new(8).unwrap())
        .map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    batch.free_all();
    let framing = LengthPrefixed::u16_be(100);
    let message = [framing.prefix(5).unwrap().as_bytes(), b"hello"].concat();
    send(&mut tx, &message);
    let batch = pipe.recv(soon()).unwrap();
    assert_eq!(batch.messages(framing).collect::<Vec<_>>(), [b"hello"]);
    batch.free_all();
    assert!(pipe.try_recv().unwrap().is_none());
}

#[test]
fn frames_without_a_datagram_are_counted_and_leave_no_bytes() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut pipe = b.byte_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let mut tcp = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .tcp(4000, PORT, 1, 1)
        .write(&mut tcp, b"not for you")
        .unwrap();
    tx.try_send(&tcp).unwrap();
    tx.try_send(&[0xaa; 60]).unwrap();
    send(&mut tx, b"");
    send(&mut tx, b"a datagram");
    let batch = pipe.recv(soon()).unwrap();
    assert_eq!(batch.bytes(), b"a datagram");
    batch.free_all();
    let status = b.status().unwrap();
    assert_eq!(status.pipes[0].drops["no_payload"], 3);
    assert_eq!(pipe.counters().no_payload, 3);
}

/// Sleeping for more bytes than were examined costs one doorbell, not one for each look: otherwise
/// the reader would never sleep.
#[test]
fn a_reader_that_waits_for_more_bytes_sleeps() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut pipe = b.byte_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&to_port()).unwrap();
    let mut packets = b.rx_pipe(PIPE_BYTES).unwrap();
    packets
        .bind(&Match::EtherType { ethertype: 0x9000 })
        .unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    send(&mut tx, b"half a li");
    let mut frame = [7; 60];
    frame[12..14].copy_from_slice(&[0x90, 0]);
    tx.try_send(&frame).unwrap();

    pipe.recv(soon()).unwrap();
    let before = pipe.counters().head_updates;
    let deadline = Instant::now() + Duration::from_millis(100);
    let error = pipe.recv_more_than(9, deadline).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    let rung = pipe.counters().head_updates - before;
    assert!(rung <= 10, "{rung} doorbells in one wait");
    send(&mut tx, b"ne\n");
    assert_eq!(lines(&mut pipe, 1), ["half a line"]);

    packets.recv(soon()).unwrap().confirm(1);
    let before = packets.counters().head_updates;
    let deadline = Instant::now() + Duration::from_millis(100);
    let error = packets.recv(deadline).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    let rung = packets.counters().head_updates - before;
    assert!(rung <= 10, "{rung} doorbells in one wait");
    assert_eq!(packets.held().collect::<Vec<_>>(), [&frame]);
    tx.try_send(&frame).unwrap();
    assert_eq!(packets.recv(soon()).unwrap().iter().count(), 1);
    assert_eq!(packets.held().count(), 0, "freed with the batch behind it");
}

/// One call waits for two pipes that each hold the start of a line, and for held packets. It
/// sleeps, and arriving data wakes it.
#[test]
fn beginnings_of_messages_are_no_news_and_their_ends_are() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut pipes: Vec<_> = [PORT, PORT + 1]
        .map(|dst_port| {
            let mut pipe = b.byte_pipe(PIPE_BYTES).unwrap();
            pipe.bind(&Match::Port {
                transport: Transport::Udp,
                dst_port,
            })
            .unwrap();
            pipe
        })
        .into();
    let mut packets = b.rx_pipe(PIPE_BYTES).unwrap();
    packets
        .bind(&Match::EtherType { ethertype: 0x9000 })
        .unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let mut frame = [7; 60];
    frame[12..14].copy_from_slice(&[0x90, 0]);
    for round in 0..20 {
        for port in [PORT, PORT + 1] {
            tx.send(&datagram_to(port, b"a whole li"), soon()).unwrap();
        }
        tx.send(&frame, soon()).unwrap();
        let (mut seen_bytes, mut kept) = ([0; 2], 0);
        while seen_bytes != [10; 2] || kept <= round {
            let ready = b.next_rx_pipe(soon()).unwrap();
            if ready == packets.id() {
                kept = packets
                    .try_peek()
                    .unwrap()
                    .map_or(0, |batch| batch.iter().count());
                continue;
            }
            let place = usize::from(ready == pipes[1].id());
            if let Some(batch) = pipes[place].try_recv().unwrap() {
                assert_eq!(batch.messages(Delimited::new(b'\n', 100)).count(), 0);
                seen_bytes[place] = batch.bytes().len();
            }
        }
        let rung = |pipes: &[BytePipe<'_>]| {
            pipes
                .iter()
                .map(|pipe| pipe.counters().head_updates)
                .sum::<u64>()
        };
        let before = rung(&pipes);
        let pause = Instant::now() + Duration::from_millis(5);
        let error = b.next_rx_pipe(pause).unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
        assert!(rung(&pipes) - before <= 4, "no doorbell for seen data");
        for (place, port) in [PORT, PORT + 1].into_iter().enumerate() {
            tx.send(&datagram_to(port, b"ne\n"), soon()).unwrap();
            assert_eq!(b.next_rx_pipe(soon()).unwrap(), pipes[place].id());
            let batch = pipes[place].try_recv().unwrap().unwrap();
            assert_eq!(batch.bytes(), b"a whole line\n");
            batch.free_all();
        }
    }
}

#[test]
fn impossible_calls_on_a_byte_pipe_are_refused() {
    let nodes = Nodes::start(&["p0"]);
    let b = nodes.attach("b");
    let mut pipe = b.byte_pipe(PIPE_BYTES).unwrap();
    let error = pipe
        .recv_more_than(PIPE_BYTES as usize - 64, soon())
        .unwrap_err();
    assert!(matches!(error, Error::PipeTooSmall { .. }), "{error}");
    let error = pipe.try_recv_more_than(usize::MAX).unwrap_err();
    assert!(matches!(error, Error::PipeTooSmall { .. }), "{error}");
    assert!(
        pipe.try_recv_more_than(PIPE_BYTES as usize - 65)
            .unwrap()
            .is_none()
    );
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    let error = rx
        .tune(&PipeTuning {
            rate_limit: Some(RateLimit {
                unit: RateUnit::Packets,
                per_second: 1,
                burst_us: 0,
            }),
            stamp_at_bytes: None,
        })
        .unwrap_err();
    assert!(error.to_string().contains("sends nothing"), "{error}");
}

/// A prefetch requests a notification of packets that are in the pipe already.
#[test]
fn a_prefetched_pipe_is_reported_again() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut pipe = b.rx_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    tx.try_send(&[7; 60]).unwrap();
    assert_eq!(b.next_rx_pipe(soon()).unwrap(), pipe.id());
    // Not received: no news of its own accord.
    assert_eq!(b.try_next_rx_pipe().unwrap(), None);
    pipe.prefetch().unwrap();
    eventually("the lane notifies again", || {
        b.try_next_rx_pipe().unwrap() == Some(pipe.id())
    });
    pipe.try_recv().unwrap().unwrap().free_all();
    pipe.prefetch().unwrap();
    let deadline = Instant::now() + Duration::from_millis(20);
    assert!(
        b.next_rx_pipe(deadline).is_err(),
        "there is nothing to notify of"
    );
    drop(pipe);
    let mut echo = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    echo.bind(&Match::Any).unwrap();
    tx.try_send(&[7; 60]).unwrap();
    assert_eq!(b.next_rx_pipe(soon()).unwrap(), echo.id());
    assert_eq!(b.try_next_rx_pipe().unwrap(), None);
    echo.prefetch().unwrap();
    eventually("the lane notifies again", || {
        b.try_next_rx_pipe().unwrap() == Some(echo.id())
    });
}
