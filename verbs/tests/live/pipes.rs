//! Frames through pipes.

use std::{
    os::fd::AsFd,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use covalent::{Device, Error, Match, PipeTuning, RateLimit, RateUnit, RxPipe, RxTxPipe};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::nodes::{Nodes, eventually, soon};

const PIPE_BYTES: u64 = 256 * 1024;

/// A frame of an EtherType of its own, filled by its number.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![number as u8; length];
    frame[12..14].copy_from_slice(&[0x88, 0xb6]);
    if length >= 18 {
        frame[14..18].copy_from_slice(&number.to_be_bytes());
    }
    frame
}

/// Receives until `count` frames have come.
fn receive(pipe: &mut RxPipe<'_>, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        let batch = pipe.recv(soon()).unwrap();
        frames.extend(batch.iter().map(<[u8]>::to_vec));
    }
    frames
}

#[test]
fn frames_of_every_length_arrive_unchanged_and_in_order() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let max = tx.frame_bytes_max();
    assert!(max >= 1514);
    let sent: Vec<_> = (14..=max)
        .step_by(7)
        .chain([max])
        .enumerate()
        .map(|(n, len)| frame(n as u32, len))
        .collect();
    for window in sent.chunks(50) {
        for frame in window {
            tx.push(frame).unwrap();
        }
        tx.publish().unwrap();
        assert!(receive(&mut rx, window.len()) == window);
    }
}

#[test]
fn an_invalid_packet_is_refused_with_its_cause_and_changes_nothing() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let max = tx.frame_bytes_max();
    let too_long = tx.try_send(&vec![0; max + 1]).unwrap_err();
    assert!(
        matches!(
            too_long,
            Error::FrameTooLong { pipe, len_bytes, max_bytes }
                if pipe == tx.id() && len_bytes == max + 1 && max_bytes == max,
        ),
        "{too_long}"
    );
    for length in [0, 13] {
        let runt = tx.try_send(&vec![0; length]).unwrap_err();
        assert!(
            matches!(
                runt,
                Error::FrameTooShort { pipe, len_bytes, min_bytes: 14 }
                    if pipe == tx.id() && len_bytes == length,
            ),
            "{runt}"
        );
        assert!(matches!(
            tx.reserve(length),
            Err(Error::FrameTooShort { .. })
        ));
    }
    let error = a.tx_pipe(PIPE_BYTES, "p9").unwrap_err();
    assert!(
        matches!(&error, Error::UnknownPort { .. }) && error.to_string().contains("p9"),
        "{error}"
    );
    let error = a.rx_pipe(1000).unwrap_err();
    assert!(
        matches!(&error, Error::Refused { reason, .. } if !reason.is_empty()),
        "{error}"
    );
    tx.try_send(&frame(1, 64)).unwrap();
    assert_eq!(receive(&mut rx, 1), [frame(1, 64)]);
}

#[test]
fn a_full_pipe_refuses_waits_and_recovers() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(1 << 20).unwrap();
    rx.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(64 * 1024, "p0").unwrap();
    // Pushed and not published: the lane does not see these packets, so they make no room.
    let mut pushed = 0;
    let full = loop {
        match tx.push(&frame(pushed, 128)) {
            Ok(()) => pushed += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(full, Error::PipeFull { pipe } if pipe == tx.id()),
        "{full}"
    );
    assert_eq!(u64::from(pushed), (64 * 1024 - 64) / 128);
    assert!(tx.reserve(128).is_err());
    assert_eq!(tx.counters().tx_full, 2);
    // Waiting for room publishes the pushed packets.
    tx.send(&frame(pushed, 128), soon()).unwrap();
    let frames = receive(&mut rx, pushed as usize + 1);
    assert!(
        frames
            .iter()
            .enumerate()
            .all(|(number, got)| *got == frame(number as u32, 128))
    );
    tx.flush(soon()).unwrap();
    assert_eq!(tx.in_flight_bytes(), 0);
    // The one that waited found it full as well.
    assert_eq!(tx.counters().tx_full, 3);
    let full = |device: &Device| {
        let status = device.status().unwrap();
        let pipes: u64 = status.pipes.iter().map(|pipe| pipe.tx_full_packets).sum();
        (pipes, status.ports[0].refusals["pipe_full"])
    };
    assert_eq!(full(&a), (3, 3));
    drop(tx);
    assert_eq!(full(&a), (0, 3), "the port's count outlives the pipe");
}

