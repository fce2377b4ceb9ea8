//! Verbs that compare, bitwise verbs, batches, queries of verbs in doubt, and the owner's view of a
//! region.

use std::{ffi::c_int, mem, ptr, slice};

use covalent_c::*;

use crate::{
    calls::{OK, SOON_NS, attach, fails, ok, sized},
    nodes::Nodes,
};

const MINUS_2: u64 = u64::MAX - 1;

/// A verb with no field set.
pub const NO_VERB: covalent_verb = covalent_verb {
    struct_bytes: size_of::<covalent_verb>() as u32,
    kind: 0,
    length_bytes: 0,
    offset_bytes: 0,
    operand: 0,
    expected: 0,
    data: ptr::null(),
    words: ptr::null(),
    words_count: 0,
    condition: COVALENT_ALWAYS,
    order: COVALENT_UNSIGNED,
};

/// A region of eight words, registered by the node `b`, and a queue on `a` that has it open.
fn open(nodes: &Nodes) -> (covalent_device, covalent_verb_queue, covalent_remote_region) {
    open_with(nodes, 64, 16)
}

fn open_with(
    nodes: &Nodes,
    size_bytes: u64,
    depth: u32,
) -> (covalent_device, covalent_verb_queue, covalent_remote_region) {
    let (device, host) = (attach(nodes, "a"), attach(nodes, "b"));
    let mut own = covalent_region { handle: 0 };
    let mut queue = covalent_verb_queue { handle: 0 };
    let mut remote = covalent_remote_region {
        node_guid: 0,
        size_bytes: 0,
        rkey: 0,
        rights: 0,
    };
    // SAFETY: strings are NUL-terminated. Out-pointers are valid for writes.
    unsafe {
        ok(covalent_region_register(
            host,
            c"bank".as_ptr(),
            size_bytes,
            7,
            &raw mut own,
        ));
        ok(covalent_verb_queue_open(device, depth, &raw mut queue));
        ok(covalent_verb_queue_open_region(
            queue,
            c"b".as_ptr(),
            c"bank".as_ptr(),
            SOON_NS,
            &raw mut remote,
        ));
    }
    (device, queue, remote)
}

#[test]
fn minima_maxima_and_conditions() {
    let nodes = Nodes::start(&["p0"]);
    let (_device, queue, remote) = open(&nodes);
    let region = &raw const remote;
    let mut old = 7;
    let out = &raw mut old;
    // SAFETY: `region` points to one, `out` may be written.
    unsafe {
        ok(covalent_fetch_max(
            queue,
            region,
            8,
            5,
            COVALENT_SIGNED,
            SOON_NS,
            out,
        ));
        assert_eq!(old, 0);
        ok(covalent_fetch_min(
            queue,
            region,
            8,
            MINUS_2,
            COVALENT_UNSIGNED,
            SOON_NS,
            out,
        ));
        assert_eq!(old, 5);
        ok(covalent_fetch_min(
            queue,
            region,
            8,
            MINUS_2,
            COVALENT_SIGNED,
            SOON_NS,
            out,
        ));
        assert_eq!(old, 5);
        let update = |comparison, comparand, order, kind, operand| -> (c_int, u64) {
            let status = covalent_update_if(
                queue, region, 8, comparison, comparand, order, kind, operand, SOON_NS, out,
            );
            (status, old)
        };
        let mismatch = covalent_status::COVALENT_MISMATCH as c_int;
        let less = COVALENT_IF_LESS;
        assert_eq!(
            update(less, 0, COVALENT_UNSIGNED, COVALENT_WRITE, 9),
            (mismatch, MINUS_2)
        );
        assert_eq!(
            update(less, 0, COVALENT_SIGNED, COVALENT_WRITE, 9),
            (OK, MINUS_2)
        );
        let greater = COVALENT_IF_GREATER_OR_EQUAL;
        assert_eq!(
            update(greater, 9, COVALENT_UNSIGNED, COVALENT_FETCH_ADD, 1),
            (OK, 9)
        );
        assert_eq!(
            update(COVALENT_IF_EQUAL, 9, 0, COVALENT_SWAP, 1),
            (mismatch, 10)
        );
        let invalid = covalent_status::COVALENT_INVALID;
        fails(update(6, 0, 0, COVALENT_SWAP, 1).0, invalid, "condition 6");
        fails(update(less, 0, 2, COVALENT_SWAP, 1).0, invalid, "order 2");
        fails(
            update(less, 0, 0, COVALENT_READ, 1).0,
            invalid,
            "verb 1 takes no condition",
        );
        let status = covalent_fetch_min(queue, region, 8, 0, 3, SOON_NS, out);
        fails(status, invalid, "order 3");
    }
}

