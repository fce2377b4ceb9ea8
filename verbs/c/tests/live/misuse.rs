//! Mistakes of C programs: each is an error with a text, and none is a memory access.

use std::{
    ffi::{CStr, CString, c_int},
    mem::MaybeUninit,
    ptr, thread,
};

use covalent_c::*;

use crate::{
    calls::{ANY, NO_TUNING, OK, PIPE_BYTES, SOON_NS, attach, last_error, sized},
    nodes::Nodes,
    verbs::NO_VERB,
};

const INVALID: c_int = covalent_status::COVALENT_INVALID as c_int;
/// Checks that a call was refused as misuse, with a text that contains `text`.
fn is_invalid(status: c_int, text: &str) {
    assert_eq!(status, INVALID, "{}", last_error());
    assert!(last_error().contains(text), "{text} in {}", last_error());
}

#[test]
fn null_pointers_and_bad_text() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let mut out = covalent_device { handle: 0 };
    let mut tx = covalent_pipe { handle: 0 };
    let mut rx = covalent_pipe { handle: 0 };
    // SAFETY: null pointers are rejected. All other pointers meet the functions' requirements.
    unsafe {
        is_invalid(
            covalent_device_attach(ptr::null(), c"test".as_ptr(), 0, &raw mut out),
            "socket_path is null",
        );
        is_invalid(
            covalent_device_attach(c"/s".as_ptr(), ptr::null(), 0, &raw mut out),
            "program is null",
        );
        is_invalid(
            covalent_device_attach(c"/s".as_ptr(), c"test".as_ptr(), 0, ptr::null_mut()),
            "device is null",
        );
        is_invalid(
            covalent_device_attach(c"\xff".as_ptr(), c"test".as_ptr(), 0, &raw mut out),
            "UTF-8",
        );
        is_invalid(
            covalent_pipe_open(device, COVALENT_PIPE_TX, 1 << 16, ptr::null(), &raw mut tx),
            "port is null",
        );
        is_invalid(
            covalent_pipe_open(
                device,
                COVALENT_PIPE_TX,
                1 << 16,
                c"\xc3".as_ptr(),
                &raw mut tx,
            ),
            "UTF-8",
        );
        is_invalid(
            covalent_device_node(device, ptr::null_mut()),
            "node is null",
        );
        is_invalid(
            covalent_device_node(device, ptr::without_provenance_mut(1)),
            "misaligned",
        );

        assert_eq!(
            covalent_pipe_open(
                device,
                COVALENT_PIPE_TX,
                1 << 16,
                c"p0".as_ptr(),
                &raw mut tx
            ),
            OK
        );
        is_invalid(covalent_pipe_push(tx, ptr::null(), 64), "data is null");
        is_invalid(
            covalent_pipe_push(tx, c"x".as_ptr().cast(), usize::MAX),
            "longer than memory",
        );
        assert_eq!(
            covalent_pipe_push(tx, ptr::null(), 0),
            covalent_status::COVALENT_TOO_SHORT as c_int
        );

        assert_eq!(
            covalent_pipe_open(device, COVALENT_PIPE_RX, 1 << 16, ptr::null(), &raw mut rx),
            OK
        );
        is_invalid(covalent_pipe_bind(rx, ptr::null()), "match is null");
        let mut count = 7;
        is_invalid(
            covalent_pipe_peek(rx, 0, ptr::null_mut(), 4, &raw mut count),
            "packets is null",
        );
        assert_eq!(
            covalent_pipe_peek(rx, 0, ptr::null_mut(), 0, &raw mut count),
            OK
        );
        assert_eq!(count, 0);
    }
    assert_eq!(out.handle, 0, "nothing was written");
    assert_eq!(covalent_device_close(device), OK);
}

