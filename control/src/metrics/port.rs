//! Metrics of the ports.

use covalent_api::status::PortStatus;

use super::series::{Label, Object, Series, as_f64, flag};

fn labels(port: &PortStatus) -> Vec<Label> {
    vec![Label::new("port", port.name.as_str())]
}

fn info(port: &PortStatus) -> Vec<Label> {
    vec![
        Label::new("number", port.number.to_string()),
        Label::new("lane", port.lane.to_string()),
        Label::new("kind", port.kind.as_str()),
        Label::new("interface", port.interface.as_deref().unwrap_or_default()),
        Label::new("xdp", port.mode.xdp.as_str()),
        Label::new("zero_copy", port.mode.zero_copy.to_string()),
        Label::new("need_wakeup", port.mode.need_wakeup.to_string()),
    ]
}

pub(super) const PORT: Object<PortStatus> = Object {
    labels,
    series: &[
        Series::info_of(
            "covalent_port_info",
            "What the port is made of and the mode in effect.",
            info,
        ),
        Series::gauge(
            "covalent_port_carrier",
            "Whether the port has a carrier and is enabled.",
            |it| flag(it.carrier),
        ),
        Series::gauge(
            "covalent_port_absent",
            "Whether the port has no device.",
            |it| flag(it.absent.is_some()),
        ),
        Series::gauge(
            "covalent_port_page_bytes",
            "Page size of the port's packet memory.",
            |it| as_f64(it.mode.page_bytes),
        ),
        Series::gauge("covalent_port_queues", "Receive queues in use.", |it| {
            f64::from(it.mode.queues)
        }),
        Series::gauge(
            "covalent_port_frame_max_bytes",
            "Longest frame, without FCS.",
            |it| f64::from(it.frame_bytes_max),
        ),
        Series::count(
            "covalent_port_rx_packets_total",
            "Frames received by the dataplane.",
            |it| it.rx_packets,
        ),
        Series::count(
            "covalent_port_rx_bytes_total",
            "Bytes received by the dataplane, without FCS.",
            |it| it.rx_bytes,
        ),
        Series::count(
            "covalent_port_tx_packets_total",
            "Frames given to the wire.",
            |it| it.tx_packets,
        ),
        Series::count(
            "covalent_port_tx_bytes_total",
            "Bytes given to the wire, without FCS.",
            |it| it.tx_bytes,
        ),
        Series::count(
            "covalent_port_passed_to_kernel_packets_total",
            "Frames that the XDP program passed to the kernel.",
            |it| it.passed_to_kernel_packets,
        ),
        Series::causes(
            "covalent_port_dropped_packets_total",
            "Frames dropped, by cause.",
            |it| &it.drops,
        ),
        Series::causes(
            "covalent_port_refused_packets_total",
            "Frames refused at a TX pipe, by cause, whose application was told; and frames of links that the port refused.",
            |it| &it.refusals,
        ),
        Series::causes(
            "covalent_port_damaged_packets_total",
            "Frames that the port damaged on purpose, by what was done to them.",
            |it| &it.faults,
        ),
        Series::counts_by(
            "covalent_port_device_counts_total",
            "What the port's DPDK device counts itself, by its driver's names (xstats).",
            "count",
            |it| &it.device_counts,
        ),
        Series::counts_by(
            "covalent_port_device_events_total",
            "What the port's DPDK device told by itself, by event.",
            "event",
            |it| &it.device_events,
        ),
    ],
};
