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

/// The seal of a key of this process's user, as the daemon makes it.
fn seal(state_dir: &Path, rkey: u32, name: &str) -> Hex64 {
    let text = fs::read_to_string(state_dir.join("secret")).expect("the node has one");
    let secret = u128::from_str_radix(text.trim(), 16).expect("hexadecimal digits");
    let mut sealed = rkey.to_le_bytes().to_vec();
    sealed.extend(nix::unistd::geteuid().as_raw().to_le_bytes());
    sealed.extend(name.as_bytes());
    Hex64(SipHasher24::new_with_key(&secret.to_be_bytes()).hash(&sealed))
}

#[test]
fn who_is_refused_uses_up_no_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut app = App::attach(&node.config.socket_path());
    let again = |rkey: u32, name: &str| Request::RegisterRegionAgain {
        rkey,
        seal: seal(&node.config.node.state_dir, rkey, name),
        name: name.to_owned(),
        size_bytes: 4096,
        rights: Rights::ALL,
        durable: false,
    };
    for rkey in 1..=CLAIMS_MAX {
        let reason = app.client.refused(&again(rkey, ""));
        assert!(reason.contains("region name"), "{reason}");
    }
    let (reply, _) = app.client.ask(&again(CLAIMS_MAX + 1, "region"));
    assert!(
        matches!(reply, Reply::Region { rkey, .. } if rkey == CLAIMS_MAX + 1),
        "{reply:?}"
    );
}
