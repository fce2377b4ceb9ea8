//! Holes that an application punched before it reported memory as mapped do not affect a lane.

use std::{fs, os::fd::OwnedFd};

use covalent_api::request::{PipeKind, Request, Rights};
use rustix::fs::{FallocateFlags, fallocate, fstat};

use super::{
    client::{CAPACITY_BYTES, Client},
    node::{self, Node, pair_on_a_cable},
    turn,
};

/// KiB of each of the daemon's mappings of a file, and how many of them it would have to wait for.
fn mapped_and_missing_kib(node: &Node, inode: u64) -> Vec<(u64, u64)> {
    let maps = fs::read_to_string(format!("/proc/{}/smaps", node.pid())).expect("it lives");
    let mut found = Vec::new();
    let mut ours = false;
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kib = || words[1].parse::<u64>().expect("a number");
        match words[0] {
            "Size:" if ours => found.push((kib(), kib())),
            "Rss:" if ours => found.last_mut().expect("its size comes first").1 -= kib(),
            span if span.contains('-') => ours = words[4] == inode.to_string(),
            _ => {}
        }
    }
    found
}

/// Requests memory, of which the daemon has `mappings` mappings per file. Punches one hole over all
/// of it, and reports it as mapped.
fn request_and_punch(client: &mut Client, node: &Node, request: &Request, mappings: &[usize]) {
    let (reply, mut fds) = client.call(request);
    // The descriptors for wake-ups follow.
    fds.truncate(mappings.len());
    assert_eq!(fds.len(), mappings.len(), "{reply:?}");
    let mapped_kib = |fd| mapped_and_missing_kib(node, fstat(fd).expect("a memfd").st_ino);
    for (fd, &count) in fds.iter().zip(mappings) {
        punch(fd);
        let found = mapped_kib(fd);
        assert_eq!(found.len(), count, "{reply:?}");
        assert!(
            found.iter().all(|&(size, missing)| missing == size),
            "the hole is there: {found:?}"
        );
    }
    client.done(&Request::Mapped);
    for found in fds.iter().map(mapped_kib) {
        assert!(
            found.iter().all(|&(_, missing)| missing == 0),
            "{reply:?}: {found:?}"
        );
    }
}

fn punch(fd: &OwnedFd) {
    let bytes = fstat(fd).expect("a memfd").st_size as u64;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(fd, hole, 0, bytes).expect("no lane serves it yet");
}

#[test]
fn a_lane_waits_for_no_page_that_was_a_hole_before() {
    let _turn = turn::take();
    let dir = node::place();
    let (mut a, _b) = pair_on_a_cable(dir.path());
    let mut client = a.client();
    request_and_punch(&mut client, &a, &Request::OpenSession { lane: 0 }, &[1]);
    let pipe = Request::OpenPipe {
        kind: PipeKind::RxTx,
        capacity_bytes: CAPACITY_BYTES,
        port: Some("p0".to_owned()),
        completions: None,
    };
    request_and_punch(&mut client, &a, &pipe, &[1, 2]);
    let region = Request::RegisterRegion {
        name: "bank".to_owned(),
        size_bytes: CAPACITY_BYTES,
        rights: Rights::ALL,
        durable: false,
    };
    request_and_punch(&mut client, &a, &region, &[1]);
    a.check_alive();
}