#[test]
fn stamps_order_verbs_that_were_waited_for() {
    let nodes = Nodes::start(&["p0"]);
    let (_device, queue, remote) = open(&nodes);
    let region = &raw const remote;
    let mut stamp = covalent_stamp {
        executor: 0,
        executor_count: 0,
        initiator_count: 0,
        lamport: 0,
    };
    let mut stamps = Vec::new();
    for number in 0..20 {
        let verb = covalent_verb {
            kind: COVALENT_FETCH_ADD,
            operand: 1,
            ..NO_VERB
        };
        let (mut id, mut old) = (0, 0);
        let mut completion = std::mem::MaybeUninit::<covalent_completion>::uninit();
        // SAFETY: pointers are those of locals. A value is read only after a successful call has
        // written it.
        unsafe {
            if number % 2 == 0 {
                let out = &raw mut old;
                ok(covalent_fetch_add(queue, region, 8, 1, SOON_NS, out));
                ok(covalent_verb_queue_last_stamp(queue, &raw mut stamp));
            } else {
                let (verb, id_out) = (&raw const verb, &raw mut id);
                ok(covalent_verb_queue_post(
                    queue,
                    region,
                    verb,
                    COVALENT_ONE_PHASE,
                    0,
                    id_out,
                ));
                ok(covalent_verb_queue_wait(
                    queue,
                    id,
                    SOON_NS,
                    completion.as_mut_ptr(),
                ));
                stamp = completion.assume_init().stamp;
            }
        }
        assert_eq!(stamp.executor, remote.node_guid);
        stamps.push(stamp);
    }
    for pair in stamps.windows(2) {
        let [first, second] = [pair[0], pair[1]];
        assert!(first.executor_count < second.executor_count);
        assert!(first.initiator_count < second.initiator_count);
        let order = |first, second| covalent_stamp_order(first, second);
        assert_eq!(order(first, second), covalent_order::COVALENT_ORDER_BEFORE);
        assert_eq!(order(second, first), covalent_order::COVALENT_ORDER_AFTER);
        assert_eq!(order(first, first), covalent_order::COVALENT_ORDER_SAME);
        let elsewhere = covalent_stamp {
            executor: !first.executor,
            ..first
        };
        assert_eq!(order(first, elsewhere), covalent_order::COVALENT_ORDER_NONE);
    }
}

#[test]
fn a_batch_posts_what_fits_and_returns_the_number() {
    let nodes = Nodes::start(&["p0"]);
    let (_device, queue, remote) = open(&nodes);
    let add = covalent_verb {
        kind: COVALENT_FETCH_ADD,
        operand: 1,
        ..NO_VERB
    };
    let capped = covalent_verb {
        kind: COVALENT_FETCH_ADD,
        operand: 1,
        condition: COVALENT_IF_LESS,
        expected: 1000,
        ..NO_VERB
    };
    let post = |user_data: u64| covalent_post {
        region: &raw const remote,
        verb: if user_data < 10 {
            &raw const add
        } else {
            &raw const capped
        },
        user_data,
        mode: COVALENT_ONE_PHASE,
    };
    let posts: Vec<_> = (0..20).map(post).collect();
    let (mut ids, mut posted) = ([0; 20], 0);
    // SAFETY: pointers and lengths belong to arrays.
    unsafe {
        ok(covalent_verb_queue_post_batch(
            queue,
            posts.as_ptr(),
            posts.len(),
            ids.as_mut_ptr(),
            &raw mut posted,
        ));
        assert_eq!(posted, 16, "the queue takes so many");
        assert!(ids[..16].iter().all(|&id| id != 0) && ids[16..] == [0; 4]);
        let full = covalent_verb_queue_post_batch(
            queue,
            posts.as_ptr(),
            1,
            ptr::null_mut(),
            &raw mut posted,
        );
        fails(full, covalent_status::COVALENT_FULL, "16 of 16 verbs");
        assert_eq!(posted, 0);
    }
    let mut room = Vec::with_capacity(16);
    let mut taken = 0;
    while taken < 16 {
        let mut count = 0;
        // SAFETY: there is room for 16 completions. The call initialized as many as `count` states.
        unsafe {
            let start = room.as_mut_ptr();
            ok(covalent_verb_queue_poll(
                queue,
                SOON_NS,
                start,
                16,
                &raw mut count,
            ));
            room.set_len(count);
        }
        for completion in room.drain(..) {
            let completion: covalent_completion = completion;
            assert_eq!(completion.outcome, covalent_outcome::COVALENT_OUTCOME_OLD);
            let place = completion.user_data as usize;
            assert_eq!(std::mem::take(&mut ids[place]), completion.id);
            taken += 1;
        }
    }
    let wrong = covalent_verb {
        condition: COVALENT_IF_LESS,
        kind: COVALENT_MULTI_COMMIT,
        ..NO_VERB
    };
    let signed = covalent_verb {
        order: COVALENT_SIGNED,
        ..add
    };
    for (verb, text) in [
        (&wrong, "takes no condition"),
        (&signed, "compares nothing"),
    ] {
        let posts = [post(0), covalent_post { verb, ..post(1) }];
        // SAFETY: as above.
        unsafe {
            let start = posts.as_ptr();
            let out = &raw mut posted;
            ok(covalent_verb_queue_post_batch(
                queue,
                start,
                2,
                ptr::null_mut(),
                out,
            ));
            assert_eq!(posted, 1, "up to the first that cannot be");
            let status =
                covalent_verb_queue_post_batch(queue, start.add(1), 1, ptr::null_mut(), out);
            fails(status, covalent_status::COVALENT_INVALID, text);
        }
    }
}