#[test]
fn the_status_reports_the_page_sizes_of_pipes() {
    for (wanted, most) in [("auto", 2 << 20), ("never", 4096)] {
        let more = format!("[dataplane]\nhuge_pages = \"{wanted}\"\n");
        let nodes = Nodes::start_with(&["p0"], &more);
        let a = nodes.attach("a");
        let rx = a.rx_pipe(4 << 20).unwrap();
        let small = a.tx_pipe(64 * 1024, "p0").unwrap();
        let pages = |id| {
            let pipes = a.status().unwrap().pipes;
            let pipe = pipes.iter().find(|pipe| pipe.pipe == id).unwrap();
            pipe.page_bytes
        };
        assert_eq!(pages(rx.id().number()), rx.page_bytes());
        assert!([4096, most].contains(&rx.page_bytes()));
        assert_eq!(pages(small.id().number()), 4096);
    }
}

#[test]
fn a_reservation_is_sent_only_when_committed() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    tx.reserve(100).unwrap().fill(1);
    let mut room = tx.reserve(60).unwrap();
    room.copy_from_slice(&frame(2, 60));
    room.commit().unwrap();
    tx.publish().unwrap();
    assert_eq!(receive(&mut rx, 1), [frame(2, 60)]);
}

#[test]
fn batches_are_freed_in_part_kept_or_freed_when_dropped() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    for number in 0..5 {
        tx.try_send(&frame(number, 100)).unwrap();
    }
    let in_pipe = |rx: &mut RxPipe<'_>| {
        let batch = rx.recv(soon()).unwrap();
        let count = batch.iter().count();
        batch.keep();
        count
    };
    crate::nodes::eventually("all five are there", || in_pipe(&mut rx) == 5);
    let batch = rx.try_recv().unwrap().unwrap();
    assert!(
        batch.bytes().len() >= 4 * 128 + 100,
        "one contiguous stretch"
    );
    assert_eq!(batch.bytes()[..100], frame(0, 100));
    assert_eq!(batch.bytes()[128..228], frame(1, 100));
    batch.free(2);
    let batch = rx.try_recv().unwrap().unwrap();
    assert_eq!(batch.iter().next(), Some(&frame(2, 100)[..]));
    drop(batch);
    assert!(rx.try_recv().unwrap().is_none());
}

#[test]
fn packets_iterated_once_are_freed_without_another_iteration() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(64 * 1024).unwrap();
    rx.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    // More than the ring holds, so that a missing free is detected.
    let mut next = 0;
    for sent in (0..2000).step_by(50) {
        for number in sent..sent + 50 {
            tx.push(&frame(number, 100)).unwrap();
        }
        tx.publish().unwrap();
        while next < sent + 50 {
            let batch = rx.recv(soon()).unwrap();
            let mut packets = batch.iter();
            for packet in packets.by_ref().take(7) {
                assert_eq!(packet, frame(next, 100));
                next += 1;
            }
            let position = packets.position();
            batch.free_to(position);
        }
    }
    assert!(rx.try_recv().unwrap().is_none());
    assert_eq!(rx.counters().full, 0);
}

#[test]
fn taken_packets_are_sent_back_at_once_or_from_a_later_batch() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut back = a.rx_pipe_on(PIPE_BYTES, "p0").unwrap();
    back.bind(&Match::Any).unwrap();
    let mut echo = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    echo.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    for number in 0..5 {
        tx.push(&frame(number, 100)).unwrap();
    }
    tx.publish().unwrap();
    eventually("all five are there", || {
        let mut batch = echo.recv(soon()).unwrap();
        let mut count = 0;
        while batch.next_packet().is_some() {
            count += 1;
        }
        count == 5
    });
    let mut batch = echo.try_recv().unwrap().unwrap();
    batch.next_packet().unwrap();
    batch.next_packet().unwrap();
    batch.send_taken().unwrap();
    assert_eq!(receive(&mut back, 2), [frame(0, 100), frame(1, 100)]);

    let position = {
        let mut batch = echo.try_recv().unwrap().unwrap();
        batch.next_packet().unwrap()[99] = 0xee;
        batch.next_packet().unwrap();
        batch.position()
    };
    echo.try_recv()
        .unwrap()
        .unwrap()
        .send_before(position)
        .unwrap();
    let mut changed = frame(2, 100);
    changed[99] = 0xee;
    assert_eq!(receive(&mut back, 2), [changed, frame(3, 100)]);
    // The last one is still the application's, and nothing goes back twice.
    echo.try_recv()
        .unwrap()
        .unwrap()
        .send_before(position)
        .unwrap();
    let mut batch = echo.try_recv().unwrap().unwrap();
    assert_eq!(
        batch.next_packet().map(|packet| packet.to_vec()),
        Some(frame(4, 100))
    );
    batch.send_taken().unwrap();
    assert_eq!(receive(&mut back, 1), [frame(4, 100)]);
}

