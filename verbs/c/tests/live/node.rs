//! What C programs learn about their device, their objects and their node, and how they control it.

use std::{
    ffi::{CStr, CString, c_char},
    ptr, slice,
};

use covalent_c::*;
use covalent_dataplane::Daemon;

use crate::{
    calls::{PIPE_BYTES, SOON_NS, attach, fails, ok, send, sized, tx_pipe},
    nodes::{Nodes, config, eventually},
};

const INVALID: covalent_status = covalent_status::COVALENT_INVALID;

fn empty_name() -> covalent_name {
    covalent_name {
        text: [1; COVALENT_NAME_ROOM_BYTES],
    }
}

fn text_of(name: &covalent_name) -> &str {
    // SAFETY: the library closes names with a zero.
    unsafe { CStr::from_ptr(name.text.as_ptr()) }
        .to_str()
        .unwrap()
}

/// Makes a call that returns JSON, and parses it.
fn json(call: impl FnOnce(*mut *const c_char) -> i32) -> serde_json::Value {
    let mut text = ptr::null();
    ok(call(&raw mut text));
    // SAFETY: the text ends in a zero, and no other call returned JSON since.
    serde_json::from_str(unsafe { CStr::from_ptr(text) }.to_str().unwrap()).unwrap()
}

#[test]
fn a_device_reports_its_lane_session_doorbells_and_status() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let (mut lane, mut session, mut before, mut after) = (9, 0, 0, 0);
    let mut name = empty_name();
    ok(covalent_device_set_spin(device, 0));
    fails(covalent_device_set_spin(device, -1), INVALID, "spin_ns -1");
    // SAFETY: all of them may be written.
    unsafe {
        ok(covalent_device_lane(device, &raw mut lane));
        ok(covalent_device_lane_name(device, &raw mut name));
        ok(covalent_device_session(device, &raw mut session));
        ok(covalent_device_doorbells(device, &raw mut before));
        fails(
            covalent_device_lane(device, ptr::null_mut()),
            INVALID,
            "lane is null",
        );
    }
    assert_eq!((lane, text_of(&name)), (0, "a"));
    let tx = tx_pipe(device);
    eventually("a sleeping lane is woken", || {
        send(tx, &[2; 60]);
        // SAFETY: it may be written.
        ok(unsafe { covalent_device_doorbells(device, &raw mut after) });
        after > before
    });
    // SAFETY: it may be written.
    let status = json(|out| unsafe { covalent_device_status_json(device, out) });
    assert_eq!(status["node"], "a");
    assert!(
        status["pipes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|pipe| pipe["session"] == session),
        "{status}"
    );
}

#[test]
fn objects_report_their_names_and_sizes() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let mut region = covalent_region { handle: 0 };
    let mut queue = covalent_receive_queue { handle: 0 };
    let mut verbs = covalent_verb_queue { handle: 0 };
    let mut names = [empty_name(), empty_name()];
    let (mut size_bytes, mut capacity_bytes, mut depth) = (0, 0, 0);
    // SAFETY: texts end in a zero, and all of the others may be written.
    unsafe {
        ok(covalent_region_register(
            device,
            c"bank".as_ptr(),
            64,
            7,
            &raw mut region,
        ));
        ok(covalent_receive_queue_open(
            device,
            c"orders".as_ptr(),
            4096,
            &raw mut queue,
        ));
        ok(covalent_verb_queue_open(device, 33, &raw mut verbs));
        ok(covalent_region_size_bytes(region, &raw mut size_bytes));
        ok(covalent_region_name(region, &raw mut names[0]));
        ok(covalent_receive_queue_capacity_bytes(
            queue,
            &raw mut capacity_bytes,
        ));
        ok(covalent_receive_queue_name(queue, &raw mut names[1]));
        ok(covalent_verb_queue_depth(verbs, &raw mut depth));
    }
    assert_eq!((size_bytes, capacity_bytes, depth), (64, 4096, 33));
    assert_eq!(names.each_ref().map(text_of), ["bank", "orders"]);
}

