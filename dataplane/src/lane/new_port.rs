//! A port on its way into a lane.

use covalent_config::{LINK_RING_SLOTS, PortConfig, PortKind};

use crate::port::{Port, PortError, lane_cable};

/// Numbers from here on belong to no configured port. Those of cables between lanes come first.
pub const OWN_NUMBERS: u16 = 0x7f00;

/// Ring slots left to handshakes, which no window limits: twice the most that a node sends in one
/// tick.
const HANDSHAKE_FRAMES: u32 = 16;

/// Frames that the ring of any DPDK device holds if that many were requested: the shortest default
/// among its drivers (`net_af_packet`).
const DPDK_RING_FRAMES: u32 = 512;

/// An open port with the properties that its lane needs.
#[derive(Debug)]
pub struct NewPort {
    /// Its number, which no other port gets while the daemon runs.
    pub number: u16,
    /// Configured name.
    pub name: String,
    /// Whether it runs the link protocol.
    pub link: bool,
    /// Records that a neighbor may have in flight to it. They fit even with one record per frame.
    /// `None` if no ring limits them.
    pub window_records: Option<u16>,
    /// Whether it is an end of a cable between two lanes.
    pub joins_lanes: bool,
    /// The port.
    pub port: Box<dyn Port>,
}

impl NewPort {
    /// Wraps `port`, which was opened according to `config`.
    #[must_use]
    pub fn new(number: u16, config: &PortConfig, port: Box<dyn Port>) -> Self {
        Self {
            number,
            name: config.name.clone(),
            link: config.link,
            window_records: window_records(&config.kind),
            joins_lanes: false,
            port,
        }
    }

    /// An end of a cable between two lanes.
    fn between_lanes(number: u16, port: lane_cable::LaneCablePort) -> Self {
        let name = port.info().name.clone();
        Self {
            number,
            name,
            link: true,
            window_records: records(lane_cable::RING_SLOTS),
            joins_lanes: true,
            port: Box::new(port),
        }
    }
}

/// Connects lane 0 with each other lane by a cable in memory. Their ports have numbers that no
/// configured port gets.
///
/// # Errors
/// [`PortError`]: memory or descriptors are exhausted.
pub fn join(lanes: &mut [Vec<NewPort>]) -> Result<(), PortError> {
    let Some((first, others)) = lanes.split_first_mut() else {
        return Ok(());
    };
    for ((lane, ports), number) in (1..).zip(others).zip((OWN_NUMBERS..).step_by(2)) {
        let [near, far] = lane_cable::pair([0, lane])?;
        first.push(NewPort::between_lanes(number, near));
        ports.push(NewPort::between_lanes(number + 1, far));
    }
    Ok(())
}

/// Every ring, of descriptors or of a cable, holds `ring_slots` frames of any length. The ring of a
/// DPDK device may be shorter than requested. On an AF_XDP port the links have a ring of their own.
fn window_records(kind: &PortKind) -> Option<u16> {
    let ring_slots = match kind {
        PortKind::AfXdp { .. } => LINK_RING_SLOTS,
        PortKind::Cable { ring_slots, .. } => *ring_slots,
        PortKind::Dpdk { ring_slots, .. } => (*ring_slots).min(DPDK_RING_FRAMES),
        PortKind::Pcap { .. } => return None,
    };
    records(ring_slots)
}

fn records(ring_slots: u32) -> Option<u16> {
    let records = ring_slots.saturating_sub(HANDSHAKE_FRAMES);
    Some(u16::try_from(records).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_credits_what_its_ring_can_hold() {
        let cable = |ring_slots| PortKind::Cable {
            path: "/x".into(),
            ring_slots,
        };
        assert_eq!(window_records(&cable(64)), Some(48));
        assert_eq!(window_records(&cable(32_768)), Some(32_752));
        let pcap = PortKind::Pcap {
            input: None,
            output: None,
        };
        assert_eq!(window_records(&pcap), None);
    }
}