#[test]
fn handles_that_are_closed_zero_of_another_kind_or_thread() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let mut rx = covalent_pipe { handle: 0 };
    // SAFETY: the arguments meet the functions' requirements.
    unsafe {
        is_invalid(
            covalent_pipe_open(
                covalent_device { handle: 0 },
                COVALENT_PIPE_RX,
                1 << 16,
                ptr::null(),
                &raw mut rx,
            ),
            "no device",
        );
        assert_eq!(
            covalent_pipe_open(device, COVALENT_PIPE_RX, 1 << 16, ptr::null(), &raw mut rx),
            OK
        );
    }
    is_invalid(
        covalent_device_check_connection(covalent_device { handle: rx.handle }),
        "no device",
    );
    is_invalid(
        covalent_pipe_publish(covalent_pipe { handle: rx.handle }),
        "for TX pipes",
    );
    is_invalid(
        covalent_verb_queue_close(covalent_verb_queue { handle: u64::MAX }),
        "no verb queue",
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            is_invalid(covalent_device_check_connection(device), "another thread");
            is_invalid(covalent_pipe_free(rx, 1), "another thread");
            // This thread's own first handles are not mistaken for them.
            let own = attach(&nodes, "a");
            assert_ne!(own, device);
            is_invalid(covalent_device_check_connection(device), "another thread");
            // The exit of the thread closes its open objects.
        });
    });
    assert_eq!(covalent_device_close(device), OK);
    is_invalid(covalent_device_close(device), "not open");
    // The pipe still holds the attachment.
    assert_eq!(covalent_pipe_free(rx, 1), OK);
    assert_eq!(covalent_pipe_close(rx), OK);
    is_invalid(covalent_pipe_free(rx, 1), "not open");
    let mut watcher = covalent::Client::connect(nodes.socket("a"), "test").unwrap();
    crate::nodes::eventually("all attachments have ended", || {
        watcher.status().unwrap().sessions == 0
    });
}

