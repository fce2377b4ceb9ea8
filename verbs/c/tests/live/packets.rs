//! Pipes of packets as C programs use them: holding, writing in place, counters, rates and stamps.

use std::{
    ptr, slice,
    time::{Duration, Instant},
};

use covalent_c::*;

use crate::{
    calls::{
        ANY, NO_TUNING, PIPE_BYTES, SOON_NS, TO_PORT, attach, fails, no_counters, ok, send, tx_pipe,
    },
    nodes::{Nodes, eventually},
};

fn rx_pipe(device: covalent_device) -> covalent_pipe {
    let mut pipe = covalent_pipe { handle: 0 };
    // SAFETY: `pipe` may be written.
    ok(unsafe {
        covalent_pipe_open(
            device,
            COVALENT_PIPE_RX,
            PIPE_BYTES,
            ptr::null(),
            &raw mut pipe,
        )
    });
    // SAFETY: the match is one.
    ok(unsafe { covalent_pipe_bind(pipe, &ANY) });
    pipe
}

/// Makes a call that returns up to eight packets.
fn returned(
    call: impl FnOnce(*mut covalent_packet, usize, *mut usize) -> i32,
) -> Vec<&'static [u8]> {
    let mut packets = [covalent_packet {
        data: ptr::null(),
        length_bytes: 0,
    }; 8];
    let mut count = 77;
    ok(call(packets.as_mut_ptr(), packets.len(), &raw mut count));
    packets[..count]
        .iter()
        // SAFETY: the library guarantees that the bytes stay until they are freed. The tests read
        // none after that.
        .map(|packet| unsafe { slice::from_raw_parts(packet.data, packet.length_bytes) })
        .collect()
}

fn recv(pipe: covalent_pipe, timeout_ns: i64) -> Vec<&'static [u8]> {
    // SAFETY: `packets` has room for `capacity` elements. Both out-pointers are valid for writes.
    returned(|packets, capacity, count| unsafe {
        covalent_pipe_peek(pipe, timeout_ns, packets, capacity, count)
    })
}

fn held(pipe: covalent_pipe) -> Vec<&'static [u8]> {
    // SAFETY: as above.
    returned(|packets, capacity, count| unsafe {
        covalent_pipe_held(pipe, packets, capacity, count)
    })
}

/// The first bytes of packets.
fn firsts(packets: &[&[u8]]) -> Vec<u8> {
    packets.iter().map(|packet| packet[0]).collect()
}

#[test]
fn packets_are_held_until_they_are_freed() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let pipe = rx_pipe(b);
    let tx = tx_pipe(a);
    for number in 1..=5 {
        send(tx, &[number; 60]);
    }
    eventually("all have arrived", || recv(pipe, SOON_NS).len() == 5);
    let all = recv(pipe, 0);
    assert_eq!(firsts(&all), [1, 2, 3, 4, 5]);
    assert!(held(pipe).is_empty());
    ok(covalent_pipe_confirm(pipe, 3));
    assert_eq!(firsts(&recv(pipe, 0)), [4, 5]);
    assert_eq!(firsts(&held(pipe)), [1, 2, 3]);
    assert_eq!(held(pipe)[0].as_ptr(), all[0].as_ptr(), "where it was");
    ok(covalent_pipe_free_held(pipe, 1));
    assert_eq!(firsts(&held(pipe)), [2, 3]);
    ok(covalent_pipe_free(pipe, 0));
    assert_eq!(firsts(&held(pipe)), [2, 3]);
    ok(covalent_pipe_free(pipe, 1));
    assert!(held(pipe).is_empty(), "freed with the packets behind them");
    assert_eq!(firsts(&recv(pipe, 0)), [5]);
    ok(covalent_pipe_confirm(pipe, usize::MAX));
    ok(covalent_pipe_free_held(pipe, usize::MAX));
    assert!(held(pipe).is_empty());
    // SAFETY: none is written, the count is checked.
    fails(
        unsafe { covalent_pipe_held(pipe, ptr::null_mut(), 0, ptr::null_mut()) },
        covalent_status::COVALENT_INVALID,
        "count is null",
    );

    let next = |timeout_ns| {
        let mut ready = 99;
        // SAFETY: it may be written.
        unsafe { covalent_device_next_rx_pipe(b, timeout_ns, &raw mut ready) }
    };
    // Consume all earlier notifications.
    while next(0) == 0 {}
    send(tx, &[6; 60]);
    ok(next(SOON_NS));
    ok(covalent_pipe_prefetch(pipe));
    eventually("the lane notifies again", || next(0) == 0);

    eventually("the lane has counted", || {
        let mut counters = no_counters();
        // SAFETY: it may be written.
        ok(unsafe { covalent_pipe_read_counters(pipe, &raw mut counters) });
        (counters.rx_packets, counters.rx_bytes) == (6, 360)
    });
}

