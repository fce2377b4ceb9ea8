//! Ports on devices, as a daemon opens them.

use std::sync::atomic::{AtomicU32, Ordering};

use covalent_config::{
    DataplaneConfig, DpdkConfig, HugePages, LinkConfig, PortConfig, PortKind, RxChecksum,
    TxChecksum,
};
use covalent_dataplane::port::{LaneMemory, Port, PortError, open};

use crate::pair::LivePair;

/// Slots requested for every ring.
pub const RING_SLOTS: u32 = 512;

/// Memory of the whole process: DPDK gets it once, and every test opens ports of its own.
const MEMORY_MIB: u32 = 1024;

static NAMES: AtomicU32 = AtomicU32::new(0);

/// A number that no other test of this process has, for names of devices.
pub fn number() -> u32 {
    NAMES.fetch_add(1, Ordering::Relaxed)
}

/// A port on `device`.
pub fn port(device: &str) -> PortConfig {
    PortConfig {
        name: format!("port-{}", number()),
        lane: 0,
        link: true,
        kind: PortKind::Dpdk {
            device: device.to_owned(),
            queues: 1,
            ring_slots: RING_SLOTS,
            rx_checksum: RxChecksum::Ignore,
            tx_checksum: TxChecksum::Keep,
        },
        faults: None,
    }
}

/// Opens ports as one lane does.
pub fn open_all(ports: &[PortConfig], pages: HugePages) -> Result<Vec<Box<dyn Port>>, PortError> {
    open_with(ports, pages, MEMORY_MIB)
}

/// Opens ports as one lane does, where DPDK has so much memory.
pub fn open_with(
    ports: &[PortConfig],
    pages: HugePages,
    memory_mib: u32,
) -> Result<Vec<Box<dyn Port>>, PortError> {
    // DPDK's log appears beside a failure.
    let _ = tracing_subscriber::fmt().with_test_writer().try_init();
    let dataplane = DataplaneConfig {
        huge_pages: pages,
        ..DataplaneConfig::default()
    };
    let dpdk = DpdkConfig {
        memory_mib,
        ..DpdkConfig::default()
    };
    let mut memory = LaneMemory::for_lane(ports, 0)?.with_dpdk(&dpdk);
    ports
        .iter()
        .map(|port| open(port, &dataplane, &LinkConfig::default(), &mut memory))
        .collect()
}

/// Two ports that face each other, once both have a carrier.
pub fn pair(ports: &[PortConfig; 2]) -> LivePair {
    let mut opened = open_all(ports, HugePages::Never).unwrap();
    let (far, near) = (opened.remove(1), opened.remove(0));
    let mut pair = LivePair { near, far };
    pair.wait_for_carrier();
    pair
}