#[test]
fn bitwise_verbs_return_the_previous_value() {
    let nodes = Nodes::start(&["p0"]);
    let (_device, queue, remote) = open(&nodes);
    let region = &raw const remote;
    let mut old = 7;
    let out = &raw mut old;
    // SAFETY: `region` points to one, `out` may be written.
    unsafe {
        ok(covalent_fetch_or(queue, region, 8, 0b1100, SOON_NS, out));
        assert_eq!(old, 0);
        ok(covalent_fetch_and(queue, region, 8, 0b0110, SOON_NS, out));
        assert_eq!(old, 0b1100);
        ok(covalent_fetch_xor(queue, region, 8, 0b0101, SOON_NS, out));
        assert_eq!(old, 0b0100);
        ok(covalent_fetch_or(queue, region, 8, 0, SOON_NS, out));
        assert_eq!(old, 0b0001);
    }
}

#[test]
fn a_query_with_a_forged_in_doubt_id_is_forgotten_or_refused() {
    let nodes = Nodes::start(&["p0"]);
    let (_device, queue, _remote) = open(&nodes);
    let outstanding = || {
        let mut outstanding = 77;
        // SAFETY: it may be written.
        ok(unsafe { covalent_verb_queue_outstanding(queue, &raw mut outstanding) });
        outstanding
    };
    let mut forged = covalent_in_doubt_id {
        bytes: [0; COVALENT_IN_DOUBT_ID_BYTES],
    };
    // How the reply is to be read.
    forged.bytes[11] = 1;
    let mut id = 0;
    // SAFETY: `forged` is an in-doubt id, and the others may be written.
    unsafe {
        ok(covalent_verb_queue_query_in_doubt(
            queue,
            &raw const forged,
            5,
            &raw mut id,
        ));
        assert_eq!(outstanding(), 1);
        let mut completion = mem::zeroed::<covalent_completion>();
        ok(covalent_verb_queue_wait(
            queue,
            id,
            SOON_NS,
            &raw mut completion,
        ));
        assert_eq!((completion.id, completion.user_data), (id, 5));
        assert_eq!(
            completion.outcome,
            covalent_outcome::COVALENT_OUTCOME_FORGOTTEN
        );
        assert_eq!(completion.in_doubt.bytes, [0; COVALENT_IN_DOUBT_ID_BYTES]);
        forged.bytes[11] = 9;
        fails(
            covalent_verb_queue_query_in_doubt(queue, &raw const forged, 5, ptr::null_mut()),
            covalent_status::COVALENT_INVALID,
            "the in-doubt id has 9 at byte 11",
        );
        fails(
            covalent_verb_queue_query_in_doubt(queue, ptr::null(), 5, &raw mut id),
            covalent_status::COVALENT_INVALID,
            "in_doubt is null",
        );
    }
    assert_eq!(outstanding(), 0);
}