#[test]
fn each_kind_of_pipe_reports_its_page_size() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let tx = tx_pipe(device);
    let mut rx = covalent_pipe { handle: 0 };
    let mut rx_tx = covalent_pipe { handle: 0 };
    let mut bytes = covalent_pipe { handle: 0 };
    let mut returned = [7; 4];
    // SAFETY: strings are NUL-terminated. Out-pointers are valid for writes.
    unsafe {
        ok(covalent_pipe_open(
            device,
            COVALENT_PIPE_RX,
            PIPE_BYTES,
            ptr::null(),
            &raw mut rx,
        ));
        ok(covalent_pipe_open(
            device,
            COVALENT_PIPE_RX_TX,
            PIPE_BYTES,
            c"p0".as_ptr(),
            &raw mut rx_tx,
        ));
        ok(covalent_pipe_open(
            device,
            COVALENT_PIPE_BYTES,
            PIPE_BYTES,
            ptr::null(),
            &raw mut bytes,
        ));
        ok(covalent_pipe_page_bytes(tx, &raw mut returned[0]));
        ok(covalent_pipe_page_bytes(rx, &raw mut returned[1]));
        ok(covalent_pipe_page_bytes(rx_tx, &raw mut returned[2]));
        ok(covalent_pipe_page_bytes(bytes, &raw mut returned[3]));
        fails(
            covalent_pipe_page_bytes(tx, ptr::null_mut()),
            covalent_status::COVALENT_INVALID,
            "page_bytes is null",
        );
    }
    assert_eq!(returned, [4096; 4], "below a huge page they are small");
    for pipe in [tx, rx, rx_tx, bytes] {
        let mut capacity_bytes = 0;
        // SAFETY: it may be written.
        ok(unsafe { covalent_pipe_capacity_bytes(pipe, &raw mut capacity_bytes) });
        assert_eq!(capacity_bytes, PIPE_BYTES);
    }
}

/// As a Rust program that drops its batch: the next call that returns packets frees the last ones.
#[test]
fn received_packets_are_taken_by_the_next_receive_unless_some_are_kept() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let pipe = rx_pipe(b);
    let tx = tx_pipe(a);
    for number in 1..=9 {
        send(tx, &[number; 60]);
    }
    eventually("all have arrived", || recv(pipe, SOON_NS).len() == 8);
    let two = || {
        // SAFETY: `packets` has room for two. Both out-pointers are valid for writes.
        firsts(&returned(|packets, _, count| unsafe {
            covalent_pipe_recv(pipe, SOON_NS, packets, 2, count)
        }))
    };
    assert_eq!(two(), [1, 2]);
    assert_eq!(two(), [3, 4]);
    assert_eq!(
        firsts(&recv(pipe, 0)),
        [5, 6, 7, 8, 9],
        "a look ends it too"
    );
    assert_eq!(two(), [5, 6], "a look takes nothing");
    ok(covalent_pipe_confirm(pipe, 1));
    assert_eq!(two(), [6, 7], "the unconfirmed one is received again");
    assert_eq!(firsts(&held(pipe)), [5]);
    ok(covalent_pipe_free(pipe, 1));
    assert!(held(pipe).is_empty());
    assert_eq!(two(), [7, 8]);
    ok(covalent_pipe_free(pipe, 0));
    assert_eq!(two(), [7, 8], "nothing was freed");
    ok(covalent_pipe_free_received(pipe));
    assert_eq!(two(), [9]);
    assert!(recv(pipe, 0).is_empty());
}

