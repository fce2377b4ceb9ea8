//! Keys that regions bring along from the daemon before.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use covalent_api::{
    hex64::Hex64,
    request::{Reply, Request, Rights},
};

use super::{client::App, node::Node};

const REGION_BYTES: u64 = 64;

fn node(dir: &Path) -> Node {
    Node::new(dir, "a", &["p0"], "").start()
}

/// Registers `bank` and stops the daemon. Returns the key and its MAC.
fn bank_of_before(node: Node) -> (u32, Hex64) {
    let mut app = App::attach(&node.config.socket_path());
    let (reply, _memory) = app.client.call(&Request::RegisterRegion {
        name: "bank".into(),
        size_bytes: REGION_BYTES,
        rights: Rights::ALL,
        durable: false,
    });
    let Reply::Region { rkey, seal, .. } = reply else {
        panic!("{reply:?}")
    };
    app.client.done(&Request::Mapped);
    (rkey, seal)
}

fn reregister(name: &str, rkey: u32, seal: Hex64) -> Request {
    Request::RegisterRegionAgain {
        rkey,
        seal,
        name: name.into(),
        size_bytes: REGION_BYTES,
        rights: Rights::ALL,
        durable: false,
    }
}

#[test]
fn a_key_is_reclaimed_by_its_region_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let (rkey, seal) = bank_of_before(node(dir.path()));
    let secret = dir.path().join("a-state/secret");
    let mode = fs::metadata(&secret).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "no other user reads it");
    let node = node(dir.path());
    // All users can see keys, and any user may present one first.
    let mut thief = App::attach(&node.config.socket_path());
    for request in [
        reregister("bank", rkey, Hex64(0)),
        reregister("bank", rkey, Hex64(seal.0 ^ 1)),
        reregister("bank", rkey ^ 1, seal),
        reregister("vault", rkey, seal),
    ] {
        let why = thief.client.refused(&request);
        assert!(
            why.contains("the token") && why.contains("another region"),
            "{why}"
        );
    }
    let mut owner = App::attach(&node.config.socket_path());
    let (reply, _memory) = owner.client.call(&reregister("bank", rkey, seal));
    assert_eq!(
        reply,
        Reply::Region {
            rkey,
            size_bytes: REGION_BYTES,
            seal
        }
    );
    owner.client.done(&Request::Mapped);
    assert_eq!(node.status().regions[0].rkey, rkey);
}

#[test]
fn a_lost_secret_refuses_earlier_keys_with_a_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let (rkey, seal) = bank_of_before(node(dir.path()));
    fs::remove_file(dir.path().join("a-state/secret")).expect("a file");
    let node = node(dir.path());
    let mut owner = App::attach(&node.config.socket_path());
    let why = owner.client.refused(&reregister("bank", rkey, seal));
    assert!(why.contains("generated a new one"), "{why}");
    let (new, _memory) = owner.register("bank", REGION_BYTES);
    assert_eq!(node.status().regions[0].rkey, new);
}