#[test]
fn frames_are_changed_and_sent_back_in_place() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut back = a.rx_pipe_on(PIPE_BYTES, "p0").unwrap();
    back.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
    let mut echo = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    echo.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    for number in 0..6 {
        tx.push(&frame(number, 80)).unwrap();
    }
    tx.publish().unwrap();
    let mut seen = 0;
    while seen < 6 {
        let mut batch = echo.recv(soon()).unwrap();
        while let Some(mut packet) = batch.next_packet() {
            packet[79] = 0xee;
            // Odd ones are not sent back.
            if packet[17] % 2 == 1 {
                packet.discard();
            }
            seen += 1;
        }
        batch.send_all().unwrap();
    }
    let got = receive(&mut back, 3);
    for (number, got) in [0, 2, 4].into_iter().zip(got) {
        let mut expected = frame(number, 80);
        expected[79] = 0xee;
        assert_eq!(got, expected);
    }
}

/// An echo on `b` that the lane serves slowly, with four frames of `a` of which it has sent three
/// back. The fourth lies there.
pub fn slow_echo<'d>(a: &Device, b: &'d Device) -> RxTxPipe<'d> {
    let mut echo = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    echo.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
    let rate_limit = Some(RateLimit {
        unit: RateUnit::Packets,
        per_second: 20,
        burst_us: 1000,
    });
    let tuning = PipeTuning {
        rate_limit,
        stamp_at_bytes: None,
    };
    echo.tune(&tuning).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    for number in 0..4 {
        tx.try_send(&frame(number, 64)).unwrap();
    }
    tx.flush(soon()).unwrap();
    eventually("all four are there", || {
        let mut batch = echo.recv(soon()).unwrap();
        let mut count = 0;
        while batch.next_packet().is_some() {
            count += 1;
        }
        count == 4
    });
    echo.recv(soon()).unwrap().send(3).unwrap();
    echo
}

#[test]
fn a_flush_waits_asleep_until_the_port_has_all_frames_sent_back() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut back = a.rx_pipe_on(PIPE_BYTES, "p0").unwrap();
    back.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
    let mut empty = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    assert!(empty.try_flush().unwrap(), "nothing was sent");
    empty.flush(soon()).unwrap();
    drop(empty);

    let mut echo = slow_echo(&a, &b);
    assert!(!echo.try_flush().unwrap());
    let error = echo.flush(Duration::from_millis(1)).unwrap_err();
    let named = format!("pipe {} on port `p0`", echo.id().number());
    assert!(
        matches!(&error, Error::Deadline { what } if what.starts_with(&named)),
        "{error}"
    );
    let doorbells = b.doorbells();
    echo.flush(soon()).unwrap();
    assert!(echo.try_flush().unwrap());
    // The frame that lies there does not keep the flush awake.
    let rung = b.doorbells() - doorbells;
    assert!(rung <= 1, "{rung} doorbells");
    let sent = receive(&mut back, 3);
    assert_eq!(sent, [frame(0, 64), frame(1, 64), frame(2, 64)]);
    let mut left = echo.try_recv().unwrap().unwrap();
    assert_eq!(left.next_packet().unwrap()[..], frame(3, 64));
}

#[test]
fn an_event_loop_is_woken_when_the_port_has_all_frames_sent_back() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut echo = slow_echo(&a, &b);
    let mut turns = 0;
    loop {
        b.arm().unwrap();
        if echo.try_flush().unwrap() {
            break;
        }
        let mut fds = [PollFd::new(b.as_fd(), PollFlags::POLLIN)];
        let woken = poll(&mut fds, PollTimeout::from(60_000_u16)).unwrap();
        assert_eq!(woken, 1, "the wake-up was lost");
        turns += 1;
        assert!(turns < 10, "the loop spins");
    }
    assert!(turns > 0, "the frames took some time");
}