#[test]
fn returned_packets_are_freed_once_and_no_others() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let pipe = rx_pipe(b);
    let tx = tx_pipe(a);
    for number in 1..=9 {
        send(tx, &[number; 60]);
    }
    eventually("all have arrived", || {
        let mut counters = no_counters();
        // SAFETY: it may be written.
        ok(unsafe { covalent_pipe_read_counters(pipe, &raw mut counters) });
        counters.rx_packets == 9
    });
    ok(covalent_pipe_free_received(pipe));
    let three = || {
        // SAFETY: `packets` has room for three. Both out-pointers are valid for writes.
        firsts(&returned(|packets, _, count| unsafe {
            covalent_pipe_peek(pipe, 0, packets, 3, count)
        }))
    };
    assert_eq!(
        three(),
        [1, 2, 3],
        "nothing was announced, so nothing was freed"
    );
    ok(covalent_pipe_free_received(pipe));
    ok(covalent_pipe_free_received(pipe));
    assert_eq!(three(), [4, 5, 6], "announced once, freed once");
    // A call that frees or confirms some of them leaves the others.
    ok(covalent_pipe_free(pipe, 1));
    ok(covalent_pipe_confirm(pipe, 1));
    ok(covalent_pipe_free_received(pipe));
    assert_eq!(firsts(&held(pipe)), [5], "confirmed since");
    assert_eq!(three(), [6, 7, 8]);
    ok(covalent_pipe_free_received(pipe));
    assert!(held(pipe).is_empty(), "freed with the packets behind it");
    assert_eq!(three(), [9]);
    ok(covalent_pipe_confirm(pipe, 3));
    ok(covalent_pipe_free_received(pipe));
    assert_eq!(firsts(&held(pipe)), [9], "confirmed since");
    assert!(three().is_empty());
}

#[test]
fn returned_packets_are_sent_back_once_and_no_others() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut echo = covalent_pipe { handle: 0 };
    // SAFETY: the text ends in a zero, `echo` may be written, the match is one.
    unsafe {
        ok(covalent_pipe_open(
            b,
            COVALENT_PIPE_RX_TX,
            PIPE_BYTES,
            c"p0".as_ptr(),
            &raw mut echo,
        ));
        ok(covalent_pipe_bind(echo, &ANY));
    }
    let back = rx_pipe(a);
    let tx = tx_pipe(a);
    for number in 1..=5 {
        send(tx, &[number; 60]);
    }
    eventually("all have arrived", || {
        let mut counters = no_counters();
        // SAFETY: it may be written.
        ok(unsafe { covalent_pipe_read_counters(echo, &raw mut counters) });
        counters.rx_packets == 5
    });
    let three = || {
        let mut packets = [covalent_packet_mut {
            data: ptr::null_mut(),
            length_bytes: 0,
        }; 3];
        let mut count = 77;
        // SAFETY: `packets` has room for three. Both out-pointers are valid for writes.
        ok(unsafe { covalent_pipe_recv_mut(echo, 0, packets.as_mut_ptr(), 3, &raw mut count) });
        // SAFETY: the library's word: they are this application's until they are sent.
        let first = |packet: &covalent_packet_mut| unsafe { *packet.data };
        packets[..count].iter().map(first).collect::<Vec<u8>>()
    };
    let next = || {
        let mut ready = 99;
        // SAFETY: it may be written.
        let status = unsafe { covalent_device_next_rx_pipe(b, 0, &raw mut ready) };
        (status, ready)
    };
    while next().0 == 0 {}
    ok(covalent_pipe_prefetch(echo));
    let mut number = 77;
    // SAFETY: it may be written.
    ok(unsafe { covalent_pipe_number(echo, &raw mut number) });
    eventually("the lane notifies again", || next() == (0, number));

    ok(covalent_pipe_send_received(echo));
    assert_eq!(
        three(),
        [1, 2, 3],
        "nothing was announced, so nothing was sent"
    );
    ok(covalent_pipe_discard(echo, 1));
    ok(covalent_pipe_send_received(echo));
    ok(covalent_pipe_send_received(echo));
    assert_eq!(three(), [4, 5], "announced once, sent once");
    ok(covalent_pipe_send_received(echo));
    assert!(three().is_empty());
    eventually("four returned", || recv(back, SOON_NS).len() == 4);
    assert_eq!(firsts(&recv(back, 0)), [2, 3, 4, 5]);
}

