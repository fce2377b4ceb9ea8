//! AF_XDP sockets on a network interface: the kernel's fast path to and from a driver's queues.
//!
//! ```text
//!   wire ─► driver queue q ─► XDP program ─┬─ the link's ─► link socket of queue q ─┬─► lane
//!                                          ├─ ours ───────► socket of queue q ──────┘
//!                                          ├─ others ─────► kernel's network stack
//!                                          └─ to drop ────► dropped
//!   lane ─► tx rings of queue 0 ─► driver ─► wire
//! ```
//! Each receive queue of a port with a link has two sockets (`queue.rs` explains why), else one.
//! The lane polls them all. Frames are sent on queue 0 only, so they leave in order whatever the
//! number of queues: link frames and other frames each among themselves. The program and its maps
//! belong to this process: they vanish with it, however it ends.
//!
//! When the interface goes down, frames already in the transmit ring stay there and leave when it
//! is up again. When it is removed, the port returns [`PortError::Gone`], and nothing crashes.
//!
//! Source: the kernel's `Documentation/networking/af_xdp.rst`.

mod choices;
mod endpoint;
pub(super) mod interface;
pub(super) mod preflight;
mod queue;
mod rules;
pub(super) mod umem;

use std::{cell::Cell, os::fd::RawFd};

use covalent_api::{
    agreement::PortFacts,
    auto::Wishes,
    config::{CHUNK_FRAME_BYTES, CopyMode, DataplaneConfig, LinkConfig, XdpMode},
    status::PortMode,
};

use covalent_ebpf::{AttachMode, EbpfError, EffectiveMode, Steering, attached_programs};
use covalent_pipe::SharedBytes;

use self::{
    endpoint::Doorbell,
    interface::Interface,
    queue::{Queue, QueueSpec, QueueStatistics, TrafficClass},
    umem::{QueueMemory, QueuePlan},
};
use super::{
    ETHERNET_HEADER_BYTES, LaneMemory, Port, PortCounters, PortError, PortInfo, SteerChange, Tally,
    TxRefusal, mac, memory,
};

// A queue that the configuration may name has a place in the program's table.
const _: () = assert!(covalent_api::config::QUEUES_MAX == covalent_ebpf::QUEUES_MAX);

/// The configuration of an AF_XDP port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) port: &'a str,
    pub(super) interface: &'a str,
    pub(super) ring_slots: u32,
    pub(super) wishes: Wishes,
    /// Whether frames of the link's EtherType are for the dataplane.
    pub(super) link: bool,
}

/// See the module's documentation.
pub struct AfXdpPort {
    info: PortInfo,
    facts: PortFacts,
    // Declared before the queues, so that the program releases the sockets before they close.
    steering: Steering,
    queues: Vec<Queue>,
    /// Bursts so far. Each begins with another queue, so that a busy one does not starve the
    /// others.
    bursts: usize,
    /// EtherType of the frames of this port's link.
    link_type: Option<u16>,
    enabled: bool,
    interface_carrier: bool,
    gone: bool,
    tally: Tally,
    dropped_disabled: u64,
    dropped_by_device: u64,
    /// The kernel's counts at the last query.
    kernel: Cell<KernelCounts>,
}

