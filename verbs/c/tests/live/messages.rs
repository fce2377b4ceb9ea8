//! Messages between C programs.

use std::{ffi::c_int, ptr, slice, thread, time::Duration};

use covalent_c::*;

use crate::{
    calls::{OK, SOON_NS, attach, fails, ok},
    nodes::Nodes,
};

const LONGEST: u32 = COVALENT_MESSAGE_BYTES_MAX as u32;

/// The queue `orders` of the node `b`.
fn receive_queue(device: covalent_device, capacity_bytes: u64) -> covalent_receive_queue {
    let mut queue = covalent_receive_queue { handle: 0 };
    // SAFETY: the text ends in a zero, and `queue` may be written.
    ok(unsafe {
        covalent_receive_queue_open(device, c"orders".as_ptr(), capacity_bytes, &raw mut queue)
    });
    queue
}

/// A queue of verbs of `device`, and `orders` as they name it.
fn open(device: covalent_device) -> (covalent_verb_queue, covalent_remote_region) {
    let mut queue = covalent_verb_queue { handle: 0 };
    let mut remote = covalent_remote_region {
        node_guid: 0,
        size_bytes: 0,
        rkey: 0,
        rights: 0,
    };
    // SAFETY: strings are NUL-terminated. Out-pointers are valid for writes.
    unsafe {
        ok(covalent_verb_queue_open(device, 16, &raw mut queue));
        ok(covalent_verb_queue_open_region(
            queue,
            c"b".as_ptr(),
            c"orders".as_ptr(),
            SOON_NS,
            &raw mut remote,
        ));
    }
    (queue, remote)
}

fn send(queue: covalent_verb_queue, remote: &covalent_remote_region, data: &[u8]) -> c_int {
    let region = &raw const *remote;
    // SAFETY: `region` is valid. Pointer and length belong to a slice.
    unsafe { covalent_send(queue, region, data.as_ptr(), data.len() as u32, SOON_NS) }
}

/// Takes a message. Returns the status, the bytes and the message's fields.
fn recv(queue: covalent_receive_queue, timeout_ns: i64) -> (c_int, Vec<u8>, covalent_received) {
    let mut message = covalent_received {
        data: ptr::without_provenance(8),
        length_bytes: 77,
        sender_guid: 77,
        stamp: covalent::Stamp::default().into(),
    };
    // SAFETY: `message` may be written.
    let status = unsafe { covalent_receive_queue_recv(queue, timeout_ns, &raw mut message) };
    if message.length_bytes == 0 {
        assert!(message.data.is_null());
        return (status, Vec::new(), message);
    }
    // SAFETY: the library guarantees that the bytes stay until the next call.
    let data = unsafe { slice::from_raw_parts(message.data, message.length_bytes) };
    (status, data.to_vec(), message)
}

#[test]
fn messages_are_sent_and_received() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let own = receive_queue(b, 1 << 16);
    let (queue, remote) = open(a);
    assert_eq!(remote.rights, COVALENT_RIGHT_SEND);
    let mut rkey = 0;
    // SAFETY: `rkey` may be written.
    ok(unsafe { covalent_receive_queue_rkey(own, &raw mut rkey) });
    assert_eq!(remote.rkey, rkey);
    assert_eq!(recv(own, 0).0, OK);
    let waited = recv(own, 1_000_000).0;
    fails(waited, covalent_status::COVALENT_DEADLINE, "message");

    let longest: Vec<u8> = (0..LONGEST).map(|at| (at * 7) as u8).collect();
    for data in [&b"x"[..], b"twelve bytes", &longest] {
        ok(send(queue, &remote, data));
        let (status, received, message) = recv(own, 0);
        assert_eq!((status, &received[..]), (OK, data));
        let mut stamp = covalent::Stamp::default().into();
        // SAFETY: `stamp` may be written.
        ok(unsafe { covalent_verb_queue_last_stamp(queue, &raw mut stamp) });
        let order = covalent_stamp_order(stamp, message.stamp);
        assert_eq!(order, covalent_order::COVALENT_ORDER_SAME);
        assert_ne!(message.sender_guid, message.stamp.executor, "of two nodes");
    }
    let too_long = send(queue, &remote, &[0; LONGEST as usize + 1]);
    fails(too_long, covalent_status::COVALENT_INVALID, "send");

    let verb = covalent_verb {
        kind: COVALENT_SEND,
        length_bytes: LONGEST,
        data: longest.as_ptr(),
        ..crate::verbs::NO_VERB
    };
    let (mut id, mut taken) = (0, 0);
    let mut completion = std::mem::MaybeUninit::<covalent_completion>::uninit();
    // SAFETY: all pointers are valid. Out-pointers are valid for writes.
    unsafe {
        ok(covalent_verb_queue_post(
            queue,
            &raw const remote,
            &raw const verb,
            COVALENT_TWO_PHASE,
            5,
            &raw mut id,
        ));
        ok(covalent_verb_queue_poll(
            queue,
            SOON_NS,
            completion.as_mut_ptr(),
            1,
            &raw mut taken,
        ));
        assert_eq!(taken, 1);
        let completion = completion.assume_init();
        assert_eq!(completion.outcome, covalent_outcome::COVALENT_OUTCOME_DONE);
        assert_eq!(completion.user_data, 5);
    }
    assert_eq!(recv(own, -1).1, longest);
    ok(covalent_receive_queue_close(own));
    let closed = recv(own, 0).0;
    fails(closed, covalent_status::COVALENT_INVALID, "not open");
}

#[test]
fn a_full_queue_reports_that_and_a_sleeping_receiver_is_woken() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let own = receive_queue(b, 40);
    let (queue, remote) = open(a);
    for _ in 0..10 {
        ok(send(queue, &remote, b"8 bytes."));
        let full = send(queue, &remote, b"x");
        fails(full, covalent_status::COVALENT_FULL, "no room");
        assert_eq!(recv(own, 0).1, b"8 bytes.");
    }
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let (queue, remote) = open(attach(&nodes, "a"));
            // Long enough for the receiver to fall asleep. If it does not, the test is only easier
            // to pass.
            thread::sleep(Duration::from_millis(50));
            ok(send(queue, &remote, b"wake up"));
        });
        let (status, data, _) = recv(own, SOON_NS);
        assert_eq!((status, &data[..]), (OK, &b"wake up"[..]));
        sender.join().unwrap();
    });
    let mut none = covalent_receive_queue { handle: 0 };
    // SAFETY: the text ends in a zero, and `none` may be written.
    let refused = unsafe { covalent_receive_queue_open(b, c"none".as_ptr(), 32, &raw mut none) };
    fails(refused, covalent_status::COVALENT_INVALID, "40 bytes");
    // SAFETY: null is checked.
    let null = unsafe { covalent_receive_queue_recv(own, 0, ptr::null_mut()) };
    fails(null, covalent_status::COVALENT_INVALID, "message is null");
}

#[test]
fn a_withdrawn_queue_refuses_messages() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let own = receive_queue(b, 40);
    let (queue, remote) = open(a);
    ok(covalent_receive_queue_withdraw(own));
    let refused = send(queue, &remote, b"x");
    fails(refused, covalent_status::COVALENT_VERB_REFUSED, "region");
    let closed = covalent_receive_queue_withdraw(own);
    fails(closed, covalent_status::COVALENT_INVALID, "not open");
    // Its name is free.
    assert_eq!(recv(receive_queue(b, 40), 0).0, OK);
}
