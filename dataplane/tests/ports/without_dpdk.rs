//! A daemon that was built without DPDK recognizes a DPDK port and reports the remedy.

use covalent_config::{PortConfig, PortKind, RxChecksum, TxChecksum};
use covalent_dataplane::port::{LaneMemory, open};

#[test]
fn the_message_names_the_package_and_the_feature() {
    let config = PortConfig {
        name: "p7".to_owned(),
        lane: 0,
        link: true,
        kind: PortKind::Dpdk {
            device: "net_ring0".to_owned(),
            queues: 1,
            ring_slots: 512,
            rx_checksum: RxChecksum::Ignore,
            tx_checksum: TxChecksum::Keep,
        },
        faults: None,
    };
    let refusal = open(
        &config,
        &Default::default(),
        &Default::default(),
        &mut LaneMemory::default(),
    )
    .map(|_| ())
    .expect_err("there is no DPDK in it")
    .to_string();
    for word in ["`p7`", "apt-get install libdpdk-dev", "--features dpdk"] {
        assert!(refusal.contains(word), "{refusal}");
    }
}
