//! Metrics of the links.

use crate::{refusal::LinkRefusal, status::LinkStatus};

use super::{
    family::Family,
    series::{Object, Series, flag, seconds},
};

const LABELS: &[&str] = &["port"];

fn labels(link: &LinkStatus) -> Vec<String> {
    vec![link.port.clone()]
}

const INFO: &[&str] = &["peer", "peer_name", "peer_port"];

fn info(link: &LinkStatus) -> Vec<String> {
    vec![
        link.peer.map(|peer| peer.to_string()).unwrap_or_default(),
        link.peer_name.as_deref().unwrap_or_default().to_owned(),
        link.peer_port
            .map(|port| port.to_string())
            .unwrap_or_default(),
    ]
}

/// Metrics of a link.
pub const LINK: Object<LinkStatus> = Object {
    labels: LABELS,
    values: labels,
    series: &[
        Series::info_of(
            Family {
                name: "covalent_link_info",
                unit: "–",
                meaning: "The neighbour and its port at the other end; empty until it is known.",
                worry: "`peer_name` is not the node that you cabled. It bears the number of its lane if that is not 0 (`NAME.1`); \
                        `peer` is that lane's `address` in the neighbour's `covalent_lane_info`.",
            },
            INFO,
            info,
        ),
        Series::gauge(
            Family {
                name: "covalent_link_up",
                unit: "0 or 1",
                meaning: "Whether both ends hold the same state.",
                worry: "It is 0 while the carrier is 1: `covalent_link_refused` says why, if somebody answers; if nobody does, the \
                        other end runs no Covalent, or has another `ethertype`.",
            },
            |it| flag(it.state == "up"),
        ),
        Series::state(
            Family {
                name: "covalent_link_state",
                unit: "0 or 1",
                meaning: "The link's state.",
                worry: "`init` for more than a second.",
            },
            &["down", "init", "up"],
            |it| &it.state,
        ),
        Series::one_of(
            Family {
                name: "covalent_link_refused",
                unit: "0 or 1",
                meaning: "Whether the link does not come up although somebody answers, by cause.",
                worry: "It is 1: the cable leads to a port of the same node (`own_port`), into a switch (`shared`), or to two \
                        nodes (`crossed`); the neighbour has this node's GUID (`own_guid`) or another neighbour's (`twin_guid`), \
                        or another release (`version`); or there is no room for one more neighbour (`no_room`). `covalent status` \
                        and `covalent doctor` say what to do.",
            },
            "cause",
            &LinkRefusal::CAUSES,
            |it| it.refusal.as_ref().map_or("", |refusal| &refusal.cause),
        ),
        Series::gauge(
            Family {
                name: "covalent_link_epoch",
                unit: "number",
                meaning: "Epoch in force.",
                worry: "It grows: the link fails and returns. See `covalent_link_failures_total`.",
            },
            |it| f64::from(it.epoch),
        ),
        Series::gauge(
            Family {
                name: "covalent_link_open_transactions",
                unit: "transactions",
                meaning: "Transactions that this side started and that are open.",
                worry: "It stays at `link.slots`: verbs wait for slots.",
            },
            |it| f64::from(it.open_transactions),
        ),
        Series::count(
            Family {
                name: "covalent_link_ups_total",
                unit: "times",
                meaning: "Times that the link came up.",
                worry: "It grows without a known cut or restart.",
            },
            |it| it.ups,
        ),
        Series::causes(
            Family {
                name: "covalent_link_failures_total",
                unit: "failures",
                meaning: "Times that the link failed, by cause.",
                worry: "Any growth wants a reason. `carrier_lost`, `transmit_failed`: cable or interface. `sequence_gap`: frames \
                        are lost, or a switch is between. `outpaced`: another link made `link.event_ratio` round trips meanwhile, \
                        so the cable is dead, or much slower than the others. `unreflected`: the other end does not hear this one. \
                        `peer_silent`: the other end died, or its lane slept too long. `peer_restarted`, `peer_reinitialised`, \
                        `peer_moved`: something happened at the other end. `unanswered`, `reflection_mismatch`, `violation`: a \
                        fault; report it. `clock_leap`: the other end says a clock that no network comes to. \
                        `path_broken`, `path_idle`: of paths over several hops only, which end when a hop fails or nobody \
                        needs them.",
            },
            |it| &it.failures,
        ),
        Series::count(
            Family {
                name: "covalent_link_tx_frames_total",
                unit: "frames",
                meaning: "Frames that the link gave to its port, of every kind.",
                worry: "Never by itself: exchanges, what trees and paths say, balls, handshakes. `covalent_port_tx_packets_total` \
                        less this is what applications sent, while the port refuses no frame of the link: such a one is counted \
                        here, and in `covalent_port_refused_packets_total`.",
            },
            |it| it.tx_frames,
        ),
        Series::count(
            Family {
                name: "covalent_link_rx_frames_total",
                unit: "frames",
                meaning: "Frames of every kind that came whole.",
                worry: "It falls ever further behind the neighbour's `covalent_link_tx_frames_total`: frames are lost on the way, \
                        or damaged (`crc`, `length` and `short` of `covalent_link_dropped_records_total`). On a sound cable both \
                        are the same at rest, and `covalent_port_rx_packets_total` less this is what came for applications.",
            },
            |it| it.rx_frames,
        ),
        Series::count(
            Family {
                name: "covalent_link_tx_records_total",
                unit: "records",
                meaning: "Records sent.",
                worry: "It stands still while the link is up: the idle ball alone makes it grow.",
            },
            |it| it.tx_records,
        ),
        Series::count(
            Family {
                name: "covalent_link_rx_records_total",
                unit: "records",
                meaning: "Records accepted.",
                worry: "It stands still while the link is up; soon after that the link fails as `peer_silent`.",
            },
            |it| it.rx_records,
        ),
        Series::causes(
            Family {
                name: "covalent_link_dropped_records_total",
                unit: "records",
                meaning: "Frames or records dropped, by cause.",
                worry: "`crc` or `malformed` grows: a damaged cable or NIC. `version`, `own_guid`, `no_room`: see \
                        `covalent_link_refused`. `stale_epoch`, `not_up`, `late` and `duplicate` grow a little after a failure; \
                        that is normal. `quota_roots`, `quota_transits`, `quota_ends` or `quota_relays`: the neighbor asks for more than its \
                        share of `fabric.roots_max`, of `fabric.transits`, of `fabric.paths`, or of the questions that are passed on at once.",
            },
            |it| &it.drops,
        ),
        Series::count(
            Family {
                name: "covalent_link_committed_transactions_total",
                unit: "transactions",
                meaning: "Transactions of this side that committed at the other.",
                worry: "It stands still while verbs are submitted to that neighbour.",
            },
            |it| it.committed,
        ),
        Series::count(
            Family {
                name: "covalent_link_refused_transactions_total",
                unit: "transactions",
                meaning: "Transactions of this side that the other refused.",
                worry: "It grows: see `covalent_verb_refused_total` on the neighbour for the cause.",
            },
            |it| it.refused,
        ),
        Series::count(
            Family {
                name: "covalent_link_reversed_transactions_total",
                unit: "transactions",
                meaning: "Transactions of this side that were reversed and applied afresh.",
                worry: "It grows without a failure of the link.",
            },
            |it| it.reversed,
        ),
        Series::count(
            Family {
                name: "covalent_link_resolved_transactions_total",
                unit: "transactions",
                meaning: "Transactions of this side whose outcome was learned by asking after a failure.",
                worry: "It grows without a failure of the link.",
            },
            |it| it.resolved,
        ),
        Series::count(
            Family {
                name: "covalent_link_never_seen_transactions_total",
                unit: "transactions",
                meaning: "Those of the reversed ones that the other side had never seen.",
                worry: "Never by itself: what was lost with the link, before the other side had it.",
            },
            |it| it.never_seen,
        ),
        Series::count(
            Family {
                name: "covalent_link_relayed_questions_total",
                unit: "questions",
                meaning: "Questions about transactions with other nodes that the neighbour passed on for this side, and brought an answer to.",
                worry: "It grows: a cable to another node is cut, and this neighbour is the way to ask it.",
            },
            |it| it.relayed,
        ),
        Series::count(
            Family {
                name: "covalent_link_passed_questions_total",
                unit: "questions",
                meaning: "Questions of the neighbour that this side passed on to other nodes.",
                worry: "It grows: a cable between the neighbour and one of those is cut.",
            },
            |it| it.relays_passed,
        ),
        Series::count(
            Family {
                name: "covalent_link_executed_transactions_total",
                unit: "transactions",
                meaning: "Transactions of the other side that this side executed.",
                worry: "Never by itself; with the neighbour's `covalent_link_committed_transactions_total` it tells that both ends \
                        count the same.",
            },
            |it| it.executed,
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_link_last_failover_seconds",
                unit: "seconds",
                meaning: "From the last failure to the first transaction completed on any link to the same neighbour.",
                worry: "Far above its usual value while a second link was up. It is missing until the first failure.",
            },
            |it| it.last_failover_ns.map(seconds),
        ),
        Series::round_trips(
            Family {
                name: "covalent_link_round_trip_seconds",
                unit: "seconds",
                meaning: "Round trips: from a ball that asks to its reflection, with the rounds of the lanes at both ends.",
                worry: "It is far above its usual value: a lane at one end sleeps, shares its core or is busy, or frames wait in the port. An idle link is measured once in a \
                        second, one with open transactions at each pace and more often.",
            },
            |it| &it.round_trips,
        ),
        Series::gauge(
            Family {
                name: "covalent_link_credit_records",
                unit: "records",
                meaning: "Records that may be under way unreflected, as the neighbour issued.",
                worry: "It is far below 250: the ring of the neighbour's port is short (`ring_slots`).",
            },
            |it| f64::from(it.credit_records),
        ),
        Series::gauge(
            Family {
                name: "covalent_link_unreflected_records",
                unit: "records",
                meaning: "Of those, how many are under way.",
                worry: "It stays near three quarters of `covalent_link_credit_records`, which is what messages may take: the neighbour's lane or the cable is the bottleneck.",
            },
            |it| f64::from(it.unreflected_records),
        ),
        Series::gauge(
            Family {
                name: "covalent_link_silent_paces",
                unit: "paces",
                meaning: "Paces since anything was heard, while the link is up.",
                worry: "It grows above 2 or 3: nothing comes any more. At `link.silent_paces_max` the link is no longer trusted, and fails as `peer_silent`.",
            },
            |it| f64::from(it.silent_paces),
        ),
    ],
};
