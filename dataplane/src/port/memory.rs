//! The packet memory of one lane.

use covalent_api::{
    auto::Wishes,
    config::{DpdkConfig, HugePages, PortConfig, PortKind},
};

use super::{
    PortError,
    af_xdp::{
        preflight,
        umem::{QueueMemory, QueuePlan},
    },
    dpdk,
};

/// The packet memory that the AF_XDP ports of one lane may take, and what DPDK is to have. Each queue has memory of its own; DPDK's is the
/// process's.
///
/// Made once for a lane, before its ports are opened. The ports keep what they need of it: it may be dropped after that.
#[derive(Debug, Default)]
pub struct LaneMemory {
    planned_bytes: u64,
    dpdk: dpdk::Plan,
}

impl LaneMemory {
    /// Plans the memory that those AF_XDP ports among `ports` need together that `lane` owns. Nothing is allocated before the first of them is opened, and
    /// nothing at all for a lane that has none. A port whose interface is missing has no part in it.
    ///
    /// # Errors
    /// [`PortError::Setup`] when an interface has fewer queues than configured.
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

    /// The same with what the file says about DPDK, which is set up once for the process: the ports of all lanes must be among those of
    /// [`LaneMemory::for_lane`].
    #[must_use]
    pub fn with_dpdk(mut self, config: &DpdkConfig) -> Self {
        self.dpdk = self.dpdk.with(config);
        self
    }

    /// What DPDK is to be set up with.
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
