//! The parameters that DPDK needs before its first port opens.

use covalent_config::{DpdkConfig, PortConfig, PortKind};

/// Slots that drivers of virtual devices which make rings of their own give each, at least.
pub(super) const OWN_RINGS_SLOTS_MIN: u32 = 2048;

/// Space for DPDK's own tables, in bytes.
const OWN_BYTES: u64 = 64 << 20;

/// Size of a buffer: DPDK's header of 128 bytes, headroom, 2 KiB of frame, and the pool's overhead.
const BUFFER_BYTES: u64 = 2560;

/// Pool overhead of one port besides its buffers: caches for the maximum number of threads.
const POOLS_BYTES: u64 = 4 << 20;

/// Buffers of a port beside those for its rings.
const SPARE_BUFFERS: u64 = 2048;

/// Everything that DPDK is set up with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::port) struct Plan {
    config: DpdkConfig,
    /// The PCI devices of all ports, with their arguments after commas. DPDK attaches to them at
    /// setup and touches no other device.
    pci: Vec<String>,
    ports_bytes: u64,
}

#[cfg_attr(
    not(feature = "dpdk"),
    expect(dead_code, reason = "a build without DPDK plans nothing")
)]
impl Plan {
    /// For all ports of the node: DPDK is set up for the process, not for a lane.
    pub(in crate::port) fn of(ports: &[PortConfig]) -> Self {
        let mut plan = Self::default();
        for port in ports {
            if let PortKind::Dpdk {
                device,
                queues,
                ring_slots,
                ..
            } = &port.kind
            {
                plan.add(device, *queues, *ring_slots);
            }
        }
        plan
    }

    /// Whether no port is planned.
    pub(super) fn is_empty(&self) -> bool {
        self.ports_bytes == 0
    }

    /// The same with the port of one more device.
    #[must_use]
    pub(super) fn and(mut self, device: &str, queues: u32, ring_slots: u32) -> Self {
        self.add(device, queues, ring_slots);
        self
    }

    /// Adds the needs of a port on one device.
    pub(super) fn add(&mut self, device: &str, queues: u32, ring_slots: u32) {
        let name = device.split_once(',').map_or(device, |(name, _)| name);
        // A name with a colon is a PCI address, which begins with a hexadecimal digit. A virtual
        // device's name begins with its driver's name.
        if name.contains(':') {
            self.pci.push(device.to_owned());
        }
        let (queues, slots) = (
            u64::from(queues),
            u64::from(ring_slots.max(OWN_RINGS_SLOTS_MIN)),
        );
        // A driver may keep two rings full per queue, and one ring of sent buffers. One more ring
        // is lent to other ports, and one serves to send from.
        let buffers = (2 * queues + 3) * slots + SPARE_BUFFERS;
        self.ports_bytes += buffers * BUFFER_BYTES + POOLS_BYTES;
    }

    /// Adds the settings of the configuration file.
    #[must_use]
    pub(in crate::port) fn with(mut self, config: &DpdkConfig) -> Self {
        self.config = config.clone();
        self
    }

    pub(super) fn pci(&self) -> &[String] {
        &self.pci
    }

    pub(super) fn eal_arguments(&self) -> &[String] {
        &self.config.eal_arguments
    }

    /// Memory to request, in MiB: the configured value, or else the most that the ports need.
    pub(super) fn memory_mib(&self) -> u64 {
        match self.config.memory_mib {
            0 => (OWN_BYTES + self.ports_bytes).div_ceil(1 << 20),
            configured => configured.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_rings_and_queues_unless_it_is_configured() {
        let mut plan = Plan::default();
        let none = plan.memory_mib();
        plan.add("net_ring0", 1, 2048);
        let one = plan.memory_mib();
        plan.add("0000:03:00.0,a=b", 4, 8192);
        let two = plan.memory_mib();
        assert!(none < one && one < two, "{none} {one} {two}");
        assert_eq!(plan.pci(), ["0000:03:00.0,a=b"]);
        let config = DpdkConfig {
            memory_mib: 77,
            ..DpdkConfig::default()
        };
        assert_eq!(plan.with(&config).memory_mib(), 77);
    }
}
