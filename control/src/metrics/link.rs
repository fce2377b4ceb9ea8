//! Metrics of the links.

use covalent_api::{refusal::LinkRefusal, status::LinkStatus};

use super::series::{Label, Object, Series, flag, seconds};

fn labels(link: &LinkStatus) -> Vec<Label> {
    vec![Label::new("port", link.port.as_str())]
}

fn info(link: &LinkStatus) -> Vec<Label> {
    vec![
        Label::new(
            "peer",
            link.peer.map(|peer| peer.to_string()).unwrap_or_default(),
        ),
        Label::new("peer_name", link.peer_name.as_deref().unwrap_or_default()),
        Label::new(
            "peer_port",
            link.peer_port
                .map(|port| port.to_string())
                .unwrap_or_default(),
        ),
    ]
}

pub(super) const LINK: Object<LinkStatus> = Object {
    labels,
    series: &[
        Series::info_of(
            "covalent_link_info",
            "The neighbour and its port at the other end; empty until it is known.",
            info,
        ),
        Series::gauge(
            "covalent_link_up",
            "Whether both ends hold the same state.",
            |it| flag(it.state == "up"),
        ),
        Series::state(
            "covalent_link_state",
            "The link's state.",
            &["down", "init", "up"],
            |it| &it.state,
        ),
        Series::one_of(
            "covalent_link_refused",
            "Whether the link does not come up although somebody answers, by cause.",
            "cause",
            &LinkRefusal::CAUSES,
            |it| it.refusal.as_ref().map_or("", |refusal| &refusal.cause),
        ),
        Series::gauge("covalent_link_epoch", "Epoch in force.", |it| {
            f64::from(it.epoch)
        }),
        Series::gauge(
            "covalent_link_open_transactions",
            "Transactions that this side started and that are open.",
            |it| f64::from(it.open_transactions),
        ),
        Series::count(
            "covalent_link_ups_total",
            "Times that the link came up.",
            |it| it.ups,
        ),
        Series::causes(
            "covalent_link_failures_total",
            "Times that the link failed, by cause.",
            |it| &it.failures,
        ),
        Series::count(
            "covalent_link_tx_frames_total",
            "Frames that the link gave to its port, of every kind.",
            |it| it.tx_frames,
        ),
        Series::count(
            "covalent_link_rx_frames_total",
            "Frames of every kind that came whole.",
            |it| it.rx_frames,
        ),
        Series::count("covalent_link_tx_records_total", "Records sent.", |it| {
            it.tx_records
        }),
        Series::count(
            "covalent_link_rx_records_total",
            "Records accepted.",
            |it| it.rx_records,
        ),
        Series::causes(
            "covalent_link_dropped_records_total",
            "Frames or records dropped, by cause.",
            |it| &it.drops,
        ),
        Series::count(
            "covalent_link_committed_transactions_total",
            "Transactions of this side that committed at the other.",
            |it| it.committed,
        ),
        Series::count(
            "covalent_link_refused_transactions_total",
            "Transactions of this side that the other refused.",
            |it| it.refused,
        ),
        Series::count(
            "covalent_link_reversed_transactions_total",
            "Transactions of this side that were reversed and applied afresh.",
            |it| it.reversed,
        ),
        Series::count(
            "covalent_link_resolved_transactions_total",
            "Transactions of this side whose outcome was learned by asking after a failure.",
            |it| it.resolved,
        ),
        Series::count(
            "covalent_link_never_seen_transactions_total",
            "Those of the reversed ones that the other side had never seen.",
            |it| it.never_seen,
        ),
        Series::count(
            "covalent_link_relayed_questions_total",
            "Questions about transactions with other nodes that the neighbour passed on for this side, and brought an answer to.",
            |it| it.relayed,
        ),
        Series::count(
            "covalent_link_passed_questions_total",
            "Questions of the neighbour that this side passed on to other nodes.",
            |it| it.relays_passed,
        ),
        Series::count(
            "covalent_link_executed_transactions_total",
            "Transactions of the other side that this side executed.",
            |it| it.executed,
        ),
        Series::gauge_if_known(
            "covalent_link_last_failover_seconds",
            "From the last failure to the first transaction completed on any link to the same neighbour.",
            |it| it.last_failover_ns.map(seconds),
        ),
    ],
};
