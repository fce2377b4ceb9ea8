//! Declarations of control's metrics of itself.

use covalent_api::metrics::{Declared, Family, Kind};

pub(super) const SCRAPE_SECONDS: Declared = Declared::own(
    Kind::Histogram,
    &[],
    Family {
        name: "covalent_control_scrape_seconds",
        unit: "seconds",
        meaning: "Duration of earlier scrapes, including the daemon's answer.",
        worry: "Its upper buckets fill: the daemon answers late, or has thousands of pipes.",
    },
);

pub(super) const CONNECTS: Declared = Declared::own(
    Kind::Counter,
    &[],
    Family {
        name: "covalent_control_connects_total",
        unit: "connections",
        meaning: "Connections made to the daemon. Each one after the first is a reconnection.",
        worry: "It grows: the daemon restarts, or closes the connection. See \
                `covalent_node_uptime_seconds`.",
    },
);

pub(super) const DAEMON_LOSSES: Declared = Declared::own(
    Kind::Counter,
    &["evidence"],
    Family {
        name: "covalent_control_daemon_losses_total",
        unit: "losses",
        meaning: "Lost connections to the daemon, by the first evidence of the loss.",
        worry: "It grows. `pidfd`: the daemon's process exited. `socket`: the connection closed. \
                The log shows whether the process still runs. If so, the daemon rejected control, \
                or control could not decode its answer.",
    },
);

pub(super) const STATUS_REQUESTS: Declared = Declared::own(
    Kind::Counter,
    &[],
    Family {
        name: "covalent_control_status_requests_total",
        unit: "requests",
        meaning: "Status requests sent to the daemon. Concurrent scrapes share one.",
        worry: "It grows faster than your scrapes: another client scrapes, or requests `/healthz`.",
    },
);

pub(super) const MISSED_EVENTS: Declared = Declared::own(
    Kind::Counter,
    &[],
    Family {
        name: "covalent_control_missed_events_total",
        unit: "events",
        meaning: "Events of the daemon that did not arrive, found by gaps in its count.",
        worry: "Any growth: control was too slow for the daemon's events.",
    },
);

pub(super) const EVENTS: Declared = Declared::own(
    Kind::Counter,
    &["event"],
    Family {
        name: "covalent_control_events_total",
        unit: "events",
        meaning: "Events received from the daemon, by kind.",
        worry: "`link_down` or `link_refused` grows. `journal_failed` is above 0: see \
                `covalent_lane_journal_failed`. `port_absent` is above 0: see \
                `covalent_port_absent`.",
    },
);

pub(super) const AGREEMENTS: Declared = Declared::own(
    Kind::Counter,
    &["how"],
    Family {
        name: "covalent_control_agreements_total",
        unit: "configurations",
        meaning: "Configurations that control adopted, reloaded or reinstated, ports that it \
                  reopened, and refusals of these.",
        worry: "`reinstated` grows: the daemon crashes. `reopened` grows: another program changes \
                interfaces, or detaches their XDP programs. `refused` grows without a `covalent \
                reload`: the agreed configuration cannot be put in force again, or a port cannot \
                be reopened. The log shows the cause.",
    },
);

pub(super) const AGREED: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_control_agreed",
        unit: "0 or 1",
        meaning: "Whether control and the daemon hold the same configuration and no change is in \
                  flight.",
        worry: "It is 0 for longer than a restart of the daemon takes.",
    },
);

pub(super) const AGREED_REVISION: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_control_agreed_revision",
        unit: "revisions",
        meaning: "Revision of the configuration that control holds. 0 is the configuration that the \
                  daemon read at its start.",
        worry: "Never on its own.",
    },
);

pub(super) const UNHEALED_PORTS: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_control_unhealed_ports",
        unit: "ports",
        meaning: "Ports that do not match their interfaces and that control no longer tries to \
                  reopen.",
        worry: "It is above 0: eight attempts failed. The log shows the cause. Fix it, then run \
                `covalent reload`.",
    },
);

pub(super) const INTERFACE_UP: Declared = Declared::own(
    Kind::Gauge,
    &["port", "interface"],
    Family {
        name: "covalent_control_interface_up",
        unit: "0 or 1",
        meaning: "Whether the port's interface exists and is set up.",
        worry: "It is 0: the interface was set down, or does not exist.",
    },
);

pub(super) const INTERFACE_CARRIER: Declared = Declared::own(
    Kind::Gauge,
    &["port", "interface"],
    Family {
        name: "covalent_control_interface_carrier",
        unit: "0 or 1",
        meaning: "Whether the port's interface has a carrier.",
        worry: "It is 0: no cable, or the other end is down.",
    },
);

pub(super) const RESIDENT_BYTES: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_control_resident_bytes",
        unit: "bytes",
        meaning: "Resident memory of the control process.",
        worry: "It grows while nothing else does.",
    },
);

pub(super) const BUILD_INFO: Declared = Declared::own(
    Kind::Gauge,
    &["version"],
    Family {
        name: "covalent_control_build_info",
        unit: "–",
        meaning: "Version of the control process.",
        worry: "`version` differs from the daemon's release.",
    },
);

/// All of them, in the order of the page.
pub(in super::super) const OWN: [&Declared; 14] = [
    &SCRAPE_SECONDS,
    &CONNECTS,
    &DAEMON_LOSSES,
    &STATUS_REQUESTS,
    &MISSED_EVENTS,
    &EVENTS,
    &AGREEMENTS,
    &AGREED,
    &AGREED_REVISION,
    &UNHEALED_PORTS,
    &INTERFACE_UP,
    &INTERFACE_CARRIER,
    &RESIDENT_BYTES,
    &BUILD_INFO,
];