impl AfXdpPort {
    /// Opens sockets on the interface's queues and attaches the XDP program, in this order: check,
    /// load, bind, fill, attach.
    pub(super) fn open(
        wanted: &Wanted<'_>,
        dataplane: &DataplaneConfig,
        link: &LinkConfig,
        memory: &mut LaneMemory,
    ) -> Result<Self, PortError> {
        let port = wanted.port;
        preflight::ring_slots(port, wanted.ring_slots)?;
        preflight::capabilities(port)?;
        let interface = preflight::interface(port, wanted.interface)?;
        let queue_count = preflight::queues(port, &interface, wanted.wishes.queues)?;
        preflight::tags(port, &interface);
        preflight::mtu(port, &interface, wanted.link)?;
        let choices = choices::choices(&interface, wanted.wishes);
        choices::limits(port, &interface, wanted.wishes, &choices)?;
        let copy = choices::bound_as(wanted.wishes.copy, &choices);

        let steering_failed = |source: EbpfError| PortError::Steering {
            port: port.to_owned(),
            source: Box::new(source),
        };
        let others = attached_programs(interface.index).map_err(steering_failed)?;
        if let Some(owner) = others.into_iter().next() {
            // The kernel would refuse too, but only after sockets were bound.
            return Err(steering_failed(EbpfError::Busy {
                interface: interface.name,
                owner: Some(owner),
            }));
        }
        let mut steering = Steering::load().map_err(steering_failed)?;
        if wanted.link {
            steering
                .set_link_ethertype(link.ethertype)
                .map_err(steering_failed)?;
        }

        memory.check_limit(port)?;
        let chunk_bytes = choices.chunk_bytes.value;
        let plans = QueuePlan::of_port(queue_count, wanted.ring_slots, wanted.link, chunk_bytes);
        let mut queues = Vec::with_capacity(queue_count as usize);
        for (index, plan) in (0..).zip(plans) {
            let packets = memory::of_queue(port, plan, dataplane.huge_pages)?;
            let queue = open_queue(wanted, &interface, index, dataplane.burst, copy, packets)?;
            steering
                .set_socket(index, queue.fd())
                .map_err(steering_failed)?;
            if let Some(link) = queue.link_fd() {
                steering
                    .set_link_socket(index, link)
                    .map_err(steering_failed)?;
            }
            queues.push(queue);
        }
        let mode = match wanted.wishes.xdp {
            XdpMode::Auto => AttachMode::Auto,
            XdpMode::Native => AttachMode::Native,
            XdpMode::Generic => AttachMode::Generic,
        };
        let effective = steering
            .attach(interface.index, &interface.name, mode)
            .map_err(steering_failed)?;
        choices::log_choices(
            port,
            &interface,
            &choices,
            effective,
            steering.native_refusal(),
            queues.iter().all(Queue::zero_copy),
        );

        Ok(Self {
            facts: PortFacts {
                index: interface.index,
                address: mac::text(interface.mac),
                mtu_bytes: interface.mtu_bytes,
                queues: queue_count,
                all_queues: wanted.wishes.queues == 0,
                program_id: steering.program_id(),
            },
            info: PortInfo {
                name: port.to_owned(),
                kind: "af_xdp",
                interface: Some(interface.name),
                mac: interface.mac,
                frame_bytes_max: (interface.mtu_bytes + ETHERNET_HEADER_BYTES as u32)
                    .min(CHUNK_FRAME_BYTES),
                mode: PortMode {
                    xdp: match effective {
                        EffectiveMode::Native => "native",
                        EffectiveMode::Generic => "generic",
                    }
                    .to_owned(),
                    zero_copy: queues.iter().all(Queue::zero_copy),
                    need_wakeup: true,
                    page_bytes: queues
                        .iter()
                        .map(Queue::page_bytes)
                        .min()
                        .unwrap_or_default(),
                    queues: queue_count,
                },
            },
            steering,
            queues,
            bursts: 0,
            link_type: wanted.link.then_some(link.ethertype),
            enabled: true,
            interface_carrier: interface.carrier,
            gone: false,
            tally: Tally::default(),
            dropped_disabled: 0,
            dropped_by_device: 0,
            kernel: Cell::default(),
        })
    }

    fn gone(&mut self) -> PortError {
        self.gone = true;
        PortError::Gone {
            port: self.info.name.clone(),
            reason: format!(
                "interface `{}` was removed; covalent-control reopens the port when it returns",
                self.info.interface.as_deref().unwrap_or_default()
            ),
        }
    }

    fn link_down(&self) -> PortError {
        PortError::LinkDown {
            port: self.info.name.clone(),
        }
    }