#[test]
fn an_in_place_batch_that_is_dropped_is_received_again() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut echo = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    echo.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    tx.try_send(&frame(1, 64)).unwrap();
    assert!(echo.recv(soon()).unwrap().next_packet().is_some());
    let mut batch = echo.recv(soon()).unwrap();
    assert_eq!(
        batch.next_packet().map(|packet| packet.to_vec()),
        Some(frame(1, 64))
    );
    batch.discard(1).unwrap();
    assert!(echo.try_recv().unwrap().is_none());
}

#[test]
fn waiting_ends_at_its_deadline_and_wakes_for_a_frame() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    let before = Instant::now();
    let error = rx.recv(before + Duration::from_millis(30)).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    assert!(before.elapsed() >= Duration::from_millis(30));
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
            // Each finds the receiver asleep.
            for number in 0..20 {
                thread::sleep(Duration::from_millis(2));
                tx.try_send(&frame(number, 64)).unwrap();
            }
            tx.flush(soon()).unwrap();
        });
        for number in 0..20 {
            let batch = rx.recv(soon()).unwrap();
            assert_eq!(batch.iter().next(), Some(&frame(number, 64)[..]));
            batch.free(1);
        }
    });
}

#[test]
fn one_call_waits_for_many_pipes() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut pipes: Vec<_> = (0..8u16)
        .map(|number| {
            let mut pipe = b.rx_pipe(64 * 1024).unwrap();
            pipe.bind(&Match::EtherType {
                ethertype: 0x9000 + number,
            })
            .unwrap();
            pipe
        })
        .collect();
    let error = b
        .next_rx_pipe(Instant::now() + Duration::from_millis(10))
        .unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }));
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    for round in 0..50u8 {
        for number in [3u8, 0, 7] {
            let mut frame = frame(u32::from(round), 64);
            frame[12..14].copy_from_slice(&[0x90, number]);
            tx.push(&frame).unwrap();
        }
        tx.publish().unwrap();
        let mut got = [0; 8];
        while got.iter().sum::<usize>() < 3 {
            let ready = b.next_rx_pipe(soon()).unwrap();
            let place = pipes.iter().position(|pipe| pipe.id() == ready).unwrap();
            while let Some(batch) = pipes[place].try_recv().unwrap() {
                got[place] += batch.iter().count();
            }
        }
        assert_eq!(got, [1, 0, 0, 1, 0, 0, 0, 1], "round {round}");
    }
    assert_eq!(b.try_next_rx_pipe().unwrap(), None);
}

#[test]
fn a_match_belongs_to_one_pipe_until_it_is_released() {
    let nodes = Nodes::start(&["p0"]);
    let b = nodes.attach("b");
    let other = nodes.attach("b");
    let mut first = b.rx_pipe(PIPE_BYTES).unwrap();
    let mut second = other.rx_pipe(PIPE_BYTES).unwrap();
    first.bind(&Match::Any).unwrap();
    let error = second.bind(&Match::Any).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Refused {
                request,
                reason,
            } if request.contains("any frame") && !reason.is_empty(),
        ),
        "{error}"
    );
    first.unbind(&Match::Any).unwrap();
    second.bind(&Match::Any).unwrap();
    assert!(matches!(
        first.unbind(&Match::Any),
        Err(Error::Refused { .. })
    ));
    // Dropping a pipe removes its bindings.
    drop(second);
    first.bind(&Match::Any).unwrap();
}

#[test]
fn a_slow_reader_hurts_only_itself() {
    let nodes = Nodes::start(&["p0"]);
    let (a, slow, quick) = (nodes.attach("a"), nodes.attach("b"), nodes.attach("b"));
    let mut full = slow.rx_pipe(64 * 1024).unwrap();
    full.bind(&Match::EtherType { ethertype: 0x9001 }).unwrap();
    let mut rx = quick.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let mut flood = frame(0, 1000);
    flood[12..14].copy_from_slice(&[0x90, 0x01]);
    for number in 0..200 {
        for _ in 0..3 {
            tx.send(&flood, soon()).unwrap();
        }
        tx.send(&frame(number, 64), soon()).unwrap();
        assert_eq!(receive(&mut rx, 1), [frame(number, 64)]);
    }
    let status = slow.status().unwrap();
    let pipe = status
        .pipes
        .iter()
        .find(|pipe| pipe.session == slow.session())
        .unwrap();
    let dropped: u64 = pipe.drops.values().sum();
    assert_eq!(dropped + pipe.rx_packets, 600);
    assert!(dropped >= 500, "{dropped}");
    // Packets that fit are in the pipe, intact.
    assert_eq!(receive(&mut full, pipe.rx_packets as usize)[0], flood);
}

