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
                meaning: "The neighbor and its port at the other end. Empty until known.",
                worry: "`peer_name` is not the node that you cabled. It ends with the number of \
                        its lane if that is not 0 (`NAME.1`). `peer` is that lane's `address` in \
                        the neighbor's `covalent_lane_info`.",
            },
            INFO,
            info,
        ),
        Series::gauge(
            Family {
                name: "covalent_link_up",
                unit: "0 or 1",
                meaning: "Whether both ends hold the same state.",
                worry: "It is 0 while the carrier is 1: `covalent_link_refused` gives the reason \
                        if the other end answers. If it does not, the other end runs no Covalent, \
                        or has another `ethertype`.",
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
                meaning: "Whether the link does not come up although the other end answers, by \
                          cause.",
                worry: "It is 1: the cable leads to a port of the same node (`own_port`), into a \
                        switch (`shared`), or to two nodes (`crossed`); the neighbor has this \
                        node's GUID (`own_guid`) or another neighbor's (`twin_guid`), or another \
                        release (`version`); or there is no table entry for one more neighbor \
                        (`no_room`). `covalent status` and `covalent doctor` give the remedy.",
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
                worry: "It grows: the link fails and comes up again. See \
                        `covalent_link_failures_total`.",
            },
            |it| f64::from(it.epoch),
        ),
        Series::gauge(
            Family {
                name: "covalent_link_open_exchanges",
                unit: "exchanges",
                meaning: "Open exchanges that this side started.",
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
                worry: "Any growth needs an explanation. `carrier_lost`, \
                        `transmit_failed`: cable or interface. `sequence_gap`: frames are \
                        lost, or a switch is between. `peer_rtt_exceeded`: another link \
                        made `link.event_ratio` round trips meanwhile, so the cable is \
                        dead, or much slower than the others. `unreflected`: the other end \
                        does not receive from this one. `peer_silent`: the other end died, \
                        or its lane slept too long. `peer_restarted`, \
                        `peer_reinitialized`, `peer_moved`: check the other end. \
                        `unanswered`, `reflection_mismatch`, `violation`: a fault; report \
                        it. `clock_leap`: the other end sends a clock that no network can \
                        reach. `path_broken`, `path_idle`: only of paths over several \
                        hops, which end when a hop fails or no node needs them.",
            },
            |it| &it.failures,
        ),
        Series::count(
            Family {
                name: "covalent_link_tx_frames_total",
                unit: "frames",
                meaning: "Frames of every kind that the link passed to its port.",
                worry: "Never on its own: it counts exchanges, messages of trees and paths, \
                        keepalives and handshakes. `covalent_port_tx_packets_total` less this is \
                        the number that applications sent, while the port refuses no frame of the \
                        link. A refused frame is counted here, and in \
                        `covalent_port_refused_packets_total`.",
            },
            |it| it.tx_frames,
        ),
        Series::count(
            Family {
                name: "covalent_link_rx_frames_total",
                unit: "frames",
                meaning: "Frames of every kind that arrived intact.",
                worry: "It falls ever further behind the neighbor's \
                        `covalent_link_tx_frames_total`: frames are lost on the way, or damaged \
                        (`crc`, `length` and `short` of `covalent_link_dropped_records_total`). On \
                        an intact cable both are equal when idle, and \
                        `covalent_port_rx_packets_total` less this is the number that arrived for \
                        applications.",
            },
            |it| it.rx_frames,
        ),
        Series::count(
            Family {
                name: "covalent_link_tx_records_total",
                unit: "records",
                meaning: "Records sent.",
                worry: "It does not grow while the link is up: keepalives alone make it grow.",
            },
            |it| it.tx_records,
        ),
        Series::count(
            Family {
                name: "covalent_link_rx_records_total",
                unit: "records",
                meaning: "Records accepted.",
                worry: "It does not grow while the link is up. Soon after that, the link fails as \
                        `peer_silent`.",
            },
            |it| it.rx_records,
        ),
        Series::causes(
            Family {
                name: "covalent_link_dropped_records_total",
                unit: "records",
                meaning: "Frames or records dropped, by cause.",
                worry: "`crc` or `malformed` grows: a damaged cable or NIC. `version`, `own_guid`, \
                        `no_room`: see `covalent_link_refused`. `stale_epoch`, `not_up`, `late` \
                        and `duplicate` grow a little after a failure; that is normal. \
                        `quota_roots`, `quota_transits`, `quota_ends` or `quota_relays`: the \
                        neighbor requests more than its share of `fabric.roots_max`, of \
                        `fabric.transits`, of `fabric.paths`, or of the queries that are relayed \
                        at once.",
            },
            |it| &it.drops,
        ),
        Series::count(
            Family {
                name: "covalent_link_committed_exchanges_total",
                unit: "exchanges",
                meaning: "Exchanges of this side that committed at the other side.",
                worry: "It does not grow while verbs are submitted to that neighbor.",
            },
            |it| it.committed,
        ),
        Series::count(
            Family {
                name: "covalent_link_refused_exchanges_total",
                unit: "exchanges",
                meaning: "Exchanges of this side that the other side refused.",
                worry: "It grows: see `covalent_verb_refused_total` on the neighbor for the cause.",
            },
            |it| it.refused,
        ),
        Series::count(
            Family {
                name: "covalent_link_reversed_exchanges_total",
                unit: "exchanges",
                meaning: "Exchanges of this side that were reversed and applied again.",
                worry: "It grows without a failure of the link.",
            },
            |it| it.reversed,
        ),
        Series::count(
            Family {
                name: "covalent_link_resolved_exchanges_total",
                unit: "exchanges",
                meaning: "Exchanges of this side whose outcome was resolved by a query after a \
                          failure.",
                worry: "It grows without a failure of the link.",
            },
            |it| it.resolved,
        ),
        Series::count(
            Family {
                name: "covalent_link_never_seen_exchanges_total",
                unit: "exchanges",
                meaning: "Reversed exchanges that the other side had never seen.",
                worry: "Never on its own: they were lost with the link, before the other side \
                        received them.",
            },
            |it| it.never_seen,
        ),
        Series::count(
            Family {
                name: "covalent_link_relayed_questions_total",
                unit: "questions",
                meaning: "Queries about exchanges with other nodes that the neighbor relayed \
                          for this side, and for which it returned a reply.",
                worry: "It grows: a cable to another node is cut, and queries to that node go \
                        through this neighbor.",
            },
            |it| it.relayed,
        ),
        Series::count(
            Family {
                name: "covalent_link_passed_questions_total",
                unit: "questions",
                meaning: "Queries of the neighbor that this side relayed to other nodes.",
                worry: "It grows: a cable between the neighbor and one of those nodes is cut.",
            },
            |it| it.relays_passed,
        ),
        Series::count(
            Family {
                name: "covalent_link_executed_exchanges_total",
                unit: "exchanges",
                meaning: "Exchanges of the other side that this side executed.",
                worry: "Never on its own. It equals the neighbor's \
                        `covalent_link_committed_exchanges_total` if both ends count the same.",
            },
            |it| it.executed,
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_link_last_failover_seconds",
                unit: "seconds",
                meaning: "Delay of exchanges by the last failure, until one completed on any \
                          link to the same neighbor.",
                worry: "Far above its usual value while a second link was up. It starts at the \
                        failure, or at the first exchange after it if none waited. It is \
                        missing until a failure delays an exchange.",
            },
            |it| it.last_failover_ns.map(seconds),
        ),
        Series::round_trips(
            Family {
                name: "covalent_link_round_trip_seconds",
                unit: "seconds",
                meaning: "Round trips: from a ping to its reflection, including the rounds of the \
                          lanes at both ends.",
                worry: "It is far above its usual value: a lane at one end sleeps, shares its core \
                        or is busy, or frames wait in the port. An idle link is measured once a \
                        second, one with open exchanges at each tick and more often.",
            },
            |it| &it.round_trips,
        ),
        Series::gauge(
            Family {
                name: "covalent_link_credit_records",
                unit: "records",
                meaning: "Records that may be in flight and unreflected, as granted by the \
                          neighbor.",
                worry: "It is far below 250: the ring of the neighbor's port is short \
                    (`ring_slots`).",
            },
            |it| f64::from(it.credit_records),
        ),
        Series::gauge(
            Family {
                name: "covalent_link_unreflected_records",
                unit: "records",
                meaning: "Records in flight and unreflected.",
                worry: "It stays near three quarters of `covalent_link_credit_records`, which is \
                        the limit for messages: the neighbor's lane or the cable is the \
                        bottleneck.",
            },
            |it| f64::from(it.unreflected_records),
        ),
        Series::gauge(
            Family {
                name: "covalent_link_keepalive_misses",
                unit: "ticks",
                meaning: "Ticks since the last received frame, while the link is up.",
                worry: "It grows above 2 or 3: no frames arrive any more. At \
                        `link.keepalive_misses_max` the link fails as `peer_silent`.",
            },
            |it| f64::from(it.keepalive_misses),
        ),
    ],
};
