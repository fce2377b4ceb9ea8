//! Metrics of the pipes.

use covalent_api::{request::PipeKind, status::PipeStatus};

use super::series::{Label, Object, Series, as_f64};

fn labels(pipe: &PipeStatus) -> Vec<Label> {
    let kind = match pipe.kind {
        PipeKind::Rx => "rx",
        PipeKind::Tx => "tx",
        PipeKind::RxTx => "rx_tx",
        PipeKind::RxBytes => "rx_bytes",
        PipeKind::VerbSubmit => "verb_submit",
        PipeKind::VerbComplete => "verb_complete",
    };
    vec![
        Label::new("session", pipe.session.to_string()),
        Label::new("pipe", pipe.pipe.to_string()),
        Label::new("kind", kind),
    ]
}

pub(super) const PIPE: Object<PipeStatus> = Object {
    labels,
    series: &[
        Series::gauge(
            "covalent_pipe_capacity_bytes",
            "Size of the pipe's ring.",
            |it| as_f64(it.capacity_bytes),
        ),
        Series::gauge(
            "covalent_pipe_page_bytes",
            "Page size of the pipe's ring.",
            |it| as_f64(it.page_bytes),
        ),
        Series::count(
            "covalent_pipe_rx_packets_total",
            "Packets written for the application.",
            |it| it.rx_packets,
        ),
        Series::count(
            "covalent_pipe_rx_bytes_total",
            "Bytes written for the application.",
            |it| it.rx_bytes,
        ),
        Series::count(
            "covalent_pipe_tx_packets_total",
            "Packets taken from the application.",
            |it| it.tx_packets,
        ),
        Series::count(
            "covalent_pipe_tx_bytes_total",
            "Bytes taken from the application.",
            |it| it.tx_bytes,
        ),
        Series::count(
            "covalent_pipe_sent_notifications_total",
            "Notifications sent to the application.",
            |it| it.notifications_sent,
        ),
        Series::count(
            "covalent_pipe_suppressed_notifications_total",
            "Arrivals that needed no notification, because one was outstanding.",
            |it| it.notifications_suppressed,
        ),
        Series::count(
            "covalent_pipe_answered_doorbells_total",
            "Doorbells answered: the application moved its head, or its transmit tail.",
            |it| it.head_updates,
        ),
        Series::count(
            "covalent_pipe_discarded_packets_total",
            "Packets of an RX/TX pipe that the application gave back unsent.",
            |it| it.tx_discarded_packets,
        ),
        Series::count(
            "covalent_pipe_unstamped_packets_total",
            "Packets too short for the stamp that the application asked for.",
            |it| it.unstamped_packets,
        ),
        Series::count(
            "covalent_pipe_refused_packets_total",
            "Packets of the application that found its TX pipe full.",
            |it| it.tx_full_packets,
        ),
        Series::causes(
            "covalent_pipe_dropped_packets_total",
            "Packets dropped, by cause.",
            |it| &it.drops,
        ),
    ],
};
