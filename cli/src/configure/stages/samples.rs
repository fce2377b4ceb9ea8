//! A machine and configurations to judge in tests.

use covalent_config::{Config, PortKind, auto::Linux};

use super::super::facts::{Facts, Memlock, Named, Pool};
use crate::{netlink::Interface, nic::Nic};

/// One AF_XDP port on `eth1`, and `more`.
pub fn config(more: &str) -> Config {
    let text = format!(
        "[node]\nname = \"a\"\n{more}[[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface \
         = \"eth1\"\n"
    );
    Config::parse(&text, "sample").expect("the sample is valid")
}

/// A machine with `eth1`, of the driver `ice`, on which everything but huge pages matches the
/// default configuration.
pub fn facts() -> Facts {
    Facts {
        linux: Linux(6, 18),
        node_runs: false,
        is_root: true,
        huge_pages: Some(Pool {
            reserved: 0,
            free: 0,
        }),
        cores: [0, 1].into(),
        irqbalance: false,
        memlock: Memlock::Own(None),
        interfaces: vec![Named {
            port: config("").port.remove(0),
            name: "eth1".into(),
            found: Some(Interface {
                index: 2,
                name: "eth1".into(),
                up: true,
                mtu_bytes: 1500,
                rx_queues: 2,
                ..Interface::default()
            }),
            driver: "ice".into(),
            nic: Nic::default(),
            programs: Vec::new(),
            interrupts: Vec::new(),
        }],
    }
}

/// Gives the port `queues = …`.
pub fn set_queues(facts: &mut Facts, wanted: u32) {
    if let PortKind::AfXdp { queues, .. } = &mut facts.interfaces[0].port.kind {
        *queues = wanted;
    }
}