#[test]
fn matches_verbs_and_modes_that_make_no_sense() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let mut rx = covalent_pipe { handle: 0 };
    let mut region = covalent_region { handle: 0 };
    let mut queue = covalent_verb_queue { handle: 0 };
    let unknown = covalent_match { kind: 99, ..ANY };
    // SAFETY: the arguments meet the functions' requirements.
    unsafe {
        assert_eq!(
            covalent_pipe_open(device, COVALENT_PIPE_RX, 1 << 16, ptr::null(), &raw mut rx),
            OK
        );
        is_invalid(covalent_pipe_bind(rx, &raw const unknown), "99");
        let port = covalent_match {
            kind: COVALENT_MATCH_PORT,
            transport: 1,
            ..ANY
        };
        is_invalid(covalent_pipe_bind(rx, &raw const port), "COVALENT_UDP");
        let prefix = covalent_match {
            kind: COVALENT_MATCH_PREFIX,
            dst: c"10.0.0.0/99".as_ptr(),
            ..ANY
        };
        is_invalid(covalent_pipe_bind(rx, &raw const prefix), "10.0.0.0/99");
        let no_dst = covalent_match {
            kind: COVALENT_MATCH_DESTINATION,
            transport: COVALENT_TCP,
            ..ANY
        };
        is_invalid(
            covalent_pipe_bind(rx, &raw const no_dst),
            "match.dst is null",
        );
        let tuple = covalent_match {
            kind: COVALENT_MATCH_FIVE_TUPLE,
            transport: COVALENT_UDP,
            src: c"192.0.2.1".as_ptr(),
            dst: c"2001:db8::1".as_ptr(),
            ..ANY
        };
        assert_ne!(
            covalent_pipe_bind(rx, &raw const tuple),
            OK,
            "addresses of two families"
        );
        let good = covalent_match {
            dst: c"192.0.2.2".as_ptr(),
            ..tuple
        };
        assert_eq!(
            covalent_pipe_bind(rx, &raw const good),
            OK,
            "{}",
            last_error()
        );
        assert_eq!(covalent_pipe_unbind(rx, &raw const good), OK);

        is_invalid(
            covalent_region_register(device, c"own".as_ptr(), 64, 99, &raw mut region),
            "rights",
        );
        assert_eq!(
            covalent_region_register(device, c"own".as_ptr(), 64, 7, &raw mut region),
            OK
        );
        assert_eq!(covalent_verb_queue_open(device, 4, &raw mut queue), OK);
        let mut remote = covalent_remote_region {
            node_guid: 0,
            size_bytes: 0,
            rkey: 0,
            rights: 0,
        };
        let opened = covalent_verb_queue_open_region(
            queue,
            ptr::null(),
            c"own".as_ptr(),
            -1,
            &raw mut remote,
        );
        assert_eq!(
            (opened, remote.size_bytes, remote.rights),
            (OK, 64, 7),
            "{}",
            last_error()
        );
        let post = |verb: covalent_verb, mode: u32| {
            covalent_verb_queue_post(
                queue,
                &raw const remote,
                &raw const verb,
                mode,
                0,
                ptr::null_mut(),
            )
        };
        is_invalid(post(NO_VERB, 1), "verb.kind 0");
        is_invalid(
            post(
                covalent_verb {
                    kind: COVALENT_FETCH_ADD,
                    ..NO_VERB
                },
                3,
            ),
            "mode 3",
        );
        is_invalid(
            post(
                covalent_verb {
                    kind: COVALENT_FETCH_ADD,
                    offset_bytes: 3,
                    ..NO_VERB
                },
                1,
            ),
            "multiple of 8",
        );
        is_invalid(
            post(
                covalent_verb {
                    kind: COVALENT_WRITE,
                    length_bytes: 8,
                    ..NO_VERB
                },
                1,
            ),
            "verb.data is null",
        );
        is_invalid(
            post(
                covalent_verb {
                    kind: COVALENT_MULTI_COMMIT,
                    words_count: 99,
                    ..NO_VERB
                },
                1,
            ),
            "99 words",
        );
        is_invalid(
            post(
                covalent_verb {
                    kind: COVALENT_MULTI_COMMIT,
                    words_count: 2,
                    ..NO_VERB
                },
                1,
            ),
            "words is null",
        );

        let mut found = 0;
        let nowhere = covalent_remote_region {
            rkey: !remote.rkey,
            ..remote
        };
        let status = covalent_fetch_add(queue, &raw const nowhere, 0, 1, -1, &raw mut found);
        assert_eq!(status, covalent_status::COVALENT_VERB_REFUSED as c_int);
        let unknown = format!("node a has no region with key {:#010x}", nowhere.rkey);
        assert!(last_error().contains(&unknown), "{}", last_error());
        let mut absent = remote;
        for (node, at) in [
            (ptr::null(), "a"),
            (c"a".as_ptr(), "a"),
            (c"b".as_ptr(), "b"),
        ] {
            let status = covalent_verb_queue_open_region(
                queue,
                node,
                c"absent".as_ptr(),
                -1,
                &raw mut absent,
            );
            assert_eq!(status, covalent_status::COVALENT_VERB_REFUSED as c_int);
            let unknown = format!("node {at} has no region `absent`");
            assert!(last_error().contains(&unknown), "{}", last_error());
        }
        assert_eq!(absent, remote, "nothing was written");
        is_invalid(
            covalent_fetch_add(queue, ptr::null(), 0, 1, -1, &raw mut found),
            "region is null",
        );
        is_invalid(
            covalent_region_load(region, 4, &raw mut found),
            "multiples of 8",
        );
        assert_eq!(
            covalent_fetch_add(queue, &raw const remote, 8, 5, -1, &raw mut found),
            OK
        );
        assert_eq!(covalent_region_load(region, 8, &raw mut found), OK);
        assert_eq!(found, 5);
    }
    // Regions are for every thread.
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(covalent_region_store(region, 0, 9), OK));
    });
    assert_eq!(covalent_region_close(region), OK);
    is_invalid(covalent_region_store(region, 0, 9), "not open");
}

#[test]
fn a_request_timeout_is_checked() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let mut rx = covalent_pipe { handle: 0 };
    is_invalid(
        covalent_device_set_request_timeout(device, 0),
        "nothing could be answered",
    );
    for timeout_ns in [i64::MAX, i64::MIN, 20_000_000_000] {
        assert_eq!(covalent_device_set_request_timeout(device, timeout_ns), OK);
        // SAFETY: the arguments meet the function's requirements.
        let status = unsafe {
            covalent_pipe_open(device, COVALENT_PIPE_RX, 1 << 16, ptr::null(), &raw mut rx)
        };
        assert_eq!(status, OK, "{}", last_error());
    }
    // Too short for a reply, unless this thread is delayed for longer than the daemon takes.
    assert_eq!(covalent_device_set_request_timeout(device, 1), OK);
    crate::nodes::eventually("an answer arrives too late", || {
        // SAFETY: the arguments meet the function's requirements.
        let status = unsafe {
            covalent_pipe_open(device, COVALENT_PIPE_RX, 1 << 16, ptr::null(), &raw mut rx)
        };
        status == covalent_status::COVALENT_DEADLINE as c_int
    });
}