#[test]
fn two_applications_send_and_receive_at_once() {
    let nodes = Nodes::start(&["p0"]);
    const COUNT: u32 = 3000;
    thread::scope(|scope| {
        for ethertype in [0x9a00u16, 0x9a01] {
            let nodes = &nodes;
            // Channels, so that a failure of one side stops the other.
            let (bound, is_bound) = mpsc::channel();
            let (done, is_done) = mpsc::channel::<()>();
            scope.spawn(move || {
                let device = nodes.attach("b");
                let mut echo = device.rx_tx_pipe(1 << 20, "p0").unwrap();
                echo.bind(&Match::EtherType { ethertype }).unwrap();
                bound.send(()).unwrap();
                let mut seen = 0;
                while seen < COUNT {
                    let mut batch = echo.recv(soon()).unwrap();
                    while batch.next_packet().is_some() {
                        seen += 1;
                    }
                    batch.send_all().unwrap();
                }
                // The last frames are on the wire before the pipe goes.
                is_done.recv().unwrap();
            });
            scope.spawn(move || {
                is_bound.recv().unwrap();
                ping(&nodes.attach("a"), ethertype, COUNT);
                done.send(()).unwrap();
            });
        }
    });
}

/// Sends `count` frames, 64 in flight at a time, and checks that each comes back in order.
fn ping(device: &Device, ethertype: u16, count: u32) {
    let mut rx = device.rx_pipe_on(1 << 20, "p0").unwrap();
    rx.bind(&Match::EtherType { ethertype }).unwrap();
    let mut tx = device.tx_pipe(1 << 20, "p0").unwrap();
    let (mut sent, mut back) = (0, 0);
    while back < count {
        while sent < count && sent - back < 64 {
            let mut frame = frame(sent, 60 + sent as usize % 1000);
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            tx.push(&frame).unwrap();
            sent += 1;
        }
        tx.publish().unwrap();
        let batch = rx.recv(soon()).unwrap();
        for packet in &batch {
            assert_eq!(packet[14..18], back.to_be_bytes(), "{ethertype:#x}");
            assert_eq!(packet.len(), 60 + back as usize % 1000);
            back += 1;
        }
    }
}

#[test]
fn no_wake_up_is_lost_when_both_sides_sleep_each_time() {
    // Lanes that sleep at once as well.
    let nodes = Nodes::start_with(&["p0"], "[dataplane]\nidle = \"interrupt\"\n");
    const COUNT: u32 = 2000;
    thread::scope(|scope| {
        let (bound, is_bound) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        let nodes = &nodes;
        scope.spawn(move || {
            let device = nodes.attach("b");
            device.set_spin(Duration::ZERO);
            let mut echo = device.rx_tx_pipe(64 * 1024, "p0").unwrap();
            echo.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
            bound.send(()).unwrap();
            for _ in 0..COUNT {
                echo.recv(soon()).unwrap().send(1).unwrap();
            }
            // The last frame is on the wire before the pipe goes.
            is_done.recv().unwrap();
        });
        is_bound.recv().unwrap();
        let device = nodes.attach("a");
        device.set_spin(Duration::ZERO);
        let mut rx = device.rx_pipe_on(64 * 1024, "p0").unwrap();
        rx.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
        let mut tx = device.tx_pipe(64 * 1024, "p0").unwrap();
        for number in 0..COUNT {
            tx.try_send(&frame(number, 64)).unwrap();
            let batch = rx.recv(soon()).unwrap();
            assert_eq!(batch.iter().next(), Some(&frame(number, 64)[..]));
            batch.free_all();
        }
        done.send(()).unwrap();
    });
}

#[test]
fn where_huge_pages_are_required_small_pipes_and_the_verb_queue_are_not_refused() {
    let nodes = Nodes::start_with(&["p0"], "[dataplane]\nhuge_pages = \"require\"\n");
    let device = nodes.attach("a");
    let rx = device.rx_pipe(1 << 16).unwrap();
    let tx = device.tx_pipe(1 << 20, "p0").unwrap();
    assert_eq!((rx.page_bytes(), tx.page_bytes()), (4096, 4096));
    device.verbs().unwrap();
}
