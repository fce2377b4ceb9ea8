//! An AF_XDP port as a lane opens it, for a thread of this process that is a lane.

use anyhow::{Context, Result};
use covalent_config::{CopyMode, DataplaneConfig, LinkConfig, PortConfig, PortKind, XdpMode};
use covalent_dataplane::port::{self, LaneMemory, Port};

use crate::stage::Namespace;

/// Moves the calling thread into `namespace` for good and opens a port for a link on `interface`.
pub fn open(namespace: &Namespace, interface: &str, ring_slots: u32) -> Result<Box<dyn Port>> {
    namespace.enter()?;
    let config = PortConfig {
        name: interface.to_owned(),
        lane: 0,
        link: true,
        kind: PortKind::AfXdp {
            interface: interface.to_owned(),
            queues: 0,
            ring_slots,
            xdp: XdpMode::Native,
            copy: CopyMode::Auto,
        },
        faults: None,
    };
    let mut memory = LaneMemory::for_lane(std::slice::from_ref(&config), 0)?;
    port::open(
        &config,
        &DataplaneConfig::default(),
        &LinkConfig::default(),
        &mut memory,
    )
    .with_context(|| format!("opening a port on {interface}"))
}