    /// Returns the rings for a frame to send. On a port with a link the frame is the lane's copy,
    /// which no application can change.
    fn class(&self, frame: SharedBytes<'_>) -> TrafficClass {
        match self.link_type {
            Some(link_type) if has_type(frame, link_type) => TrafficClass::Link,
            _ => TrafficClass::Others,
        }
    }

    /// Frames that can be staged now.
    fn space(&mut self, class: TrafficClass) -> usize {
        if !self.carrier() {
            return 0;
        }
        let sender = self.sender();
        sender.reclaim();
        sender.spare(class)
    }

    /// The queue that sends.
    fn sender(&mut self) -> &mut Queue {
        &mut self.queues[0]
    }
}

/// Runs the checks that are possible before a port is opened, and while another port has the
/// interface.
pub(super) fn check_openable(wanted: &Wanted<'_>) -> Result<(), PortError> {
    let port = wanted.port;
    preflight::ring_slots(port, wanted.ring_slots)?;
    preflight::capabilities(port)?;
    let interface = preflight::interface(port, wanted.interface)?;
    preflight::queues(port, &interface, wanted.wishes.queues)?;
    preflight::mtu(port, &interface, wanted.link)?;
    let choices = choices::choices(&interface, wanted.wishes);
    choices::limits(port, &interface, wanted.wishes, &choices)
}

fn has_type(frame: SharedBytes<'_>, ethertype: u16) -> bool {
    [frame.byte(12), frame.byte(13)] == ethertype.to_be_bytes().map(Some)
}

/// Of a burst of `most` frames, the number left to applications, however many link frames wait. It
/// is a quarter, or one in every other burst of less than four.
fn left_to_others(most: usize, burst: usize) -> usize {
    (most / 4).max(most.min(burst % 2))
}

fn open_queue(
    wanted: &Wanted<'_>,
    interface: &Interface,
    index: u32,
    burst: u32,
    copy: CopyMode,
    memory: QueueMemory,
) -> Result<Queue, PortError> {
    let spec = QueueSpec {
        memory,
        interface: &interface.name,
        index,
        burst: burst.max(1),
        copy,
    };
    Queue::open(spec).map_err(|error| {
        preflight::explain_bind(
            wanted.port,
            interface,
            index,
            wanted.wishes.copy == CopyMode::ZeroCopy,
            error,
        )
    })
}

impl AfXdpPort {
    /// System calls: one for each queue, and one for the program.
    fn read_kernel_counts(&self) -> KernelCounts {
        let mut drops = KernelDrops::default();
        let mut sum = ReportedCounts::default();
        for queue in &self.queues {
            // The socket of a removed interface still reports its counts. A socket that reports
            // none is skipped.
            if let Ok(counts) = queue.statistics() {
                let reported = ReportedCounts::from(&counts);
                drops.add(&reported, queue.zero_copy());
                sum.add(&reported);
            }
        }
        // Not readable before Linux 5.19 after the process dropped its capabilities.
        let program = self.steering.counters().unwrap_or_default();
        KernelCounts {
            drops,
            sum,
            program,
        }
    }
}