#[test]
fn statuses_have_names() {
    let name = |status| {
        // SAFETY: never null, ends in a zero.
        let name = unsafe { CStr::from_ptr(covalent_status_name(status)) };
        name.to_str().unwrap()
    };
    assert_eq!(name(0), "COVALENT_OK");
    assert_eq!(name(INVALID), "COVALENT_INVALID");
    assert_eq!(name(-15), "COVALENT_SYSTEM");
    assert_eq!(name(-16), "COVALENT_PIPE_TOO_SMALL");
    assert_eq!(name(-17), "COVALENT_STOPPED");
    assert_eq!(name(-18), "COVALENT_FORGOTTEN");
    assert_eq!(name(-19), "COVALENT_FORKED");
    assert_eq!(name(-20), "COVALENT_LINK_ETHERTYPE");
    assert_eq!(name(-21), "COVALENT_BAD_REPLY");
    assert_eq!(name(-22), "COVALENT_NO_SUCH_PORT");
    assert_eq!(name(-23), "unknown");
    assert_eq!(name(99), "unknown");
}

#[test]
fn outcomes_and_refusals_have_names() {
    // SAFETY: never null, ends in a zero.
    let outcome = unsafe { CStr::from_ptr(covalent_outcome_name(4)) };
    assert_eq!(outcome, c"COVALENT_OUTCOME_REFUSED");
    // SAFETY: as above.
    let refusal = unsafe { CStr::from_ptr(covalent_refusal_name(3)) };
    assert_eq!(refusal, c"COVALENT_REFUSAL_UNKNOWN_REGION");
}

const RECEIVING: &[u32] = &[COVALENT_PIPE_RX, COVALENT_PIPE_RX_TX, COVALENT_PIPE_BYTES];
const TAKING: &[u32] = &[COVALENT_PIPE_RX, COVALENT_PIPE_BYTES];
const OF_FRAMES: &[u32] = &[COVALENT_PIPE_RX, COVALENT_PIPE_TX, COVALENT_PIPE_RX_TX];
const RX: &[u32] = &[COVALENT_PIPE_RX];
const TX: &[u32] = &[COVALENT_PIPE_TX];
const SENDING: &[u32] = &[COVALENT_PIPE_TX, COVALENT_PIPE_RX_TX];
const RX_TX: &[u32] = &[COVALENT_PIPE_RX_TX];
const BYTES: &[u32] = &[COVALENT_PIPE_BYTES];

