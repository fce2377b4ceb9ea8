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
                meaning: "The number, lane, kind and interface of the port, and the mode in \
                          effect.",
                worry: "`xdp=\"generic\"` or `zero_copy=\"false\"` where you expect better: the \
                    driver fell back.",
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
                worry: "It is 1 for long: its interface was removed or does not exist yet (control \
                        reopens the port when it appears), or it was closed for reopening and \
                        cannot be reopened as before. `covalent status` gives the reason and the \
                        remedy.",
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
                worry: "Fewer than the interface has: frames of the other queues go to the kernel.",
            },
            |it| f64::from(it.mode.queues),
        ),
        Series::gauge(
            Family {
                name: "covalent_port_frame_max_bytes",
                unit: "bytes",
                meaning: "Longest frame, without FCS.",
                worry: "It is less than the longest frame of your applications: such frames are \
                        refused as `too_long`.",
            },
            |it| f64::from(it.frame_bytes_max),
        ),
        Series::count(
            Family {
                name: "covalent_port_rx_packets_total",
                unit: "packets",
                meaning: "Frames received by the dataplane.",
                worry: "It stops while the neighbor sends.",
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
                meaning: "Frames sent to the wire.",
                worry: "It stops while `covalent_port_refused_packets_total` grows.",
            },
            |it| it.tx_packets,
        ),
        Series::count(
            Family {
                name: "covalent_port_tx_bytes_total",
                unit: "bytes",
                meaning: "Bytes sent to the wire, without FCS.",
                worry: "Its rate nears that of the wire.",
            },
            |it| it.tx_bytes,
        ),
        Series::count(
            Family {
                name: "covalent_port_passed_to_kernel_packets_total",
                unit: "packets",
                meaning: "Frames that the XDP program passed to the kernel.",
                worry: "It grows fast where the dataplane should receive the traffic: a pipe is \
                        not bound, a `[[steer]]` rule is too wide, or a VLAN's tag is not in the \
                        frame (`rxvlan` offload).",
            },
            |it| it.passed_to_kernel_packets,
        ),
        Series::causes(
            Family {
                name: "covalent_port_dropped_packets_total",
                unit: "packets",
                meaning: "Frames dropped, by cause.",
                worry: "`rx_ring_full`: the lane is too slow for bursts; raise `ring_slots`. \
                        `link_rx_ring_full`: a neighbor sent more frames of the link than it may; \
                        report it. `fill_ring_empty`: the lane returned no memory in time (in copy \
                        mode only: in zero-copy mode the device counts these frames itself, \
                        `ethtool -S`). `no_pipe`: a rule or `dataplane.miss` gives frames to the \
                        dataplane that no pipe is bound to, or a frame matched no pipe on a port \
                        (cable, pcap) that has no kernel. `steered_to_kernel`: a rule leaves \
                        frames to the kernel, but this port has none. `steered_to_drop`: a rule or \
                        `dataplane.miss` drops them, in the XDP program where there is one; \
                        unexpected if you did not configure it. `tx_dropped_by_device`: the \
                        interface failed while sending, for example because its cable was cut. \
                        `rx_no_buffer`: a DPDK device found no buffer, so its buffers are all in \
                        use; `rx_device_error`: it found them \
                        damaged (cable, optics); `rx_bad_checksum`: `rx_checksum = \"drop\"` \
                        dropped them. `port_disabled`: the port was disabled with frames inside. \
                        `fault_injected`: a port with `[port.faults]` lost them on purpose. Any \
                        other cause that grows is a fault.",
            },
            |it| &it.drops,
        ),
        Series::causes(
            Family {
                name: "covalent_port_refused_packets_total",
                unit: "packets",
                meaning: "Frames refused at a TX pipe, by cause, each reported to its application; \
                          frames of links that the port refused; and frames that an RX/TX pipe \
                          sent back with the links' EtherType.",
                worry: "`full` grows: the wire or the lane is slower than the application. \
                        `pipe_full`: a TX pipe had no room; its application waited or retried. \
                        `down`: the application sends without a carrier. `link_type`: it sends \
                        frames of the links' EtherType. `too_long` and `runt`: it sends frames of \
                        a wrong length.",
            },
            |it| &it.refusals,
        ),
        Series::gauge(
            Family {
                name: "covalent_port_tx_room_frames",
                unit: "frames",
                meaning: "Frames that the port would accept for sending now.",
                worry: "It stays near 0 while the carrier is 1: the wire or the device is slower \
                        than the offered load, or has stopped.",
            },
            |it| as_f64(it.tx_room_frames),
        ),
        Series::causes(
            Family {
                name: "covalent_port_damaged_packets_total",
                unit: "packets",
                meaning: "Frames that the port damaged on purpose, by kind of damage.",
                worry: "It is present at all on a production node: its port has a `[port.faults]` \
                        table and the daemon was started with `--allow-faults`.",
            },
            |it| &it.faults,
        ),
        Series::counts_by(
            Family {
                name: "covalent_port_xdp_counts_total",
                unit: "as named",
                meaning: "The kernel's counters of the port's AF_XDP sockets, by its names \
                          (`XDP_STATISTICS`), summed over the queues.",
                worry: "As `covalent_port_dropped_packets_total`, which counts each frame under \
                        one cause. Here `rx_dropped` includes those of `rx_fill_ring_empty_descs` \
                        in copy mode. `tx_ring_empty_descs` counts polls of the driver that found \
                        nothing to send, and is harmless. `rx_invalid_descs` or \
                        `tx_invalid_descs`: a fault; report it.",
            },
            "count",
            |it| &it.xdp_counts,
        ),
        Series::counts_by(
            Family {
                name: "covalent_port_device_counts_total",
                unit: "as named",
                meaning: "Counters of the port's DPDK device, by its driver's names (xstats).",
                worry: "A name with `error`, `missed` or `drop` in it grows. At most 64 counters \
                        of a device are here, none of single queues. With some drivers a counter \
                        may decrease.",
            },
            "count",
            |it| &it.device_counts,
        ),
        Series::counts_by(
            Family {
                name: "covalent_port_device_events_total",
                unit: "events",
                meaning: "Events that the port's DPDK device reported, by event.",
                worry: "`removed`: the device was removed; the port is gone until the daemon is \
                        restarted. `reset_wanted`, `recovery_failed`: the device is unusable until \
                        then. `recovering`: it lost frames and recovers without help.",
            },
            "event",
            |it| &it.device_events,
        ),
    ],
};
