//! A machine and configurations to judge in tests.

use std::{collections::BTreeMap, time::Duration};

use covalent_config::Config;

use super::facts::{Machine, NamedInterface, Running};
use crate::{netlink::Interface, nic::Nic, status};

pub fn machine() -> Machine {
    Machine {
        kernel: (6, 1),
        af_xdp: true,
        bpf_jit: true,
        capabilities: u64::MAX,
        memlock_bytes: None,
        descriptors_max: 65_536,
        cores: [0, 1].into(),
        isolated: [].into(),
        huge_pages_free: 256,
        giant_pages_free: 0,
        available_bytes: None,
    }
}

pub fn af_xdp_config() -> Config {
    parse("kind = \"af_xdp\"\ninterface = \"eth1\"\nqueues = 2")
}

pub fn cable_config() -> Config {
    parse("kind = \"cable\"\npath = \"/run/cable.sock\"")
}

fn parse(port: &str) -> Config {
    let text = format!("[node]\nname = \"a\"\n[[port]]\nname = \"p0\"\n{port}\n");
    Config::parse(&text, "sample").expect("the sample is valid")
}

pub fn interface() -> NamedInterface {
    NamedInterface {
        port: "p0".into(),
        interface: "eth1".into(),
        found: Some(Interface {
            index: 2,
            name: "eth1".into(),
            up: true,
            carrier: true,
            mtu_bytes: 1500,
            rx_queues: 2,
            address: Some("02:00:00:00:00:01".into()),
            kind: None,
            tied_to: None,
        }),
        similar: Vec::new(),
        driver: Some("ice".into()),
        nic: Nic::default(),
        programs: Vec::new(),
        addresses: Vec::new(),
        other_end: None,
    }
}

pub fn running() -> Running {
    let node = status::sample_node();
    Running {
        before: node.clone(),
        after: node,
        between: Duration::from_millis(250),
        applications: BTreeMap::new(),
    }
}
