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
                worry: "`guid` changed: the state directory was lost, and the neighbors see \
                        another node. `pid` changed: the daemon restarted.",
            },
            INFO,
            info,
        ),
        Series::gauge(
            Family {
                name: "covalent_node_uptime_seconds",
                unit: "seconds",
                meaning: "Time since the daemon started.",
                worry: "It falls back: the daemon restarted, and applications that did not enable \
                        reconnection must attach again.",
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
                name: "covalent_node_config_revision",
                unit: "revisions",
                meaning: "Revision of the configuration in force. 0 is the configuration that the \
                          daemon read at its start.",
                worry: "It differs from `covalent_control_agreed_revision` while \
                    `covalent_control_agreed` is 1.",
            },
            |it| as_f64(it.config.held.epoch),
        ),
        Series::gauge(
            Family {
                name: "covalent_node_sessions",
                unit: "sessions",
                meaning: "Sessions of applications, from their opening until their memory is \
                          freed.",
                worry: "It falls to 0 when applications should be running.",
            },
            |it| as_f64(it.sessions),
        ),
        Series::gauge(
            Family {
                name: "covalent_node_mappings",
                unit: "mappings",
                meaning: "Mappings of the daemon that the memory of applications uses.",
                worry: "It approaches `covalent_node_mappings_max`: sessions, pipes and regions \
                        will be refused. Each session and region uses one, each pipe three, until \
                        they are freed. One user may have at most a quarter of `sysctl \
                        vm.max_map_count`.",
            },
            |it| as_f64(it.mappings),
        ),
        Series::gauge(
            Family {
                name: "covalent_node_mappings_max",
                unit: "mappings",
                meaning: "Maximum number of mappings of the daemon for the memory of applications.",
                worry: "Never on its own: seven eighths of `sysctl vm.max_map_count`, read at \
                        start.",
            },
            |it| as_f64(it.mappings_max),
        ),
        Series::causes(
            Family {
                name: "covalent_node_sessions_detached_total",
                unit: "sessions",
                meaning: "Sessions that ended, by cause.",
                worry: "`violation` grows: an application wrote values that no correct application \
                        writes. `closed` and `process_ended` are normal.",
            },
            |it| &it.sessions_detached,
        ),
        Series::causes(
            Family {
                name: "covalent_node_violations_total",
                unit: "sessions",
                meaning: "Sessions detached because of invalid values in shared memory, by kind of \
                          violation.",
                worry: "Any growth: a faulty or hostile application. The log and the event \
                    `detached` name the session, the pipe, \
                        the word and its value.",
            },
            |it| &it.violations,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_pipes_total",
                unit: "pipes",
                meaning: "Pipes reclaimed from sessions that ended, by cause of their end.",
                worry: "Never on its own. `covalent_pipe_capacity_bytes` shows the existing pipes.",
            },
            |it| &it.reclaimed.pipes,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_bindings_total",
                unit: "bindings",
                meaning: "Bindings, with their steering rules, reclaimed from sessions that ended, \
                          by cause of their end.",
                worry: "Never on its own.",
            },
            |it| &it.reclaimed.bindings,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_regions_total",
                unit: "regions",
                meaning: "Regions reclaimed from sessions that ended, by cause of their end.",
                worry: "It grows under `process_ended`: verbs on those regions are now refused as \
                        `unknown_region`.",
            },
            |it| &it.reclaimed.regions,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_verbs_total",
                unit: "verbs",
                meaning: "Verbs in flight at other nodes whose session ended, by cause of its end.",
                worry: "It grows under `process_ended`: those verbs complete, but their outcome is \
                        reported to no application.",
            },
            |it| &it.reclaimed.verbs,
        ),
        Series::causes(
            Family {
                name: "covalent_node_reclaimed_bytes_total",
                unit: "bytes",
                meaning: "Shared memory that was charged to sessions that ended, by cause of their \
                    end.",
                worry: "Never on its own. A process that keeps its descriptors keeps the memory: \
                        see *Trust* in `architecture.md`.",
            },
            |it| &it.reclaimed.memory_bytes,
        ),
        Series::causes(
            Family {
                name: "covalent_node_peers_refused_total",
                unit: "peers",
                meaning: "Socket peers rejected, by cause.",
                worry: "`credentials`: a user outside of `node.group` tries to connect. `version`: \
                        an application or the control process is of another release. `too_many`: a \
                        limit is reached.",
            },
            |it| &it.peers_refused,
        ),
        Series::count(
            Family {
                name: "covalent_node_events_total",
                unit: "events",
                meaning: "Events that the daemon raised.",
                worry: "Never on its own; compare with `covalent_control_missed_events_total`.",
            },
            |it| it.events,
        ),
        Series::gauge(
            Family {
                name: "covalent_node_omitted_objects",
                unit: "objects",
                meaning: "Pipes, regions and nodes that are missing below because the daemon's \
                          counters or its reply had no room for them.",
                worry: "Above 0: some pipes and regions are not in this scrape, and sums over \
                        pipes are too small. Nodes beyond the 64th are omitted first, and no \
                        series here describes a single node. The counters have room for 4096 pipes \
                        of a lane, and 1024 regions.",
            },
            |it| as_f64(it.omitted),
        ),
    ],
};