#[test]
fn a_client_watches_and_controls_its_node() {
    let nodes = Nodes::start(&["p0"]);
    let socket = CString::new(nodes.socket("a").to_str().unwrap()).unwrap();
    let mut client = covalent_client { handle: 0 };
    let none = covalent_fault_rates {
        struct_bytes: size_of::<covalent_fault_rates>() as u32,
        drop_per_100k: 0,
        corrupt_per_100k: 0,
        duplicate_per_100k: 0,
        blackhole: 0,
    };
    // SAFETY: texts end in a zero, rates are some, and all of the others may be written.
    let events = unsafe {
        let program = c"test".as_ptr();
        ok(covalent_client_connect(
            socket.as_ptr(),
            program,
            SOON_NS,
            &raw mut client,
        ));
        let mut node = sized::<covalent_node>();
        ok(covalent_client_node(client, &raw mut node));
        assert_eq!(CStr::from_ptr(node.name.as_ptr()), c"a");
        assert_eq!(
            json(|out| covalent_client_status_json(client, out))["node"],
            "a"
        );
        fails(
            covalent_client_set_request_timeout(client, 0),
            INVALID,
            "nothing could be",
        );
        ok(covalent_client_set_request_timeout(client, SOON_NS));
        ok(covalent_client_subscribe(client));
        let mut text = ptr::null();
        let status = covalent_client_next_event_json(client, 0, &raw mut text);
        fails(
            status,
            covalent_status::COVALENT_DEADLINE,
            "an event arrived",
        );
        let status = covalent_client_set_port(client, c"p0".as_ptr(), 2);
        fails(status, INVALID, "enabled is 2");
        ok(covalent_client_set_port(client, c"p0".as_ptr(), 0));
        ok(covalent_client_set_port(client, c"p0".as_ptr(), 1));
        let status = covalent_client_set_faults(client, c"p0".as_ptr(), &none, &none);
        fails(status, covalent_status::COVALENT_REFUSED, "p0");
        let status = covalent_client_delete_region(client, c"absent".as_ptr());
        fails(status, covalent_status::COVALENT_REFUSED, "absent");
        [(); 2].map(|()| json(|out| covalent_client_next_event_json(client, SOON_NS, out)))
    };
    for event in &events {
        assert!(event["sequence"].is_u64(), "{event}");
    }
    ok(covalent_client_close(client));
    fails(covalent_client_subscribe(client), INVALID, "not open");
}

#[test]
fn a_capture_has_the_frames_that_a_port_sends() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let mut pipe = covalent_pipe { handle: 0 };
    let port = c"p0".as_ptr();
    // SAFETY: the text ends in a zero, and `pipe` may be written.
    ok(unsafe { covalent_pipe_open(device, COVALENT_PIPE_RX, PIPE_BYTES, port, &raw mut pipe) });
    fails(covalent_pipe_tap(pipe, 3, 64), INVALID, "frames 3");
    ok(covalent_pipe_tap(pipe, COVALENT_TAP_DATA, 20));
    let tx = tx_pipe(device);
    send(tx, &[7; 60]);
    fails(
        covalent_pipe_tap(tx, COVALENT_TAP_ALL, 64),
        INVALID,
        "a TX pipe",
    );
    let mut packet = covalent_packet {
        data: ptr::null(),
        length_bytes: 0,
    };
    let mut head = covalent_tap_head {
        at_ns: 0,
        frame_bytes: 0,
        missed: 9,
        sent: 9,
        reserved: 9,
    };
    let (mut count, mut frame, mut frame_bytes) = (0, ptr::null(), 0);
    // SAFETY: all of them may be written. The record is what the library returned.
    let frame = unsafe {
        ok(covalent_pipe_recv(
            pipe,
            SOON_NS,
            &raw mut packet,
            1,
            &raw mut count,
        ));
        let (data, length) = (packet.data, packet.length_bytes);
        ok(covalent_tap_split(
            data,
            length,
            &raw mut head,
            &raw mut frame,
            &raw mut frame_bytes,
        ));
        let status =
            covalent_tap_split(data, 5, &raw mut head, &raw mut frame, &raw mut frame_bytes);
        fails(status, INVALID, "more than 5 bytes");
        let none = ptr::null_mut();
        let status = covalent_tap_split(data, length, &raw mut head, none, &raw mut frame_bytes);
        fails(status, INVALID, "frame is null");
        slice::from_raw_parts(frame, frame_bytes)
    };
    assert_eq!(frame, [7; 20], "as much as was asked for");
    assert!(head.at_ns > 1_700_000_000_000_000_000);
    assert_eq!(
        (head.frame_bytes, head.missed, head.sent, head.reserved),
        (60, 0, 1, 0)
    );
}