#[test]
fn a_frame_is_written_where_it_is_sent_from() {
    use covalent_status::{COVALENT_FULL, COVALENT_INVALID, COVALENT_TOO_LONG, COVALENT_TOO_SHORT};
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let pipe = rx_pipe(b);
    let tx = tx_pipe(a);
    let reserve = |length: usize| {
        let mut data = ptr::null_mut();
        // SAFETY: `data` may be written.
        let status = unsafe { covalent_pipe_reserve(tx, length, &raw mut data) };
        (status, data)
    };
    let write = |byte: u8, length: usize| {
        let (status, data) = reserve(length);
        ok(status);
        // SAFETY: the library reserved `length` bytes at `data`.
        unsafe { data.write_bytes(byte, length) };
        data
    };
    fails(
        covalent_pipe_commit(tx),
        COVALENT_INVALID,
        "nothing is reserved",
    );
    let first = write(1, 100);
    assert_eq!(write(2, 100), first, "the first was taken back");
    ok(covalent_pipe_commit(tx));
    fails(
        covalent_pipe_commit(tx),
        COVALENT_INVALID,
        "nothing is reserved",
    );
    write(3, 200);
    ok(covalent_pipe_commit(tx));
    ok(covalent_pipe_publish(tx));
    // A push cancels the reservation, so that no half-written frame is sent.
    write(4, 200);
    send(tx, &[5; 60]);
    fails(
        covalent_pipe_commit(tx),
        COVALENT_INVALID,
        "nothing is reserved",
    );
    eventually("three have arrived", || recv(pipe, SOON_NS).len() == 3);
    let lengths_and_bytes: Vec<(usize, u8)> = recv(pipe, 0)
        .iter()
        .map(|packet| {
            assert!(packet.iter().all(|byte| *byte == packet[0]));
            (packet.len(), packet[0])
        })
        .collect();
    assert_eq!(lengths_and_bytes, [(100, 2), (200, 3), (60, 5)]);

    fails(reserve(13).0, COVALENT_TOO_SHORT, "13 bytes");
    fails(reserve(100_000).0, COVALENT_TOO_LONG, "100000");
    // SAFETY: null is checked.
    fails(
        unsafe { covalent_pipe_reserve(tx, 60, ptr::null_mut()) },
        COVALENT_INVALID,
        "data is null",
    );
    // Nothing is sent before it is published, so the pipe fills.
    let mut committed = 0_u64;
    loop {
        let (status, _) = reserve(1000);
        if status != 0 {
            fails(status, COVALENT_FULL, "full");
            break;
        }
        ok(covalent_pipe_commit(tx));
        committed += 1;
    }
    assert_eq!(committed, (PIPE_BYTES - 64) / 1024);
    let mut counters = no_counters();
    // SAFETY: it may be written.
    ok(unsafe { covalent_pipe_read_counters(tx, &raw mut counters) });
    assert_eq!((counters.tx_full, counters.unstamped), (1, 0));
    assert_eq!(counters.port_lost, 0);
    eventually("the lane has counted", || {
        let mut counters = no_counters();
        // SAFETY: it may be written.
        ok(unsafe { covalent_pipe_read_counters(tx, &raw mut counters) });
        (counters.tx_packets, counters.tx_bytes) == (3, 360)
    });
}

