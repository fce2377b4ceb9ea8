//! Keys that regions had with a daemon before.

use std::{fs, path::Path};

use covalent_api::{
    hex64::Hex64,
    request::{Reply, Request, Rights},
};
use siphasher::sip::SipHasher24;

use super::{client::App, node::Node};

/// Most keys that one user may bring along.
const CLAIMS_MAX: u32 = 1 << 14;

/// Returns the MAC of a key of this process's user, computed as the daemon does.
fn seal(state_dir: &Path, rkey: u32, name: &str) -> Hex64 {
    let text = fs::read_to_string(state_dir.join("secret")).expect("the node has one");
    let secret = u128::from_str_radix(text.trim(), 16).expect("hexadecimal digits");
    let mut mac_input = rkey.to_le_bytes().to_vec();
    mac_input.extend(nix::unistd::geteuid().as_raw().to_le_bytes());
    mac_input.extend(name.as_bytes());
    Hex64(SipHasher24::new_with_key(&secret.to_be_bytes()).hash(&mac_input))
}

#[test]
fn a_refused_client_uses_up_no_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut app = App::attach(&node.config.socket_path());
    let reregister = |rkey: u32, name: &str| Request::RegisterRegionAgain {
        rkey,
        seal: seal(&node.config.node.state_dir, rkey, name),
        name: name.to_owned(),
        size_bytes: 4096,
        rights: Rights::ALL,
        durable: false,
    };
    for rkey in 1..=CLAIMS_MAX {
        let reason = app.client.refused(&reregister(rkey, ""));
        assert!(reason.contains("region name"), "{reason}");
    }
    let (reply, _) = app.client.call(&reregister(CLAIMS_MAX + 1, "region"));
    assert!(
        matches!(reply, Reply::Region { rkey, .. } if rkey == CLAIMS_MAX + 1),
        "{reply:?}"
    );
}
