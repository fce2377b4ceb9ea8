//! Metrics of the ports.

use crate::status::PortStatus;

use super::{
    family::Family,
    series::{Object, Series, as_f64, flag},
};

const LABELS: &[&str] = &["port"];

fn labels(port: &PortStatus) -> Vec<String> {
    vec![port.name.clone()]
}

const INFO: &[&str] = &[
    "number",
    "lane",
    "kind",
    "interface",
    "xdp",
    "zero_copy",
    "need_wakeup",
];

fn info(port: &PortStatus) -> Vec<String> {
    vec![
        port.number.to_string(),
        port.lane.to_string(),
        port.kind.clone(),
        port.interface.as_deref().unwrap_or_default().to_owned(),
        port.mode.xdp.clone(),
        port.mode.zero_copy.to_string(),
        port.mode.need_wakeup.to_string(),
    ]
}

/// Metrics of a port.
pub const PORT: Object<PortStatus> = Object {
    labels: LABELS,
    values: labels,
    series: &[
        Series::info_of(
            Family {
                name: "covalent_port_info",
                unit: "–",
                meaning: "What the port is made of and the mode in effect.",
                worry: "`xdp=\"generic\"` or `zero_copy=\"false\"` where you expect better: the driver fell back.",
            },
            INFO,
            info,
        ),
        Series::gauge(
            Family {
                name: "covalent_port_carrier",
                unit: "0 or 1",
                meaning: "Whether the port has a carrier and is enabled.",
                worry: "It is 0: no cable, or the interface is down.",
            },
            |it| flag(it.carrier),
        ),
        Series::gauge(
            Family {
                name: "covalent_port_absent",
                unit: "0 or 1",
                meaning: "Whether the port has no device.",
                worry: "It is 1 for long: its interface was removed or is not there yet (control has the port opened when it \
                        appears), or it was closed to be opened anew and cannot be opened as before. `covalent status` says which, \
                        and what to do.",
            },
            |it| flag(it.absent.is_some()),
        ),
        Series::gauge(
            Family {
                name: "covalent_port_page_bytes",
                unit: "bytes",
                meaning: "Page size of the port's packet memory.",
                worry: "4096 where you reserved 2 MiB pages.",
            },
            |it| as_f64(it.mode.page_bytes),
        ),
        Series::gauge(
            Family {
                name: "covalent_port_queues",
                unit: "queues",
                meaning: "Receive queues in use.",
                worry: "Less than the interface has: frames of the other queues go to the kernel.",
            },
            |it| f64::from(it.mode.queues),
        ),
        Series::gauge(
            Family {
                name: "covalent_port_frame_max_bytes",
                unit: "bytes",
                meaning: "Longest frame, without FCS.",
                worry: "It is less than your applications send: those frames are refused as `too_long`.",
            },
            |it| f64::from(it.frame_bytes_max),
        ),
        Series::count(
            Family {
                name: "covalent_port_rx_packets_total",
                unit: "packets",
                meaning: "Frames received by the dataplane.",
                worry: "It stops while the neighbour sends.",
            },
            |it| it.rx_packets,
        ),
        Series::count(
            Family {
                name: "covalent_port_rx_bytes_total",
                unit: "bytes",
                meaning: "Bytes received by the dataplane, without FCS.",
                worry: "Its rate nears that of the wire.",
            },
            |it| it.rx_bytes,
        ),
        Series::count(
            Family {
                name: "covalent_port_tx_packets_total",
                unit: "packets",
                meaning: "Frames given to the wire.",
                worry: "It stops while `covalent_port_refused_packets_total` grows.",
            },
            |it| it.tx_packets,
        ),
        Series::count(
            Family {
                name: "covalent_port_tx_bytes_total",
                unit: "bytes",
                meaning: "Bytes given to the wire, without FCS.",
                worry: "Its rate nears that of the wire.",
            },
            |it| it.tx_bytes,
        ),
        Series::count(
            Family {
                name: "covalent_port_passed_to_kernel_packets_total",
                unit: "packets",
                meaning: "Frames that the XDP program passed to the kernel.",
                worry: "It grows fast where the dataplane should have the traffic: a pipe is not bound, a `[[steer]]` rule is too \
                        wide, or a VLAN's tag is not in the frame (`rxvlan` offload).",
            },
            |it| it.passed_to_kernel_packets,
        ),
        Series::causes(
            Family {
                name: "covalent_port_dropped_packets_total",
                unit: "packets",
                meaning: "Frames dropped, by cause.",
                worry: "`rx_ring_full`: the lane is too slow for bursts; raise `ring_slots`. `link_rx_ring_full`: a neighbour sent more frames of \
                        the link than it may; report it. `fill_ring_empty`: the lane returned \
                        no memory in time (in copy mode only: a device in zero-copy mode counts what it has no memory for itself, \
                        `ethtool -S`). `no_pipe`: a rule or `dataplane.miss` takes frames that nobody has bound, or nobody wants a \
                        frame of a port (cable, pcap) that has no kernel. `steered_to_kernel`: a rule leaves frames to the kernel, \
                        but this port has none. `steered_to_drop`: a rule or `dataplane.miss` drops them, in the XDP program where \
                        there is one; worry if it is not what you configured. `tx_dropped_by_device`: the interface failed while \
                        sending. `rx_no_buffer`: a DPDK device found no buffer, so its frames are held somewhere; \
                        `rx_device_error`: it found them damaged (cable, optics); `rx_bad_checksum`: `rx_checksum = \"drop\"` \
                        dropped them. `port_disabled`: the port was disabled with frames inside. `fault_injected`: a port with \
                        `[port.faults]` lost them on purpose. Any other cause that grows is a fault.",
            },
            |it| &it.drops,
        ),
        Series::causes(
            Family {
                name: "covalent_port_refused_packets_total",
                unit: "packets",
                meaning: "Frames refused at a TX pipe, by cause, whose application was told; and frames of links that the port refused.",
                worry: "`full` grows: the wire or the lane is slower than the application. `pipe_full`: a TX pipe had no room; its \
                        application waited or tried again. `down`: it sends without a carrier. `link_type`: it sends frames of the \
                        link's EtherType. `too_long` and `runt`: it sends wrong lengths.",
            },
            |it| &it.refusals,
        ),
        Series::gauge(
            Family {
                name: "covalent_port_tx_room_frames",
                unit: "frames",
                meaning: "Frames that the port would take to send now.",
                worry: "It stays near 0 while the carrier is 1: the wire or the device is slower than what is to be sent, or stands still.",
            },
            |it| as_f64(it.tx_room_frames),
        ),
        Series::causes(
            Family {
                name: "covalent_port_damaged_packets_total",
                unit: "packets",
                meaning: "Frames that the port damaged on purpose, by what was done to them.",
                worry: "It is there at all on a node that is in use: its port has a `[port.faults]` table and the daemon was \
                        started with `--allow-faults`.",
            },
            |it| &it.faults,
        ),
        Series::counts_by(
            Family {
                name: "covalent_port_xdp_counts_total",
                unit: "as named",
                meaning: "What the kernel counts for the port's AF_XDP sockets, by its names (`XDP_STATISTICS`), all queues together.",
                worry: "As `covalent_port_dropped_packets_total`, which has each frame under one cause: `rx_dropped` here holds those of `rx_fill_ring_empty_descs` in copy mode. \
                        `tx_ring_empty_descs` is looks of the driver that found nothing to send, and never a worry. `rx_invalid_descs` or \
                        `tx_invalid_descs`: a fault; report it.",
            },
            "count",
            |it| &it.xdp_counts,
        ),
        Series::counts_by(
            Family {
                name: "covalent_port_device_counts_total",
                unit: "as named",
                meaning: "What the port's DPDK device counts itself, by its driver's names (xstats).",
                worry: "A name with `error`, `missed` or `drop` in it grows. At most 64 of a device's counts are here, none of \
                        single queues. A driver may let one fall back.",
            },
            "count",
            |it| &it.device_counts,
        ),
        Series::counts_by(
            Family {
                name: "covalent_port_device_events_total",
                unit: "events",
                meaning: "What the port's DPDK device told by itself, by event.",
                worry: "`removed`: the device was taken out; the port is gone until the daemon is restarted. `reset_wanted`, \
                        `recovery_failed`: the device is beyond use until then. `recovering`: it lost frames and helps itself.",
            },
            "event",
            |it| &it.device_events,
        ),
    ],
};
