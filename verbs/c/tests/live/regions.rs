//! Durable regions as C programs use them.

use std::{
    ffi::CString,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use covalent_c::*;
use covalent_config::Config;
use covalent_dataplane::Daemon;

use crate::{
    calls::{SOON_NS, fails, ok},
    nodes::{config, soon},
};

const NOWHERE: covalent_region = covalent_region { handle: 0 };

fn attach(socket: &Path) -> covalent_device {
    let socket = CString::new(socket.to_str().unwrap()).unwrap();
    let mut device = covalent_device { handle: 0 };
    // SAFETY: texts end in a zero, `device` may be written.
    ok(unsafe { covalent_device_attach(socket.as_ptr(), c"test".as_ptr(), 0, &raw mut device) });
    device
}

fn register(device: covalent_device, size_bytes: u64) -> (i32, covalent_region) {
    let mut region = NOWHERE;
    // SAFETY: the text ends in a zero, `region` may be written.
    let status = unsafe {
        covalent_region_register_durable(
            device,
            c"ledger".as_ptr(),
            size_bytes,
            COVALENT_RIGHT_READ | COVALENT_RIGHT_ATOMIC,
            &raw mut region,
        )
    };
    (status, region)
}

fn word(region: covalent_region) -> u64 {
    let mut word = 77;
    // SAFETY: it may be written.
    ok(unsafe { covalent_region_load(region, 8, &raw mut word) });
    word
}

fn add(device: covalent_device) {
    let mut queue = covalent_verb_queue { handle: 0 };
    let mut remote = covalent_remote_region {
        node_guid: 0,
        size_bytes: 0,
        rkey: 0,
        rights: 0,
    };
    let mut old = 0;
    // SAFETY: the string is NUL-terminated. Out-pointers are valid for writes.
    unsafe {
        ok(covalent_verb_queue_open(device, 16, &raw mut queue));
        let ledger = c"ledger".as_ptr();
        ok(covalent_verb_queue_open_region(
            queue,
            std::ptr::null(),
            ledger,
            SOON_NS,
            &raw mut remote,
        ));
        let region = &raw const remote;
        ok(covalent_fetch_add(
            queue,
            region,
            8,
            5,
            SOON_NS,
            &raw mut old,
        ));
    }
    ok(covalent_verb_queue_close(queue));
}

/// Starts a daemon after another one stopped in this process. A program that another test spawns
/// has copies of all descriptors for an instant, and with them the locks of the stopped daemon.
fn respawn(config: &Config) -> Daemon {
    let deadline = soon();
    loop {
        match Daemon::start(config.clone()) {
            Err(error)
                if error.to_string().contains("in use by another daemon")
                    && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            started => return started.unwrap(),
        }
    }
}

#[test]
fn a_durable_region_outlives_the_daemon_until_it_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    let journal = format!("[journal]\ndirectory = \"{at}/journal\"\nfile_mib = 1");
    let config = config(&directory, "a", &["p0"], &journal);
    for generation in 0..3 {
        let daemon = respawn(&config);
        let device = attach(&config.socket_path());
        let (status, region) = register(device, 4096);
        ok(status);
        assert_eq!(word(region), 5 * generation);
        add(device);
        assert_eq!(word(region), 5 * (generation + 1));
        let (status, _) = register(device, 4096);
        fails(
            status,
            covalent_status::COVALENT_REFUSED,
            "registered already",
        );
        let other = attach(&config.socket_path());
        // SAFETY: the text ends in a zero.
        let status = unsafe { covalent_region_delete(other, c"ledger".as_ptr()) };
        fails(
            status,
            covalent_status::COVALENT_REFUSED,
            "registered by session",
        );
        if generation == 2 {
            // SAFETY: the text ends in a zero.
            ok(unsafe { covalent_region_delete(device, c"ledger".as_ptr()) });
            add(device);
            assert_eq!(word(region), 20, "it is an ordinary region now");
        }
        for device in [device, other] {
            ok(covalent_device_close(device));
        }
        ok(covalent_region_close(region));
        daemon.stop();
    }
    let daemon = respawn(&config);
    let device = attach(&config.socket_path());
    let (status, region) = register(device, 64);
    ok(status);
    assert_eq!(word(region), 0, "it begins anew, with another size");
    daemon.stop();
}

#[test]
fn a_device_and_its_region_live_through_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory, "a", &["p0"], "");
    let daemon = respawn(&config);
    let device = attach(&config.socket_path());
    ok(covalent_device_set_reconnect(device, SOON_NS));
    let mut reported = covalent_reconnection {
        struct_bytes: size_of::<covalent_reconnection>() as u32,
        in_order: 0,
        gap_ns: 0,
    };
    let mut region = NOWHERE;
    let rights = COVALENT_RIGHT_READ | COVALENT_RIGHT_ATOMIC;
    let name = c"ledger".as_ptr();
    // SAFETY: the string is NUL-terminated. Out-pointers are valid for writes.
    unsafe {
        ok(covalent_region_register(
            device,
            name,
            4096,
            rights,
            &raw mut region,
        ));
        let nothing = covalent_device_next_reconnection(device, &raw mut reported);
        fails(nothing, covalent_status::COVALENT_DEADLINE, "found again");
    }
    add(device);
    daemon.stop();
    let daemon = respawn(&config);
    assert_eq!(word(region), 5);
    ok(covalent_device_check_connection(device));
    add(device);
    assert_eq!(word(region), 10);
    let mut carried = covalent_carried {
        struct_bytes: size_of::<covalent_carried>() as u32,
        frames: 1,
        frames_lost: 1,
        bytes_lost: 1,
        messages_lost: 1,
        verbs: 1,
        verbs_forgotten: 1,
    };
    // SAFETY: out-pointers are valid for writes.
    unsafe {
        ok(covalent_device_next_reconnection(device, &raw mut reported));
        ok(covalent_device_carried(device, &raw mut carried));
    }
    assert!(reported.in_order == 1 && reported.gap_ns > 0);
    assert_eq!((carried.verbs, carried.verbs_forgotten), (0, 0));
    // Not any more.
    ok(covalent_device_set_reconnect(device, 0));
    daemon.stop();
    let gone = covalent_device_check_connection(device);
    fails(gone, covalent_status::COVALENT_DAEMON_GONE, "is gone");
}

#[test]
fn the_requirements_of_a_durable_region_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory, "a", &["p0"], "");
    let daemon = Daemon::start(config.clone()).unwrap();
    let device = attach(&config.socket_path());
    let (status, region) = register(device, 64);
    fails(status, covalent_status::COVALENT_REFUSED, "[journal]");
    assert_eq!(region, NOWHERE);
    // SAFETY: the text ends in a zero.
    let status = unsafe { covalent_region_delete(device, c"ledger".as_ptr()) };
    fails(
        status,
        covalent_status::COVALENT_REFUSED,
        "no durable region",
    );
    // SAFETY: a null pointer is refused.
    let status = unsafe { covalent_region_delete(device, std::ptr::null()) };
    fails(status, covalent_status::COVALENT_INVALID, "name");
    daemon.stop();
}
