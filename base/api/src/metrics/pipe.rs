//! Metrics of the pipes.

use crate::{request::PipeKind, status::PipeStatus};

use super::{
    family::Family,
    series::{Object, Series, as_f64},
};

const LABELS: &[&str] = &["session", "pipe", "kind"];

fn labels(pipe: &PipeStatus) -> Vec<String> {
    let kind = match pipe.kind {
        PipeKind::Rx => "rx",
        PipeKind::Tx => "tx",
        PipeKind::RxTx => "rx_tx",
        PipeKind::RxBytes => "rx_bytes",
        PipeKind::VerbSubmit => "verb_submit",
        PipeKind::VerbComplete => "verb_complete",
    };
    vec![
        pipe.session.to_string(),
        pipe.pipe.to_string(),
        kind.to_owned(),
    ]
}

/// Metrics of a pipe.
pub const PIPE: Object<PipeStatus> = Object {
    labels: LABELS,
    values: labels,
    series: &[
        Series::gauge(
            Family {
                name: "covalent_pipe_capacity_bytes",
                unit: "bytes",
                meaning: "Size of the pipe's ring.",
                worry: "It is small and the pipe drops as `full`.",
            },
            |it| as_f64(it.capacity_bytes),
        ),
        Series::gauge(
            Family {
                name: "covalent_pipe_used_bytes",
                unit: "bytes",
                meaning: "Bytes of the ring in use: shown to the application and not returned yet; \
                          in a TX pipe, submitted and not sent yet.",
                worry: "It stays near `covalent_pipe_capacity_bytes`: the application reads too \
                        slowly, or the port sends too slowly.",
            },
            |it| as_f64(it.used_bytes),
        ),
        Series::gauge(
            Family {
                name: "covalent_pipe_page_bytes",
                unit: "bytes",
                meaning: "Page size of the pipe's ring.",
                worry: "4096 for a ring of 2 MiB or more: the daemon's log gives the remedy.",
            },
            |it| as_f64(it.page_bytes),
        ),
        Series::count(
            Family {
                name: "covalent_pipe_rx_packets_total",
                unit: "packets",
                meaning: "Packets written for the application.",
                worry: "It does not grow while the port receives: the binding does not match.",
            },
            |it| it.rx_packets,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_rx_bytes_total",
                unit: "bytes",
                meaning: "Bytes written for the application.",
                worry: "It does not grow while the port receives.",
            },
            |it| it.rx_bytes,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_tx_packets_total",
                unit: "packets",
                meaning: "Packets taken from the application.",
                worry: "It does not grow while the application sends.",
            },
            |it| it.tx_packets,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_tx_bytes_total",
                unit: "bytes",
                meaning: "Bytes taken from the application.",
                worry: "It does not grow while the application sends.",
            },
            |it| it.tx_bytes,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_sent_notifications_total",
                unit: "notifications",
                meaning: "Notifications sent to the application.",
                worry: "Its rate nears that of the packets: the application takes packets one at a \
                        time.",
            },
            |it| it.notifications_sent,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_suppressed_notifications_total",
                unit: "notifications",
                meaning: "Arrivals that needed no notification, because one was outstanding.",
                worry: "Never: many mean that the application takes its packets in batches.",
            },
            |it| it.notifications_suppressed,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_answered_doorbells_total",
                unit: "doorbells",
                meaning: "Doorbells handled: the application moved its head, or its transmit tail.",
                worry: "Never: few for many packets mean that the application takes them in \
                    batches.",
            },
            |it| it.head_updates,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_discarded_packets_total",
                unit: "packets",
                meaning: "Packets of an RX/TX pipe that the application released unsent.",
                worry: "Never: the application decides.",
            },
            |it| it.tx_discarded_packets,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_unstamped_packets_total",
                unit: "packets",
                meaning: "Packets too short for the stamp that the application requested.",
                worry: "When round trips are measured: these packets are missing there.",
            },
            |it| it.unstamped_packets,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_refused_packets_total",
                unit: "packets",
                meaning: "Packets that the application could not send because its TX pipe was \
                          full.",
                worry: "It grows: the port, or the requested rate, is slower than the application \
                        sends, or the pipe is too small for its bursts.",
            },
            |it| it.tx_full_packets,
        ),
        Series::count(
            Family {
                name: "covalent_pipe_port_lost_packets_total",
                unit: "packets",
                meaning: "Frames lost by the ports from which the pipe receives, since it was \
                          opened and before their pipe was known. Each pipe of such a port shows \
                          all of them, so do not add them up.",
                worry: "It grows: frames arrive in larger bursts than the port's rings hold. \
                        `covalent_port_dropped_packets_total` gives the causes.",
            },
            |it| it.port_lost_packets,
        ),
        Series::causes(
            Family {
                name: "covalent_pipe_dropped_packets_total",
                unit: "packets",
                meaning: "Packets dropped, by cause.",
                worry: "`full`: the application reads too slowly, or its pipe is too small. \
                        `too_long`: a packet is longer than the pipe can hold. `no_payload`: a \
                        frame that is not a complete UDP datagram arrived at a pipe of bytes.",
            },
            |it| &it.drops,
        ),
    ],
};
