//! Byte pipes as C programs use them.

use std::{ptr, slice};

use covalent::Client;
use covalent_c::*;

use crate::{
    calls::{
        OK, PIPE_BYTES, SOON_NS, TO_PORT, attach, datagram, fails, last_error, no_counters, ok,
        send, sized, tx_pipe,
    },
    nodes::{Nodes, eventually},
};

fn open(device: covalent_device) -> covalent_pipe {
    let mut pipe = covalent_pipe { handle: 0 };
    // SAFETY: `pipe` may be written.
    ok(unsafe {
        covalent_pipe_open(
            device,
            COVALENT_PIPE_BYTES,
            PIPE_BYTES,
            ptr::null(),
            &raw mut pipe,
        )
    });
    // SAFETY: the match is one.
    ok(unsafe { covalent_pipe_bind(pipe, &TO_PORT) });
    pipe
}

/// Makes a call that returns bytes.
fn returned(call: impl FnOnce(*mut *const u8, *mut usize) -> i32) -> (i32, &'static [u8]) {
    let mut data = ptr::without_provenance(8);
    let mut length = 77;
    let status = call(&raw mut data, &raw mut length);
    if length == 0 {
        assert!(data.is_null());
        return (status, &[]);
    }
    // SAFETY: the library guarantees that the bytes stay until they are freed. The tests read none
    // after that.
    (status, unsafe { slice::from_raw_parts(data, length) })
}

fn recv(pipe: covalent_pipe, more_than: usize, timeout_ns: i64) -> (i32, &'static [u8]) {
    // SAFETY: both may be written.
    returned(|data, length| unsafe {
        covalent_pipe_recv_bytes(pipe, more_than, timeout_ns, data, length)
    })
}

fn held(pipe: covalent_pipe) -> &'static [u8] {
    // SAFETY: both may be written.
    let (status, held) =
        returned(|data, length| unsafe { covalent_pipe_held_bytes(pipe, data, length) });
    ok(status);
    held
}

#[test]
fn bytes_stay_until_they_are_freed_and_arrive_in_order() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let pipe = open(b);
    let tx = tx_pipe(a);
    assert_eq!(recv(pipe, 0, 0), (OK, &[][..]));
    for payload in [&b"abc"[..], b"de", b"fghij"] {
        send(tx, &datagram(payload));
    }
    let (status, all) = recv(pipe, 9, SOON_NS);
    assert_eq!((status, all), (OK, &b"abcdefghij"[..]), "{}", last_error());
    assert_eq!(recv(pipe, 9, 0).1.as_ptr(), all.as_ptr(), "reported again");
    assert_eq!(
        recv(pipe, 10, 0),
        (OK, &[][..]),
        "there are not more than ten"
    );
    assert_eq!(recv(pipe, 3, -1), (OK, all));

    ok(covalent_pipe_free(pipe, 0));
    ok(covalent_pipe_free(pipe, 1));
    assert_eq!(recv(pipe, 0, 0), (OK, &b"bcdefghij"[..]));
    ok(covalent_pipe_confirm(pipe, 4));
    assert_eq!(held(pipe), b"bcde");
    assert_eq!(held(pipe).as_ptr(), all[1..].as_ptr(), "where they were");
    assert_eq!(recv(pipe, 0, 0), (OK, &b"fghij"[..]));
    ok(covalent_pipe_free_held(pipe, 1));
    assert_eq!(held(pipe), b"cde");
    ok(covalent_pipe_free(pipe, 0));
    assert_eq!(held(pipe), b"cde", "nothing was freed");
    ok(covalent_pipe_free(pipe, 2));
    assert_eq!(held(pipe), b"", "freed with the bytes behind them");
    assert_eq!(recv(pipe, 0, 0), (OK, &b"hij"[..]));
    ok(covalent_pipe_confirm(pipe, usize::MAX));
    assert_eq!(held(pipe), b"hij");
    assert_eq!(recv(pipe, 0, 0), (OK, &[][..]));
    ok(covalent_pipe_free_held(pipe, usize::MAX));
    ok(covalent_pipe_free(pipe, usize::MAX));
    assert_eq!(held(pipe), b"");

    let (status, _) = recv(pipe, 0, 1_000_000);
    fails(status, covalent_status::COVALENT_DEADLINE, "arrived");
    eventually("the lane has counted", || {
        let mut counters = no_counters();
        // SAFETY: it may be written.
        ok(unsafe { covalent_pipe_read_counters(pipe, &raw mut counters) });
        (counters.rx_packets, counters.rx_bytes) == (3, 10)
    });

    // SAFETY: the match is one.
    ok(unsafe { covalent_pipe_unbind(pipe, &TO_PORT) });
    ok(covalent_pipe_close(pipe));
    fails(
        covalent_pipe_free(pipe, 1),
        covalent_status::COVALENT_INVALID,
        "not open",
    );
}

#[test]
fn a_prefetched_byte_pipe_is_reported_again() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let pipe = open(b);
    let mut number = 99;
    // SAFETY: it may be written.
    ok(unsafe { covalent_pipe_number(pipe, &raw mut number) });
    send(tx_pipe(a), &datagram(b"news"));
    let next = |timeout_ns| {
        let mut ready = 98;
        // SAFETY: it may be written.
        let status = unsafe { covalent_device_next_rx_pipe(b, timeout_ns, &raw mut ready) };
        (status == OK).then_some(ready)
    };
    assert_eq!(next(SOON_NS), Some(number));
    assert_eq!(next(0), None);
    ok(covalent_pipe_prefetch(pipe));
    eventually("the lane notifies again", || next(0) == Some(number));
}

