//! Opens an AF_XDP port: check, load, bind, fill, attach.

use std::cell::Cell;

use covalent_api::{agreement::PortFacts, status::PortMode};
use covalent_config::{CHUNK_FRAME_BYTES, CopyMode, DataplaneConfig, LinkConfig, XdpMode};
use covalent_ebpf::{AttachMode, EbpfError, EffectiveMode, Steering, attached_programs};

use super::{
    AfXdpPort, Receiver, Taken, Wanted, choices,
    interface::Interface,
    preflight,
    queue::{Queue, QueueSpec},
    umem::{QueueMemory, QueuePlan},
};
use crate::port::{ETHERNET_HEADER_BYTES, LaneMemory, PortError, PortInfo, Tally, mac, memory};

// A queue that the configuration may name has a place in the program's table.
const _: () = assert!(covalent_config::QUEUES_MAX == covalent_ebpf::QUEUES_MAX);

impl AfXdpPort {
    /// Opens sockets on the interface's queues and attaches the XDP program, in this order: check,
    /// load, bind, fill, attach.
    pub(in crate::port) fn open(
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
        let mut receivers = Vec::with_capacity(queue_count as usize);
        for (index, plan) in (0..).zip(plans) {
            let packets = memory::of_queue(port, plan, dataplane.huge_pages)?;
            let (queue, receiver) =
                open_queue(wanted, &interface, index, dataplane.burst, copy, packets)?;
            steering
                .set_socket(index, queue.fd())
                .map_err(steering_failed)?;
            if let Some(link) = queue.link_fd() {
                steering
                    .set_link_socket(index, link)
                    .map_err(steering_failed)?;
            }
            queues.push(queue);
            receivers.push(receiver);
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
            receivers,
            bursts: 0,
            taken: Taken::new(),
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
}

/// Runs the checks that are possible before a port is opened, and while another port has the
/// interface.
pub(in crate::port) fn check_openable(wanted: &Wanted<'_>) -> Result<(), PortError> {
    let port = wanted.port;
    preflight::ring_slots(port, wanted.ring_slots)?;
    preflight::capabilities(port)?;
    let interface = preflight::interface(port, wanted.interface)?;
    preflight::queues(port, &interface, wanted.wishes.queues)?;
    preflight::mtu(port, &interface, wanted.link)?;
    let choices = choices::choices(&interface, wanted.wishes);
    choices::limits(port, &interface, wanted.wishes, &choices)
}

fn open_queue(
    wanted: &Wanted<'_>,
    interface: &Interface,
    index: u32,
    burst: u32,
    copy: CopyMode,
    memory: QueueMemory,
) -> Result<(Queue, Receiver), PortError> {
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