impl Port for AfXdpPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx_burst(&mut self, max: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, PortError> {
        let Self {
            queues,
            tally,
            bursts,
            enabled,
            dropped_disabled,
            ..
        } = self;
        let mut show = |frame: &[u8]| {
            if *enabled {
                tally.received(frame.len());
                visit(frame);
            } else {
                *dropped_disabled += 1;
            }
        };
        *bursts = bursts.wrapping_add(1);
        let mut seen = 0;
        for (class, most) in [
            (TrafficClass::Link, max - left_to_others(max, *bursts)),
            (TrafficClass::Others, max),
        ] {
            for turn in 0..queues.len() {
                let at = bursts.wrapping_add(turn) % queues.len();
                seen += queues[at].receive(class, most - seen, &mut show);
                if seen == most {
                    break;
                }
            }
        }
        Ok(if *enabled { seen } else { 0 })
    }

    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal> {
        let (len, max) = (frame.len(), self.info.frame_bytes_max as usize);
        let class = self.class(frame);
        let refusal = if let Some(refusal) = TxRefusal::by_length(len, max) {
            refusal
        } else if !self.carrier() {
            TxRefusal::Down
        } else if self.queues[0].stage(class, frame) {
            self.tally.taken(len);
            return Ok(());
        } else {
            TxRefusal::Full
        };
        Err(self.tally.refused(refusal))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let mut reported = Ok(());
        for (class, doorbell) in self.sender().ring() {
            match doorbell {
                Doorbell::Rung => {}
                Doorbell::Dropped => {
                    self.dropped_by_device += 1;
                    // A link must learn of the loss. A frame of an application may be lost on any
                    // wire.
                    if class == TrafficClass::Link {
                        reported = Err(self.link_down());
                    }
                }
                Doorbell::Down => reported = Err(self.link_down()),
                Doorbell::Gone => return Err(self.gone()),
            }
        }
        reported
    }

    fn tx_space(&mut self) -> usize {
        self.space(TrafficClass::Others)
    }

    fn link_tx_space(&mut self) -> Option<usize> {
        self.link_type?;
        Some(self.space(TrafficClass::Link))
    }

    fn tx_idle(&mut self) -> bool {
        self.queues[0].is_idle()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.queues.iter().flat_map(Queue::raw_fds).collect()
    }

    fn prepare_sleep(&mut self) -> bool {
        // Sockets are level-triggered: a frame that arrives after this check makes the wait return
        // at once.
        if self.queues.iter_mut().any(Queue::has_received) {
            return false;
        }
        if !self.carrier() {
            return true;
        }
        !self.sender().has_to_send()
    }

    fn finish_sleep(&mut self) {}

    fn counters(&self) -> PortCounters {
        self.kernel.set(self.read_kernel_counts());
        self.counters_at_hand()
    }

    fn counters_at_hand(&self) -> PortCounters {
        let KernelCounts {
            drops,
            sum,
            program,
        } = self.kernel.get();
        let mut counters = self.tally.with_drops(vec![
            ("steered_to_drop", program.dropped()),
            ("rx_ring_full", drops.rx_ring_full),
            ("link_rx_ring_full", drops.link_rx_ring_full),
            ("fill_ring_empty", drops.fill_ring_empty),
            ("rx_dropped", drops.rx_other),
            ("rx_invalid_descriptor", drops.rx_invalid),
            ("tx_invalid_descriptor", drops.tx_invalid),
            ("tx_dropped_by_device", self.dropped_by_device),
            ("port_disabled", self.dropped_disabled),
        ]);
        counters.passed_to_kernel_packets = program.to_kernel();
        counters.xdp_counts = sum.by_name();
        counters
    }

    fn steer(&mut self, change: &SteerChange) -> Result<(), PortError> {
        rules::apply(&mut self.steering, change).map_err(|source| PortError::Steering {
            port: self.info.name.clone(),
            source: Box::new(source),
        })
    }

    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError> {
        if self.gone {
            return Err(self.gone());
        }
        self.enabled = enabled;
        Ok(())
    }

    fn set_carrier(&mut self, up: bool) {
        self.interface_carrier = up;
    }

    fn carrier(&self) -> bool {
        self.enabled && self.interface_carrier && !self.gone
    }

    fn facts(&self) -> Option<&PortFacts> {
        Some(&self.facts)
    }
}

/// The kernel's counts for a port.
#[derive(Debug, Clone, Copy, Default)]
struct KernelCounts {
    drops: KernelDrops,
    /// All queues together, by the kernel's own names.
    sum: ReportedCounts,
    program: covalent_ebpf::Counters,
}

/// The kernel's counts of all queues together, each frame under one cause.
#[derive(Debug, Clone, Copy, Default)]
struct KernelDrops {
    rx_ring_full: u64,
    link_rx_ring_full: u64,
    fill_ring_empty: u64,
    rx_other: u64,
    rx_invalid: u64,
    tx_invalid: u64,
}

