//! Metrics of the node as a whole.

use crate::status::NodeStatus;

use super::{
    family::Family,
    series::{Object, Series, as_f64, none, seconds},
};

const INFO: &[&str] = &["guid", "pid"];

fn info(node: &NodeStatus) -> Vec<String> {
    vec![node.guid.to_string(), node.pid.to_string()]
}

/// Metrics of the node as a whole.
pub const NODE: Object<NodeStatus> = Object {
    labels: &[],
    values: none,
    series: &[
        Series::info_of(
            Family {
                name: "covalent_node_info",
                unit: "–",
                meaning: "The node's identity and its daemon's process.",
                worry: "`guid` changed: the state directory was lost, and the neighbours see a stranger. `pid` changed: the daemon \
                        restarted.",
            },
            INFO,
            info,
        ),
        Series::gauge(
            Family {
                name: "covalent_node_uptime_seconds",
                unit: "seconds",
                meaning: "Time since the daemon started.",
                worry: "It falls back: the daemon restarted, and applications that did not ask to reconnect must attach again.",
            },
            |it| seconds(it.uptime_ns),
        ),
        Series::gauge(
            Family {
                name: "covalent_node_resident_bytes",
                unit: "bytes",
                meaning: "Resident memory of the daemon.",
                worry: "It grows while `covalent_node_sessions` and the pipes stay the same.",
            },
            |it| as_f64(it.resident_bytes),
        ),
        Series::gauge(
            Family {
                name: "covalent_node_config_epoch",
                unit: "epochs",
                meaning: "Epoch of the configuration in force; 0 is what the daemon read at its start.",
                worry: "It differs from `covalent_control_agreed_epoch` while `covalent_control_agreed` is 1.",
            },
            |it| as_f64(it.config.held.epoch),
        ),
        Series::gauge(
            Family {
                name: "covalent_node_sessions",
                unit: "sessions",
                meaning: "Sessions of applications, from being opened until their memory is freed.",
                worry: "It falls to 0 when applications should be running.",
            },
            |it| as_f64(it.sessions),
        ),
        Series::gauge(
            Family {
                name: "covalent_node_mappings",
                unit: "mappings",
                meaning: "Mappings of the daemon that the memory of applications takes.",
                worry: "It comes near `covalent_node_mappings_max`: sessions, pipes and regions will be refused. One for each \
                        session and region, three for each pipe, until they are freed; a quarter of the setting is the most for \
                        one user.",
            },
            |it| as_f64(it.mappings),
        ),
        Series::gauge(
            Family {
                name: "covalent_node_mappings_max",
                unit: "mappings",
                meaning: "Most mappings of the daemon that the memory of applications may take.",
                worry: "Never by itself: seven eighths of `sysctl vm.max_map_count`, read at start.",
            },
            |it| as_f64(it.mappings_max),
        ),
        Series::causes(
            Family {
                name: "covalent_node_sessions_detached_total",
                unit: "sessions",
                meaning: "Sessions that ended, by cause.",
                worry: "`violation` grows: an application wrote what no correct one writes. `closed` and `process_ended` are ordinary.",
            },
            |it| &it.sessions_detached,
        ),
        Series::causes(
            Family {
                name: "covalent_node_violations_total",
                unit: "sessions",
                meaning: "Sessions detached for what they wrote into shared memory, by what that was.",
                worry: "Any growth: a faulty or hostile application. The log and the event `detached` name the session, the pipe, \
                        the word and its value.",
            },
            |it| &it.violations,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_pipes_total",
                unit: "pipes",
                meaning: "Pipes taken back from sessions that ended, by cause of their end.",
                worry: "Never by itself. `covalent_pipe_capacity_bytes` shows the pipes that are there.",
            },
            |it| &it.reclaimed.pipes,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_bindings_total",
                unit: "bindings",
                meaning: "Bindings, with their steering rules, taken back from sessions that ended, by cause of their end.",
                worry: "Never by itself.",
            },
            |it| &it.reclaimed.bindings,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_regions_total",
                unit: "regions",
                meaning: "Regions taken back from sessions that ended, by cause of their end.",
                worry: "It grows under `process_ended`: verbs on those regions are refused as `unknown_region` now.",
            },
            |it| &it.reclaimed.regions,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_verbs_total",
                unit: "verbs",
                meaning: "Verbs under way at other nodes whose session ended, by cause of its end.",
                worry: "It grows under `process_ended`: those verbs run to their end, and nobody is told their outcome.",
            },
            |it| &it.reclaimed.verbs,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_bytes_total",
                unit: "bytes",
                meaning: "Shared memory that was charged to sessions that ended, by cause of their end.",
                worry: "Never by itself. A process that keeps its descriptors keeps the memory: see *Trust* in `architecture.md`.",
            },
            |it| &it.reclaimed.memory_bytes,
        ),
        Series::causes(
            Family {
                name: "covalent_node_peers_refused_total",
                unit: "peers",
                meaning: "Socket peers turned away, by cause.",
                worry: "`credentials`: somebody outside of `node.group` tries. `version`: an application or the control process is \
                        of another release. `too_many`: a limit is reached.",
            },
            |it| &it.peers_refused,
        ),
        Series::count(
            Family {
                name: "covalent_node_events_total",
                unit: "events",
                meaning: "Events that the daemon raised.",
                worry: "Never by itself; compare with `covalent_control_missed_events_total`.",
            },
            |it| it.events,
        ),
        Series::gauge(
            Family {
                name: "covalent_node_omitted_objects",
                unit: "objects",
                meaning: "Pipes, regions and nodes that are missing below because the daemon's counters or its answer had no room for them.",
                worry: "Above 0: some pipes and regions are not in this scrape. Sums over pipes are too small then. Nodes beyond \
                        the 64th are left out first, and no series here is about a single one. The counters have room for 4096 pipes of a lane, and 1024 regions.",
            },
            |it| as_f64(it.omitted),
        ),
    ],
};
