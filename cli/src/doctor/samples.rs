//! A machine and configurations to judge in tests.

use covalent_api::config::Config;

use super::facts::{Machine, NamedInterface};
use crate::netlink::Interface;

pub fn machine() -> Machine {
    Machine {
        kernel: (6, 1),
        af_xdp: true,
        bpf_jit: true,
        capabilities: u64::MAX,
        memlock_bytes: None,
        cores: [0, 1].into(),
        huge_pages_free: 256,
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
            mtu_bytes: 1500,
            rx_queues: 2,
            address: Some("02:00:00:00:00:01".into()),
            kind: None,
        }),
        driver: Some("ice".into()),
        programs: Vec::new(),
    }
}