#[test]
fn a_notice_is_in_the_status_until_it_is_closed() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let groups = || {
        // SAFETY: it may be written.
        let status = json(|out| unsafe { covalent_device_status_json(device, out) });
        status["groups"].as_array().map_or(0, Vec::len)
    };
    let mut notice = covalent_notice { handle: 0 };
    let mut words = [0; COVALENT_NOTICE_WORDS + 1];
    words[0] = 1 | 6 << 16;
    words[5] = u64::from_le_bytes(*b"orders\0\0");
    // SAFETY: it may be written, and pointer and length belong to an array.
    unsafe {
        ok(covalent_notice_open(device, &raw mut notice));
        let all = covalent_notice_publish(notice, words.as_ptr(), words.len());
        fails(all, INVALID, "at most 50 words");
        ok(covalent_notice_publish(notice, words.as_ptr(), 6));
    }
    assert_eq!(groups(), 1);
    ok(covalent_notice_close(notice));
    assert_eq!(groups(), 0);
    fails(covalent_notice_close(notice), INVALID, "not open");
    ok(covalent_device_check_process(device));
}

#[test]
fn a_port_leads_to_the_lane_that_owns_it_and_an_unknown_one_is_refused_with_a_list() {
    let directory = tempfile::tempdir().unwrap();
    let mut two = config(&directory, "b", &["p0", "p1"], "[[lane]]\n[[lane]]\n");
    two.port[1].lane = 1;
    let _b = Daemon::start(two).unwrap();
    let socket = directory.path().join("b/covalentd.sock");
    let socket = CString::new(socket.to_str().unwrap()).unwrap();
    let attach = |port: &CStr, device: *mut covalent_device| {
        // SAFETY: texts end in a zero, and `device` may be written or is null.
        unsafe {
            covalent_device_attach_for_port(
                socket.as_ptr(),
                c"test".as_ptr(),
                port.as_ptr(),
                device,
            )
        }
    };
    let expected = "node b has no port `p2`: it has p0, p1. Use one of these";
    let mut device = covalent_device { handle: 0 };
    for (index, port) in (0..).zip([c"p0", c"p1"]) {
        let (mut lane, mut pipe) = (9, covalent_pipe { handle: 0 });
        ok(attach(port, &raw mut device));
        // SAFETY: zeros are a port. All three may be written, and texts end in a zero.
        let found = unsafe {
            let mut found = sized::<covalent_port>();
            ok(covalent_device_port(device, index, &raw mut found));
            assert_eq!(CStr::from_ptr(found.name.as_ptr()), port);
            ok(covalent_device_lane(device, &raw mut lane));
            ok(covalent_pipe_open(
                device,
                COVALENT_PIPE_RX_TX,
                PIPE_BYTES,
                port.as_ptr(),
                &raw mut pipe,
            ));
            found
        };
        assert_eq!((lane, found.lane), (index, index));
        // SAFETY: text ends in a zero, and `other` may be written.
        let unknown = unsafe {
            let mut other = covalent_pipe { handle: 0 };
            let name = c"p2".as_ptr();
            covalent_pipe_open(device, COVALENT_PIPE_TX, PIPE_BYTES, name, &raw mut other)
        };
        fails(unknown, covalent_status::COVALENT_NO_SUCH_PORT, expected);
        ok(covalent_pipe_close(pipe));
        ok(covalent_device_close(device));
    }
    let unknown = attach(c"p2", &raw mut device);
    fails(unknown, covalent_status::COVALENT_NO_SUCH_PORT, expected);
    fails(attach(c"p0", ptr::null_mut()), INVALID, "device is null");
}