/// The kernel's counts for the sockets of one queue together (`struct xdp_statistics`).
#[derive(Debug, Clone, Copy, Default)]
struct ReportedCounts {
    rx_ring_full: u64,
    /// How many of these were the link's.
    link_rx_ring_full: u64,
    fill_ring_empty: u64,
    rx_dropped: u64,
    rx_invalid: u64,
    tx_invalid: u64,
    tx_ring_empty: u64,
}

impl ReportedCounts {
    fn add(&mut self, other: &Self) {
        self.rx_ring_full += other.rx_ring_full;
        self.link_rx_ring_full += other.link_rx_ring_full;
        self.fill_ring_empty += other.fill_ring_empty;
        self.rx_dropped += other.rx_dropped;
        self.rx_invalid += other.rx_invalid;
        self.tx_invalid += other.tx_invalid;
        self.tx_ring_empty += other.tx_ring_empty;
    }

    /// As `linux/if_xdp.h` has them.
    fn by_name(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("rx_dropped", self.rx_dropped),
            ("rx_invalid_descs", self.rx_invalid),
            ("tx_invalid_descs", self.tx_invalid),
            ("rx_ring_full", self.rx_ring_full),
            ("rx_fill_ring_empty_descs", self.fill_ring_empty),
            ("tx_ring_empty_descs", self.tx_ring_empty),
        ]
    }
}

impl From<&QueueStatistics> for ReportedCounts {
    fn from(counts: &QueueStatistics) -> Self {
        let of = |counts: &xsk_rs::socket::XdpStatistics| Self {
            rx_ring_full: counts.rx_ring_full(),
            link_rx_ring_full: 0,
            fill_ring_empty: counts.rx_fill_ring_empty_descs(),
            rx_dropped: counts.rx_dropped(),
            rx_invalid: counts.rx_invalid_descs(),
            tx_invalid: counts.tx_invalid_descs(),
            tx_ring_empty: counts.tx_ring_empty_descs(),
        };
        let mut reported = of(&counts.others);
        if let Some(link) = &counts.link {
            let mut link = of(link);
            link.link_rx_ring_full = link.rx_ring_full;
            // The sockets share one fill ring, and the kernel reports the same counts for both.
            (link.fill_ring_empty, link.rx_invalid) = (0, 0);
            reported.add(&link);
        }
        reported
    }
}

impl KernelDrops {
    fn add(&mut self, reported: &ReportedCounts, zero_copy: bool) {
        // Zero-copy: the driver takes chunks ahead, so this counts checks without result. The
        // device counts lost frames. Copy mode: each is a frame, also counted as dropped.
        let empty = if zero_copy {
            0
        } else {
            reported.fill_ring_empty
        };
        self.rx_ring_full += reported.rx_ring_full - reported.link_rx_ring_full;
        self.link_rx_ring_full += reported.link_rx_ring_full;
        self.fill_ring_empty += empty;
        self.rx_other += reported.rx_dropped.saturating_sub(empty);
        self.rx_invalid += reported.rx_invalid;
        self.tx_invalid += reported.tx_invalid;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_link_frames_leaves_applications_their_share() {
        for (most, shares) in [(64, [16, 16]), (4, [1, 1]), (1, [0, 1]), (2, [0, 1])] {
            assert_eq!([0, 1].map(|burst| left_to_others(most, burst)), shares);
        }
        assert_eq!(left_to_others(0, 1), 0);
    }

    #[test]
    fn a_driver_that_found_no_chunk_lost_no_frame() {
        let reported = ReportedCounts {
            rx_ring_full: 1,
            fill_ring_empty: 5,
            rx_dropped: 7,
            ..ReportedCounts::default()
        };
        let of = |zero_copy| {
            let mut drops = KernelDrops::default();
            drops.add(&reported, zero_copy);
            (drops.rx_ring_full, drops.fill_ring_empty, drops.rx_other)
        };
        assert_eq!(of(true), (1, 0, 7));
        assert_eq!(of(false), (1, 5, 2), "each frame under one cause");
    }
}