/// Makes every call that some kind of pipe does not have. Returns the kinds that have it, and how
/// it ended.
fn make_calls(pipe: covalent_pipe) -> Vec<(&'static [u32], c_int, String)> {
    let frame = [2_u8; 60];
    let (mut count, mut in_flight_bytes) = (0, 0);
    let mut data = ptr::null();
    let none = ptr::null_mut();
    let none_mut = ptr::null_mut();
    let mut results = Vec::new();
    let mut made =
        |kinds: &'static [u32], status: c_int| results.push((kinds, status, last_error()));
    // SAFETY: pointers are to values that live here. Arrays without elements may be null.
    unsafe {
        made(RECEIVING, covalent_pipe_bind(pipe, &ANY));
        made(RECEIVING, covalent_pipe_unbind(pipe, &ANY));
        made(
            RECEIVING,
            covalent_pipe_bind_spread(pipe, &ANY, COVALENT_SPREAD_HASH),
        );
        made(OF_FRAMES, covalent_pipe_tune(pipe, &NO_TUNING));
        made(RX, covalent_pipe_recv(pipe, 0, none, 0, &raw mut count));
        made(RX, covalent_pipe_peek(pipe, 0, none, 0, &raw mut count));
        made(RX, covalent_pipe_held(pipe, none, 0, &raw mut count));
        made(
            BYTES,
            covalent_pipe_recv_bytes(pipe, 0, 0, &raw mut data, &raw mut count),
        );
        made(
            BYTES,
            covalent_pipe_held_bytes(pipe, &raw mut data, &raw mut count),
        );
        made(
            RX_TX,
            covalent_pipe_recv_mut(pipe, 0, none_mut, 0, &raw mut count),
        );
        made(TX, covalent_pipe_frame_bytes_max(pipe, &raw mut count));
        made(
            TX,
            covalent_pipe_in_flight_bytes(pipe, &raw mut in_flight_bytes),
        );
        made(TX, covalent_pipe_push(pipe, frame.as_ptr(), frame.len()));
        made(TX, covalent_pipe_send(pipe, frame.as_ptr(), frame.len(), 0));
        let mut room = ptr::null_mut();
        made(TX, covalent_pipe_reserve(pipe, frame.len(), &raw mut room));
    }
    made(TX, covalent_pipe_commit(pipe));
    made(TX, covalent_pipe_publish(pipe));
    made(SENDING, covalent_pipe_flush(pipe, -1));
    made(RECEIVING, covalent_pipe_prefetch(pipe));
    made(TAKING, covalent_pipe_free(pipe, 1));
    made(TAKING, covalent_pipe_confirm(pipe, 1));
    made(TAKING, covalent_pipe_free_held(pipe, 1));
    made(RX, covalent_pipe_free_received(pipe));
    made(RX_TX, covalent_pipe_send_received(pipe));
    made(RX_TX, covalent_pipe_send_back(pipe, 1));
    made(RX_TX, covalent_pipe_discard(pipe, 1));
    results
}

#[test]
fn a_call_that_a_kind_of_pipe_does_not_have_is_refused() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    for (kind, name) in [
        (COVALENT_PIPE_RX, "an RX pipe"),
        (COVALENT_PIPE_TX, "a TX pipe"),
        (COVALENT_PIPE_RX_TX, "an RX/TX pipe"),
        (COVALENT_PIPE_BYTES, "a byte pipe"),
    ] {
        let mut pipe = covalent_pipe { handle: 0 };
        let port = c"p0".as_ptr();
        // SAFETY: the text ends in a zero, `pipe` may be written.
        let status = unsafe { covalent_pipe_open(device, kind, 1 << 16, port, &raw mut pipe) };
        assert_eq!(status, OK, "{}", last_error());
        for (place, (kinds, status, error)) in make_calls(pipe).into_iter().enumerate() {
            if kinds.contains(&kind) {
                assert_eq!(status, OK, "call {place} of {name}: {error}");
            } else {
                assert_eq!(status, INVALID, "call {place} of {name}");
                assert!(error.contains(name), "call {place} of {name}: {error}");
            }
        }
        assert_eq!(covalent_pipe_close(pipe), OK);
    }
    let mut pipe = covalent_pipe { handle: 0 };
    // SAFETY: `pipe` may be written.
    let status = unsafe { covalent_pipe_open(device, 9, 1 << 16, ptr::null(), &raw mut pipe) };
    is_invalid(status, "kind 9");
    // SAFETY: as above.
    let status = unsafe {
        covalent_pipe_open(
            device,
            COVALENT_PIPE_RX_TX,
            1 << 16,
            ptr::null(),
            &raw mut pipe,
        )
    };
    is_invalid(status, "port is null");
}