#[test]
fn the_ethertype_of_links_has_a_status_of_its_own() {
    use covalent_status::{COVALENT_INVALID, COVALENT_LINK_ETHERTYPE};
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let typed = |ethertype| covalent_match {
        kind: COVALENT_MATCH_ETHERTYPE,
        ethertype,
        ..ANY
    };
    let (of_links, other) = (typed(0x88b5), typed(0x88b6));
    let mut rx = covalent_pipe { handle: 0 };
    let mut echo = covalent_pipe { handle: 0 };
    let mut bytes = covalent_pipe { handle: 0 };
    let refused = |status, text| fails(status, COVALENT_LINK_ETHERTYPE, text);
    // SAFETY: the arguments meet the functions' requirements.
    unsafe {
        ok(covalent_pipe_open(
            b,
            COVALENT_PIPE_RX,
            PIPE_BYTES,
            ptr::null(),
            &raw mut rx,
        ));
        ok(covalent_pipe_open(
            b,
            COVALENT_PIPE_RX_TX,
            PIPE_BYTES,
            c"p0".as_ptr(),
            &raw mut echo,
        ));
        ok(covalent_pipe_open(
            b,
            COVALENT_PIPE_BYTES,
            PIPE_BYTES,
            ptr::null(),
            &raw mut bytes,
        ));
        refused(covalent_pipe_bind(rx, &raw const of_links), "not bound");
        let status =
            covalent_pipe_bind_spread(rx, &raw const of_links, COVALENT_SPREAD_ROUND_ROBIN);
        refused(status, "0x88b6");
        refused(covalent_pipe_bind(echo, &raw const of_links), "0x88b5");
        refused(covalent_pipe_bind(bytes, &raw const of_links), "0x88b5");
        let status = covalent_pipe_bind_spread(bytes, &raw const of_links, COVALENT_SPREAD_HASH);
        refused(status, "0x88b5");
        ok(covalent_pipe_bind_spread(
            bytes,
            &TO_PORT,
            COVALENT_SPREAD_HASH,
        ));
        ok(covalent_pipe_bind(rx, &raw const other));
    }

    let tx = tx_pipe(a);
    let mut frame = [2; 60];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let mut tagged = [2; 60];
    tagged[12..18].copy_from_slice(&[0x81, 0, 0, 7, 0x88, 0xb5]);
    for frame in [frame, tagged] {
        // SAFETY: pointer and length belong to a slice. The room has the frame's length.
        unsafe {
            let (data, length) = (frame.as_ptr(), frame.len());
            refused(covalent_pipe_push(tx, data, length), "frame not sent");
            for timeout_ns in [0, SOON_NS, -1] {
                let status = covalent_pipe_send(tx, data, length, timeout_ns);
                refused(status, "`link.ethertype`");
            }
            let mut room = ptr::null_mut();
            ok(covalent_pipe_reserve(tx, length, &raw mut room));
            ptr::copy_nonoverlapping(data, room, length);
        }
        refused(covalent_pipe_commit(tx), "0x88b6");
        // The reservation ended with the call.
        fails(
            covalent_pipe_commit(tx),
            COVALENT_INVALID,
            "nothing is reserved",
        );
    }
    frame[13] = 0xb6;
    send(tx, &frame);
    assert_eq!(
        recv(rx, SOON_NS),
        [&frame[..]],
        "the only one that was sent"
    );
}

#[test]
fn rates_and_stamps_are_set_and_checked() {
    use covalent_status::{COVALENT_INVALID, COVALENT_REFUSED};
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let rx = rx_pipe(b);
    let tx = tx_pipe(a);
    let stamp = |at| covalent_pipe_tuning {
        stamp: 1,
        stamp_at_bytes: at,
        ..NO_TUNING
    };
    let rate = |unit, per_second| covalent_pipe_tuning {
        rate_unit: unit,
        rate_per_second: per_second,
        burst_us: 1000,
        ..NO_TUNING
    };
    // SAFETY: a tuning.
    let tune_tx =
        |tuning: covalent_pipe_tuning| unsafe { covalent_pipe_tune(tx, &raw const tuning) };
    // SAFETY: a tuning.
    let tune_rx =
        |tuning: covalent_pipe_tuning| unsafe { covalent_pipe_tune(rx, &raw const tuning) };
    fails(tune_tx(rate(3, 1)), COVALENT_INVALID, "tuning.rate_unit 3");
    let two = covalent_pipe_tuning {
        stamp: 2,
        ..NO_TUNING
    };
    fails(tune_tx(two), COVALENT_INVALID, "tuning.stamp 2");
    fails(
        tune_tx(rate(COVALENT_RATE_BITS, 0)),
        COVALENT_REFUSED,
        "expected 1 to",
    );
    fails(tune_tx(stamp(u32::MAX)), COVALENT_REFUSED, "does not fit");
    fails(
        tune_rx(rate(COVALENT_RATE_PACKETS, 1)),
        COVALENT_REFUSED,
        "sends nothing",
    );
    // SAFETY: null is checked.
    unsafe {
        let status = covalent_pipe_tune(tx, ptr::null());
        fails(status, COVALENT_INVALID, "tuning is null");
        let status = covalent_pipe_tune(rx, ptr::without_provenance(1));
        fails(status, COVALENT_INVALID, "misaligned");
    }

    // 500 packets each second, of which two may be sent at once.
    ok(tune_tx(covalent_pipe_tuning {
        burst_us: 4000,
        ..rate(COVALENT_RATE_PACKETS, 500)
    }));
    ok(tune_rx(stamp(20)));
    let start = Instant::now();
    for _ in 0..20 {
        send(tx, &[7; 60]);
    }
    let mut stamps = Vec::new();
    while stamps.len() < 20 {
        let packets = recv(rx, SOON_NS);
        for packet in &packets {
            stamps.push(u64::from_be_bytes(packet[20..28].try_into().unwrap()));
            assert_eq!(packet[..20], [7; 20]);
            assert_eq!(packet[28..], [7; 32]);
        }
        ok(covalent_pipe_free(rx, packets.len()));
    }
    // 20 packets less a burst of two and the first.
    assert!(start.elapsed() >= Duration::from_millis(17 * 2));
    assert!(stamps.is_sorted(), "{stamps:?}");
    assert!(u128::from(stamps[19] - stamps[0]) <= start.elapsed().as_nanos());
    ok(tune_tx(NO_TUNING));
    ok(tune_rx(NO_TUNING));
    send(tx, &[8; 60]);
    assert_eq!(recv(rx, SOON_NS), [&[8; 60]]);

    let unstamped = || {
        let mut counters = no_counters();
        // SAFETY: it may be written.
        ok(unsafe { covalent_pipe_read_counters(rx, &raw mut counters) });
        assert_eq!(counters.no_payload, 0);
        counters.unstamped
    };
    let before = unstamped();
    ok(tune_rx(stamp(60)));
    send(tx, &[8; 60]);
    eventually("it passed unstamped", || unstamped() == before + 1);
}