#[test]
fn the_owner_of_a_region_uses_it_without_verbs() {
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut own = covalent_region { handle: 0 };
    let mut queue = covalent_verb_queue { handle: 0 };
    let (mut rkey, mut old, mut address) = (0, 7, 0);
    let mut bytes = [0xee; 3];
    let mismatch = covalent_status::COVALENT_MISMATCH as c_int;
    // SAFETY: the text ends in a zero. Out-pointers are valid for writes, and slices have the given
    // lengths.
    unsafe {
        let mut node = sized::<covalent_node>();
        ok(covalent_device_node(host, &raw mut node));
        ok(covalent_device_address(host, &raw mut address));
        assert_eq!(address, node.guid, "of lane 0");
        ok(covalent_region_register(
            host,
            c"bank".as_ptr(),
            64,
            7,
            &raw mut own,
        ));
        ok(covalent_region_rkey(own, &raw mut rkey));
        ok(covalent_region_swap(own, 8, 5, &raw mut old));
        assert_eq!(old, 0);
        ok(covalent_region_fetch_add(own, 8, 2, &raw mut old));
        assert_eq!(old, 5);
        let cas = covalent_region_compare_and_swap(own, 8, 5, 9, &raw mut old);
        assert_eq!((cas, old), (mismatch, 7));
        let cas = covalent_region_compare_and_swap(own, 8, 7, 9, &raw mut old);
        assert_eq!((cas, old), (OK, 7));
        ok(covalent_region_write(own, 9, [1, 2].as_ptr(), 2));
        ok(covalent_region_read(
            own,
            8,
            bytes.as_mut_ptr(),
            bytes.len(),
        ));
        assert_eq!(bytes, [9, 1, 2]);
        fails(
            covalent_region_read(own, 62, bytes.as_mut_ptr(), bytes.len()),
            covalent_status::COVALENT_INVALID,
            "64",
        );
        // The key and the address name the region to others.
        let remote = covalent_remote_region {
            node_guid: address,
            size_bytes: 64,
            rkey,
            rights: 7,
        };
        ok(covalent_verb_queue_open(device, 16, &raw mut queue));
        ok(covalent_fetch_add(
            queue,
            &raw const remote,
            8,
            0,
            SOON_NS,
            &raw mut old,
        ));
    }
    assert_eq!(old, 0x02_01_09, "bytes of a region are little-endian words");
}

const EMPTY: covalent_completion = covalent_completion {
    user_data: 0,
    id: 0,
    outcome: covalent_outcome::COVALENT_OUTCOME_DONE,
    refusal: covalent_refusal::COVALENT_REFUSAL_NONE,
    value: 0,
    index: 0,
    data_length_bytes: 0,
    data: ptr::null(),
    in_doubt: covalent_in_doubt_id {
        bytes: [0; COVALENT_IN_DOUBT_ID_BYTES],
    },
    stamp: covalent_stamp {
        executor: 0,
        executor_count: 0,
        initiator_count: 0,
        lamport: 0,
    },
};

const fn reading(offset_bytes: u64, length_bytes: u32) -> covalent_verb {
    covalent_verb {
        kind: COVALENT_READ,
        offset_bytes,
        length_bytes,
        ..NO_VERB
    }
}

/// The bytes of a completion.
fn data(completion: &covalent_completion) -> Vec<u8> {
    assert_eq!(completion.outcome, covalent_outcome::COVALENT_OUTCOME_DATA);
    // SAFETY: the library guarantees that the bytes stay until the queue's next call.
    unsafe { slice::from_raw_parts(completion.data, completion.data_length_bytes as usize) }
        .to_vec()
}

