//! The packet memory of one lane.

use covalent_config::{DpdkConfig, HugePages, PortConfig, PortKind, auto::Wishes};

use super::{
    PortError,
    af_xdp::{
        preflight,
        umem::{QueueMemory, QueuePlan},
    },
    dpdk,
};

/// The packet memory that the AF_XDP ports of one lane may use, and DPDK's setup parameters. Each
/// queue has its own memory. DPDK's memory belongs to the process.
///
/// It is created once per lane, before the lane's ports open. The ports keep what they need of it,
/// so it may be dropped afterwards.
#[derive(Debug, Default)]
pub struct LaneMemory {
    planned_bytes: u64,
    dpdk: dpdk::Plan,
}

impl LaneMemory {
    /// Plans the memory that the AF_XDP ports of `lane` among `ports` need together. Nothing is
    /// allocated before the first of them opens, and nothing at all for a lane without such ports.
    /// A port whose interface is missing is left out.
    ///
    /// # Errors
    /// [`PortError::Setup`] if an interface has fewer queues than configured.
    pub fn for_lane(ports: &[PortConfig], lane: u32) -> Result<Self, PortError> {
        let mut planned_bytes = 0;
        for port in ports.iter().filter(|port| port.lane == lane) {
            if let PortKind::AfXdp {
                interface,
                queues,
                ring_slots,
                xdp,
                copy,
            } = &port.kind
            {
                let wishes = Wishes {
                    xdp: *xdp,
                    copy: *copy,
                    queues: *queues,
                };
                let queues = match preflight::queue_count(&port.name, interface, *queues) {
                    // It is opened when its interface appears, and with memory of its own.
                    Err(PortError::NoInterface { .. }) => continue,
                    queues => queues?,
                };
                let chunk_bytes = preflight::chunk_bytes(&port.name, interface, wishes)?;
                planned_bytes += QueuePlan::of_port(queues, *ring_slots, port.link, chunk_bytes)
                    .map(QueuePlan::bytes)
                    .sum::<u64>();
            }
        }
        Ok(Self {
            planned_bytes,
            dpdk: dpdk::Plan::of(ports),
        })
    }

    /// Adds the DPDK settings of the configuration file. DPDK is set up once per process, so the
    /// `ports` given to [`LaneMemory::for_lane`] must include the ports of all lanes.
    #[must_use]
    pub fn with_dpdk(mut self, config: &DpdkConfig) -> Self {
        self.dpdk = self.dpdk.with(config);
        self
    }

    /// DPDK's setup parameters.
    pub(super) fn dpdk(&self) -> &dpdk::Plan {
        &self.dpdk
    }

    /// Resident bytes that the AF_XDP ports of the lane take together once they are open.
    #[must_use]
    pub const fn planned_bytes(&self) -> u64 {
        self.planned_bytes
    }

    /// That all of it may be locked.
    pub(super) fn check_limit(&self, port: &str) -> Result<(), PortError> {
        preflight::locked_memory(port, self.planned_bytes)
    }
}

/// The memory of one queue of `port`, registered with the kernel.
pub(super) fn of_queue(
    port: &str,
    plan: QueuePlan,
    pages: HugePages,
) -> Result<QueueMemory, PortError> {
    QueueMemory::new(plan, pages)
        .map_err(|error| preflight::explain_memory(port, plan.bytes(), error))
}
