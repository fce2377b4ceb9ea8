//! A daemon that was built without DPDK knows what such a port is, and says what to do about it.

use covalent_api::config::{PortConfig, PortKind, RxChecksum, TxChecksum};
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
    let told = open(
        &config,
        &Default::default(),
        &Default::default(),
        &mut LaneMemory::default(),
    )
    .map(|_| ())
    .expect_err("there is no DPDK in it")
    .to_string();
    for word in ["`p7`", "apt-get install libdpdk-dev", "--features dpdk"] {
        assert!(told.contains(word), "{told}");
    }
}