/// Zeros, without the size in the first field.
///
/// # Safety
/// Zeros are a `T`.
unsafe fn without_size<T>() -> T {
    // SAFETY: the caller's word.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

#[test]
fn a_struct_without_its_size_is_refused_before_anything_happens() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let socket = CString::new(nodes.socket("a").to_str().unwrap()).unwrap();
    let mut client = covalent_client { handle: 0 };
    let mut pipe = covalent_pipe { handle: 0 };
    let mut queue = covalent_verb_queue { handle: 0 };
    let mut group = covalent_group { handle: 0 };
    let mut builder = covalent_group_builder { handle: 0 };
    let (p0, name) = (c"p0".as_ptr(), c"unsized".as_ptr());
    let (mut count, mut outstanding) = (0, 9);
    let refused = |status, text: &str| is_invalid(status, &format!("{text}.struct_bytes is 0"));
    // SAFETY: strings end in a zero. The structs are zeros, and each out-pointer may be written.
    unsafe {
        let size = PIPE_BYTES;
        let (kind, program) = (COVALENT_PIPE_RX, c"test".as_ptr());
        assert_eq!(
            covalent_pipe_open(device, kind, size, p0, &raw mut pipe),
            OK
        );
        assert_eq!(covalent_verb_queue_open(device, 256, &raw mut queue), OK);
        let connected = covalent_client_connect(socket.as_ptr(), program, SOON_NS, &raw mut client);
        assert_eq!(connected, OK);

        let r#match = without_size::<covalent_match>();
        refused(covalent_pipe_bind(pipe, &raw const r#match), "match");
        refused(covalent_pipe_unbind(pipe, &raw const r#match), "match");
        let tuning = without_size::<covalent_pipe_tuning>();
        refused(covalent_pipe_tune(pipe, &raw const tuning), "tuning");
        let mut counters = without_size::<covalent_pipe_counters>();
        let read = covalent_pipe_read_counters(pipe, &raw mut counters);
        refused(read, "counters");

        let mut node = without_size::<covalent_node>();
        refused(covalent_device_node(device, &raw mut node), "node");
        refused(covalent_client_node(client, &raw mut node), "node");
        assert_eq!(node.guid, 0, "nothing was written");
        let mut port = without_size::<covalent_port>();
        refused(covalent_device_port(device, 0, &raw mut port), "port");
        let mut carried = without_size::<covalent_carried>();
        refused(covalent_device_carried(device, &raw mut carried), "carried");
        let mut found = without_size::<covalent_reconnection>();
        let next = covalent_device_next_reconnection(device, &raw mut found);
        refused(next, "reconnection");
        let rates = without_size::<covalent_fault_rates>();
        let set = covalent_client_set_faults(client, p0, &raw const rates, &raw const rates);
        refused(set, "rx");

        let verb = without_size::<covalent_verb>();
        let region = covalent_remote_region {
            node_guid: 0,
            size_bytes: 8,
            rkey: 1,
            rights: 0,
        };
        let mut completion = MaybeUninit::uninit();
        let (region, mode) = (&raw const region, COVALENT_ONE_PHASE);
        let posted =
            covalent_verb_queue_post(queue, region, &raw const verb, mode, 0, ptr::null_mut());
        refused(posted, "verb");
        let executed = covalent_verb_queue_execute(
            queue,
            region,
            &raw const verb,
            mode,
            SOON_NS,
            completion.as_mut_ptr(),
        );
        refused(executed, "verb");
        let flying = covalent_verb_queue_outstanding(queue, &raw mut outstanding);
        assert_eq!((flying, outstanding), (OK, 0), "nothing was posted");

        let options = without_size::<covalent_group_options>();
        let joined = covalent_group_join(device, name, &raw const options, &raw mut group);
        refused(joined, "options");
        let opened =
            covalent_group_builder_open(device, name, &raw const options, &raw mut builder);
        refused(opened, "options");
        let alone = covalent_group_options {
            founders: 1,
            ..sized()
        };
        let joined = covalent_group_join(device, name, &raw const alone, &raw mut group);
        assert_eq!(joined, OK, "{}", last_error());
        let mut event = without_size::<covalent_group_event>();
        for timeout_ns in [0, SOON_NS] {
            refused(
                covalent_group_next(group, timeout_ns, &raw mut event),
                "event",
            );
        }
        event = sized();
        assert_eq!(covalent_group_next(group, SOON_NS, &raw mut event), OK);
        let first = covalent_group_event_kind::COVALENT_GROUP_VIEW;
        assert_eq!(event.kind, first, "no event was lost");
        let mut view = without_size::<covalent_group_view>();
        let mut member = MaybeUninit::uninit();
        let read =
            covalent_group_read_view(group, &raw mut view, member.as_mut_ptr(), 1, &raw mut count);
        refused(read, "view");
        let mut counters = without_size::<covalent_group_counters>();
        let read = covalent_group_read_counters(group, &raw mut counters);
        refused(read, "counters");
    }
}