#[test]
fn a_completion_points_to_the_bytes_that_were_read() {
    let nodes = Nodes::start(&["p0"]);
    let (_device, queue, region) = open_with(&nodes, 640, 128);
    let bytes: Vec<u8> = (0..=255)
        .cycle()
        .take(600)
        .map(|it: u16| it as u8)
        .collect();
    // SAFETY: pointers and lengths belong to values that live here.
    unsafe {
        for (at, part) in [(0, &bytes[..300]), (300, &bytes[300..])] {
            let (data, length) = (part.as_ptr(), part.len() as u32);
            ok(covalent_write(
                queue,
                &raw const region,
                at,
                data,
                length,
                SOON_NS,
            ));
        }
        // More reads than one conversion of completions takes.
        for number in 0..100_u64 {
            let verb = reading(number, 1 + number as u32);
            let (verb, id) = (&raw const verb, ptr::null_mut());
            ok(covalent_verb_queue_post(
                queue,
                &raw const region,
                verb,
                1,
                number,
                id,
            ));
        }
        let mut completions = [EMPTY; 100];
        let mut taken = 0;
        while taken < completions.len() {
            let mut count = 0;
            let room = &mut completions[taken..];
            let (room, capacity) = (room.as_mut_ptr(), room.len());
            ok(covalent_verb_queue_poll(
                queue,
                SOON_NS,
                room,
                capacity,
                &raw mut count,
            ));
            for completion in &completions[taken..taken + count] {
                let at = completion.user_data as usize;
                assert_eq!(data(completion), bytes[at..=2 * at]);
            }
            taken += count;
        }
        let mut completion = EMPTY;
        let verb = reading(44, 512);
        let execute = |verb: &covalent_verb, completion: *mut covalent_completion| {
            covalent_verb_queue_execute(
                queue,
                &raw const region,
                &raw const *verb,
                COVALENT_TWO_PHASE,
                SOON_NS,
                completion,
            )
        };
        ok(execute(&verb, &raw mut completion));
        assert_eq!(data(&completion), bytes[44..556]);
        let swap = covalent_verb {
            kind: COVALENT_COMPARE_AND_SWAP,
            offset_bytes: 0,
            expected: 1,
            ..NO_VERB
        };
        let status = execute(&swap, &raw mut completion);
        assert_eq!(status, covalent_status::COVALENT_MISMATCH as i32);
        assert_eq!(
            completion.value,
            u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7])
        );
        assert!(completion.data.is_null());
        fails(
            execute(&reading(1000, 8), &raw mut completion),
            covalent_status::COVALENT_VERB_REFUSED,
            "region",
        );
    }
}

#[test]
fn lookups_and_watches_are_posted() {
    let nodes = Nodes::start(&["p0"]);
    let (_device, queue, remote) = open(&nodes);
    let mut found = covalent_remote_region {
        node_guid: 0,
        size_bytes: 0,
        rkey: 0,
        rights: 0,
    };
    let (mut lookup, mut watch, mut has_room) = (0, 0, 7);
    let mut ended = mem::MaybeUninit::<covalent_completion>::uninit();
    // SAFETY: the text ends in a zero, all others may be written, and a completion is only used
    // after it was filled.
    unsafe {
        let out = ended.as_mut_ptr();
        ok(covalent_verb_queue_has_room(queue, &raw mut has_room));
        assert_eq!(has_room, 1);
        let node = remote.node_guid;
        ok(covalent_verb_queue_post_lookup(
            queue,
            node,
            c"bank".as_ptr(),
            5,
            &raw mut lookup,
        ));
        ok(covalent_verb_queue_wait(queue, lookup, SOON_NS, out));
        let completion = ended.assume_init();
        let region = covalent_outcome::COVALENT_OUTCOME_REGION;
        assert_eq!((completion.outcome, completion.user_data), (region, 5));
        ok(covalent_completion_region(out, &raw mut found));
        assert_eq!(found, remote);
        ok(covalent_verb_queue_post_watch(
            queue,
            node,
            0,
            6,
            &raw mut watch,
        ));
        ok(covalent_verb_queue_wait(queue, watch, SOON_NS, out));
        let completion = ended.assume_init();
        let path = covalent_outcome::COVALENT_OUTCOME_PATH;
        assert_eq!((completion.outcome, completion.value), (path, 1));
        let none = covalent_completion_region(out, &raw mut found);
        let invalid = covalent_status::COVALENT_INVALID;
        fails(none, invalid, "COVALENT_OUTCOME_REGION");
        let watch = |node, known_up| {
            covalent_verb_queue_post_watch(queue, node, known_up, 6, ptr::null_mut())
        };
        fails(watch(0, 1), invalid, "node_guid is 0");
        fails(watch(node, 2), invalid, "known_up");
        // Sixteen that wait fill the queue.
        for _ in 0..16 {
            ok(watch(node, 1));
        }
        ok(covalent_verb_queue_has_room(queue, &raw mut has_room));
        assert_eq!(has_room, 0);
        fails(watch(node, 1), covalent_status::COVALENT_FULL, "16");
    }
}