#[test]
fn more_than_a_pipe_holds_and_other_misuse_is_refused() {
    use covalent_status::{COVALENT_INVALID, COVALENT_PIPE_TOO_SMALL};
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let pipe = open(b);
    let most = PIPE_BYTES as usize - 64;
    for timeout_ns in [0, 1, SOON_NS, -1] {
        for more_than in [most, usize::MAX] {
            let (status, _) = recv(pipe, more_than, timeout_ns);
            fails(status, COVALENT_PIPE_TOO_SMALL, "open a larger pipe");
        }
    }
    assert_eq!(recv(pipe, most - 1, 0), (OK, &[][..]));
    send(tx_pipe(a), &datagram(b"kept"));
    ok(recv(pipe, 3, SOON_NS).0);
    ok(covalent_pipe_confirm(pipe, 4));
    let (status, _) = recv(pipe, most - 4, 0);
    fails(status, COVALENT_PIPE_TOO_SMALL, "free held bytes");

    let mut data = ptr::null();
    let mut length = 0;
    let mut other = covalent_pipe { handle: 0 };
    // SAFETY: null pointers are rejected. All other pointers meet the functions' requirements.
    unsafe {
        let status = covalent_pipe_recv_bytes(pipe, 0, 0, ptr::null_mut(), &raw mut length);
        fails(status, COVALENT_INVALID, "data is null");
        let status = covalent_pipe_recv_bytes(pipe, 0, 0, &raw mut data, ptr::null_mut());
        fails(status, COVALENT_INVALID, "length_bytes is null");
        let status =
            covalent_pipe_held_bytes(pipe, ptr::without_provenance_mut(1), &raw mut length);
        fails(status, COVALENT_INVALID, "misaligned");
        let status = covalent_pipe_read_counters(pipe, ptr::null_mut());
        fails(status, COVALENT_INVALID, "counters is null");
        let status = covalent_pipe_number(pipe, ptr::null_mut());
        fails(status, COVALENT_INVALID, "number is null");
        let status = covalent_pipe_bind(pipe, ptr::null());
        fails(status, COVALENT_INVALID, "match is null");
        let status = covalent_pipe_open(
            b,
            COVALENT_PIPE_BYTES,
            PIPE_BYTES,
            c"\xff".as_ptr(),
            &raw mut other,
        );
        fails(status, COVALENT_INVALID, "UTF-8");
        let status = covalent_pipe_open(
            b,
            COVALENT_PIPE_BYTES,
            PIPE_BYTES,
            c"p9".as_ptr(),
            &raw mut other,
        );
        fails(status, covalent_status::COVALENT_NO_SUCH_PORT, "p9");
        let status = covalent_pipe_open(
            b,
            COVALENT_PIPE_BYTES,
            PIPE_BYTES,
            ptr::null(),
            ptr::null_mut(),
        );
        fails(status, COVALENT_INVALID, "pipe is null");
    }
    let zero = covalent_pipe { handle: 0 };
    fails(covalent_pipe_confirm(zero, 1), COVALENT_INVALID, "no pipe");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let status = covalent_pipe_free_held(pipe, 1);
            fails(status, COVALENT_INVALID, "another thread");
        });
    });
    assert_eq!(held(pipe), b"kept");
}

/// A free applies to the bytes returned last, even if more bytes arrived from the next daemon
/// since.
#[test]
fn bytes_of_the_previous_daemon_are_freed_before_new_ones() {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    ok(covalent_device_set_reconnect(b, SOON_NS));
    let pipe = open(b);
    let tx = tx_pipe(a);
    send(tx, &datagram(b"one"));
    assert_eq!(recv(pipe, 0, SOON_NS).1, b"one");
    nodes.stop("b");
    nodes.respawn("b");
    ok(covalent_device_check_connection(b));
    assert_eq!(
        recv(pipe, 0, 0).1,
        b"one",
        "the remaining data is received first"
    );
    let arrived = || {
        let status = Client::connect(nodes.socket("b"), "test").unwrap();
        let status = { status }.status().unwrap();
        let packets: u64 = status.pipes.iter().map(|pipe| pipe.rx_packets).sum();
        packets > 0
    };
    eventually("the next daemon brings something", || {
        send(tx, &datagram(b"next"));
        arrived()
    });
    ok(covalent_pipe_free(pipe, 3));
    let (status, next) = recv(pipe, 0, SOON_NS);
    ok(status);
    assert!(next.starts_with(b"next"), "{next:?}");
    // SAFETY: it is made of numbers, and may be written.
    let carried: covalent_carried = unsafe {
        let mut carried = sized();
        ok(covalent_device_carried(b, &raw mut carried));
        carried
    };
    assert_eq!(carried.bytes_lost, 0);

    // Returned and unconsumed bytes are discarded if there are newer bytes.
    ok(covalent_pipe_free(pipe, next.len() - 1));
    nodes.stop("b");
    nodes.respawn("b");
    ok(covalent_device_check_connection(b));
    let mut returned = recv(pipe, 0, 0).1.to_vec();
    assert!(returned.ends_with(b"t"), "{returned:?}");
    eventually("the beginning of a message is given up", || {
        send(tx, &datagram(b"last"));
        returned = recv(pipe, 0, 0).1.to_vec();
        returned.starts_with(b"last")
    });
}
