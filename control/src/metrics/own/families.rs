//! What is declared of control's metrics of itself.

use covalent_api::metrics::{Declared, Family, Kind};

pub(super) const SCRAPE_SECONDS: Declared = Declared::own(
    Kind::Histogram,
    &[],
    Family {
        name: "covalent_control_scrape_seconds",
        unit: "seconds",
        meaning: "How long earlier scrapes took, the daemon's answer included.",
        worry: "Its upper buckets fill: the daemon answers late, or has thousands of pipes.",
    },
);

pub(super) const CONNECTS: Declared = Declared::own(
    Kind::Counter,
    &[],
    Family {
        name: "covalent_control_connects_total",
        unit: "connections",
        meaning: "Connections made to the daemon; each but the first is a reconnection.",
        worry: "It grows: the daemon restarts, or ends the connection. See `covalent_node_uptime_seconds`.",
    },
);

pub(super) const DAEMON_LOSSES: Declared = Declared::own(
    Kind::Counter,
    &["evidence"],
    Family {
        name: "covalent_control_daemon_losses_total",
        unit: "losses",
        meaning: "Connections to the daemon that were lost, by what showed it first.",
        worry: "It grows. `pidfd`: the daemon's process ended. `socket`: the connection ended; the log says whether the process \
                lives on, and then the daemon turned control away or its answer was not understood.",
    },
);

pub(super) const STATUS_REQUESTS: Declared = Declared::own(
    Kind::Counter,
    &[],
    Family {
        name: "covalent_control_status_requests_total",
        unit: "requests",
        meaning: "Status requests sent to the daemon; scrapes that come together share one.",
        worry: "It grows faster than your scrapes: somebody else scrapes, or asks `/healthz`.",
    },
);

pub(super) const MISSED_EVENTS: Declared = Declared::own(
    Kind::Counter,
    &[],
    Family {
        name: "covalent_control_missed_events_total",
        unit: "events",
        meaning: "Events of the daemon that did not arrive, by the gaps in its count.",
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
        worry: "`link_down` or `link_refused` grows. `journal_failed` is above 0: see `covalent_lane_journal_failed`. \
                `port_absent` is: see `covalent_port_absent`.",
    },
);

pub(super) const AGREEMENTS: Declared = Declared::own(
    Kind::Counter,
    &["how"],
    Family {
        name: "covalent_control_agreements_total",
        unit: "configurations",
        meaning: "Configurations that control adopted, reloaded or reinstated, ports that it had opened again, and what was refused of that.",
        worry: "`reinstated` grows: the daemon dies. `reopened` grows: somebody changes interfaces, or takes their XDP programs \
                off. `refused` grows without a `covalent reload` of yours: what was agreed on cannot be put in force again, or a \
                port cannot be opened again; the log says why.",
    },
);

pub(super) const AGREED: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_control_agreed",
        unit: "0 or 1",
        meaning: "Whether control and the daemon hold the same configuration and nothing is under way.",
        worry: "It is 0 for longer than a restart of the daemon takes.",
    },
);

pub(super) const AGREED_EPOCH: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_control_agreed_epoch",
        unit: "epochs",
        meaning: "Epoch of the configuration that control holds; 0 is what the daemon read at its start.",
        worry: "Never by itself.",
    },
);

pub(super) const UNHEALED_PORTS: Declared = Declared::own(
    Kind::Gauge,
    &[],
    Family {
        name: "covalent_control_unhealed_ports",
        unit: "ports",
        meaning: "Ports that are not what their interfaces are, and that control does not try to have opened again any longer.",
        worry: "It is above 0: eight attempts failed. The log says what is in the way; mend it, then `covalent reload`.",
    },
);

pub(super) const INTERFACE_UP: Declared = Declared::own(
    Kind::Gauge,
    &["port", "interface"],
    Family {
        name: "covalent_control_interface_up",
        unit: "0 or 1",
        meaning: "Whether the port's interface exists and is set up.",
        worry: "It is 0: somebody set the interface down, or it does not exist.",
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
    &AGREED_EPOCH,
    &UNHEALED_PORTS,
    &INTERFACE_UP,
    &INTERFACE_CARRIER,
    &RESIDENT_BYTES,
    &BUILD_INFO,
];