#[test]
fn an_rx_tx_pipe_is_tuned_and_counts_both_directions() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut echo = covalent_pipe { handle: 0 };
    let tuning = covalent_pipe_tuning {
        rate_unit: COVALENT_RATE_BITS,
        rate_per_second: 1_000_000_000,
        burst_us: 1000,
        stamp: 1,
        stamp_at_bytes: 14,
        ..NO_TUNING
    };
    // SAFETY: the arguments meet the functions' requirements.
    unsafe {
        ok(covalent_pipe_open(
            b,
            COVALENT_PIPE_RX_TX,
            PIPE_BYTES,
            c"p0".as_ptr(),
            &raw mut echo,
        ));
        ok(covalent_pipe_bind(echo, &ANY));
        ok(covalent_pipe_tune(echo, &raw const tuning));
        fails(
            covalent_pipe_tune(echo, ptr::null()),
            covalent_status::COVALENT_INVALID,
            "tuning is null",
        );
        fails(
            covalent_pipe_read_counters(echo, ptr::null_mut()),
            covalent_status::COVALENT_INVALID,
            "counters is null",
        );
    }
    let back = rx_pipe(a);
    let tx = tx_pipe(a);
    for _ in 0..3 {
        send(tx, &[9; 60]);
    }
    let mut seen = 0;
    while seen < 3 {
        let mut packets = [covalent_packet_mut {
            data: ptr::null_mut(),
            length_bytes: 0,
        }; 1];
        let mut count = 0;
        // SAFETY: there is room for one packet. Both out-pointers are valid for writes.
        ok(unsafe {
            covalent_pipe_recv_mut(echo, SOON_NS, packets.as_mut_ptr(), 1, &raw mut count)
        });
        if seen == 0 {
            ok(covalent_pipe_discard(echo, count));
        } else {
            ok(covalent_pipe_send_back(echo, count));
        }
        seen += count;
    }
    ok(covalent_pipe_flush(echo, SOON_NS));
    ok(covalent_pipe_flush(echo, 0));
    eventually("two returned", || recv(back, SOON_NS).len() == 2);
    for packet in recv(back, 0) {
        assert_ne!(packet[14..22], [9; 8], "stamped when it arrived");
        assert_eq!(packet[22..], [9; 38]);
    }
    eventually("the lane has counted", || {
        let mut counters = no_counters();
        // SAFETY: it may be written.
        ok(unsafe { covalent_pipe_read_counters(echo, &raw mut counters) });
        (
            counters.rx_packets,
            counters.tx_packets,
            counters.tx_discarded,
        ) == (3, 2, 1)
    });
}
