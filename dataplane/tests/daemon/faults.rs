//! Ports that damage their frames on purpose: only where allowed, only by authorized users, and
//! reported in the status.

use std::{fs, path::Path};

use covalent_api::request::Request;
use covalent_config::{FaultRates, FaultsConfig};
use covalent_dataplane::{Daemon, FaultInjection, journal::OnLoss, privilege::Privileges};

use super::{
    command::{file, run},
    node::{Node, eventually},
};

/// Returns a node that may damage the frames that it sends and receives, and does not do so yet.
fn damaged(dir: &Path, name: &str) -> Node {
    let mut node = Node::new(dir, name, &["p0"], "");
    node.config.port[0].faults = Some(FaultsConfig::default());
    node
}

#[test]
fn a_file_with_faults_is_refused_until_they_are_allowed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(dir.path(), &damaged(dir.path(), "a"));
    for more in [&["--check"][..], &[]] {
        let (good, text) = run(&[&["--config", &path], more].concat());
        assert!(
            !good && text.contains("port `p0`") && text.contains("--allow-faults"),
            "{text}"
        );
    }
    assert!(
        !dir.path().join("a").exists() && !dir.path().join("a-state").exists(),
        "nothing was made"
    );
    let (good, text) = run(&["--config", &path, "--check", "--allow-faults"]);
    assert!(good, "{text}");
    let sound = fs::read_to_string(&path)
        .expect("the file")
        .replace("seed = 0", "seeds = 0");
    fs::write(&path, sound).expect("room on the disk");
    let (good, text) = run(&["--config", &path, "--check", "--allow-faults"]);
    assert!(!good && text.contains("port[0].faults.seeds"), "{text}");
}

#[test]
fn a_one_way_black_hole_fails_the_link_until_it_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut a = damaged(dir.path(), "a");
    let daemon = Daemon::start_with(
        a.config.clone(),
        Privileges::Keep,
        FaultInjection::Allowed,
        OnLoss::Refuse,
        None,
    );
    a.daemon = Some(daemon.expect("the node starts"));
    let b = Node::new(dir.path(), "b", &["p0"], "").start();
    let up = |node: &Node| node.status().links[0].state == "up";
    eventually("the link is up", || up(&a) && up(&b));

    let mut client = a.client();
    let set = |tx: FaultRates| Request::SetFaults {
        port: "p0".into(),
        rx: FaultRates::default(),
        tx,
    };
    let beyond = FaultRates {
        drop_per_100k: 100_001,
        ..FaultRates::default()
    };
    let refusal = client.refused(&set(beyond));
    assert!(
        refusal.contains("drop_per_100k") && refusal.contains("100001"),
        "{refusal}"
    );
    let refusal = b.client().refused(&set(FaultRates::default()));
    assert!(
        refusal.contains("p0") && refusal.contains("[port.faults]"),
        "{refusal}"
    );

    client.done(&set(FaultRates {
        blackhole: true,
        ..FaultRates::default()
    }));
    eventually("b receives nothing any more", || !up(&b));
    let port = &a.status().ports[0];
    assert!(port.carrier, "the cable was not pulled");
    assert!(port.faults["tx_blackholed"] > 0);
    assert_eq!(port.faults["rx_blackholed"], 0);
    assert_eq!(
        (
            b.status().ports[0].faults.len(),
            b.status().links[0].failures["peer_silent"]
        ),
        (0, 1)
    );
    client.done(&set(FaultRates::default()));
    eventually("the link is up again", || up(&a) && up(&b));
    let port = &a.status().ports[0];
    assert_eq!(port.drops["fault_injected"], port.faults["tx_blackholed"]);
}
