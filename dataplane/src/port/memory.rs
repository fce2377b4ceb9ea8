//! The packet memory of one lane.

use covalent_api::{
    auto::Wishes,
    config::{DpdkConfig, HugePages, PortConfig, PortKind},
};

use super::{
    PortError,
    af_xdp::{
        preflight,
        umem::{PacketMemory, Plan},
    },
    dpdk,
};

/// The packet memory that the AF_XDP ports of one lane share, and what DPDK is to have. Lanes share nothing, so each lane has its own; DPDK's
/// memory is the process's.
///
/// Made once for a lane, before its ports are opened. The ports keep what they need of it: it may be dropped after that.
#[derive(Debug, Default)]
pub struct LaneMemory {
    plan: Plan,
    packets: Option<PacketMemory>,
    dpdk: dpdk::Plan,
}

impl LaneMemory {
    /// Plans the memory that those AF_XDP ports among `ports` need together that `lane` owns. Nothing is allocated before the first of them is opened, and
    /// nothing at all for a lane that has none. A port whose interface is missing has no part in it.
    ///
    /// # Errors
    /// [`PortError::Setup`] when an interface has fewer queues than configured.
    pub fn for_lane(ports: &[PortConfig], lane: u32) -> Result<Self, PortError> {
        let mut plan = Plan::default();
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
                plan.add_port(
                    queues,
                    *ring_slots,
                    preflight::chunk_bytes(&port.name, interface, wishes)?,
                );
            }
        }
        Ok(Self {
            plan,
            packets: None,
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
    pub fn planned_bytes(&self) -> u64 {
        self.plan.bytes()
    }

    /// The memory itself, registered with the kernel when it is first wanted.
    pub(super) fn packets(
        &mut self,
        port: &str,
        pages: HugePages,
    ) -> Result<&mut PacketMemory, PortError> {
        if self.packets.is_none() {
            preflight::locked_memory(port, self.plan)?;
            let made = PacketMemory::new(self.plan, pages)
                .map_err(|error| preflight::explain_memory(port, self.plan, error))?;
            self.packets = Some(made);
        }
        self.packets.as_mut().ok_or_else(|| PortError::Setup {
            port: port.to_owned(),
            problem: "its lane has no packet memory".to_owned(),
            remedy: "plan the lane's memory from the same configuration".to_owned(),
        })
    }
}
