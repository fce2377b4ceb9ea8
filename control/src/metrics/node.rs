//! Metrics of the node as a whole.

use covalent_api::status::NodeStatus;

use super::series::{Label, Object, Series, as_f64, seconds};

fn labels(_: &NodeStatus) -> Vec<Label> {
    Vec::new()
}

fn info(node: &NodeStatus) -> Vec<Label> {
    vec![
        Label::new("guid", node.guid.to_string()),
        Label::new("pid", node.pid.to_string()),
    ]
}

pub(super) const NODE: Object<NodeStatus> = Object {
    labels,
    series: &[
        Series::info_of(
            "covalent_node_info",
            "The node's identity and its daemon's process.",
            info,
        ),
        Series::gauge(
            "covalent_node_uptime_seconds",
            "Time since the daemon started.",
            |it| seconds(it.uptime_ns),
        ),
        Series::gauge(
            "covalent_node_resident_bytes",
            "Resident memory of the daemon.",
            |it| as_f64(it.resident_bytes),
        ),
        Series::gauge(
            "covalent_node_config_epoch",
            "Epoch of the configuration in force; 0 is what the daemon read at its start.",
            |it| as_f64(it.config.held.epoch),
        ),
        Series::gauge(
            "covalent_node_sessions",
            "Sessions of applications, from being opened until their memory is freed.",
            |it| as_f64(it.sessions),
        ),
        Series::gauge(
            "covalent_node_mappings",
            "Mappings of the daemon that the memory of applications takes.",
            |it| as_f64(it.mappings),
        ),
        Series::gauge(
            "covalent_node_mappings_max",
            "Most mappings of the daemon that the memory of applications may take.",
            |it| as_f64(it.mappings_max),
        ),
        Series::causes(
            "covalent_node_sessions_detached_total",
            "Sessions that ended, by cause.",
            |it| &it.sessions_detached,
        ),
        Series::causes(
            "covalent_node_violations_total",
            "Sessions detached for what they wrote into shared memory, by what that was.",
            |it| &it.violations,
        ),
        Series::causes(
            "covalent_node_reclaimed_pipes_total",
            "Pipes taken back from sessions that ended, by cause of their end.",
            |it| &it.reclaimed.pipes,
        ),
        Series::causes(
            "covalent_node_reclaimed_bindings_total",
            "Bindings, with their steering rules, taken back from sessions that ended, by cause of their end.",
            |it| &it.reclaimed.bindings,
        ),
        Series::causes(
            "covalent_node_reclaimed_regions_total",
            "Regions taken back from sessions that ended, by cause of their end.",
            |it| &it.reclaimed.regions,
        ),
        Series::causes(
            "covalent_node_reclaimed_verbs_total",
            "Verbs under way at other nodes whose session ended, by cause of its end.",
            |it| &it.reclaimed.verbs,
        ),
        Series::causes(
            "covalent_node_reclaimed_bytes_total",
            "Shared memory that was charged to sessions that ended, by cause of their end.",
            |it| &it.reclaimed.memory_bytes,
        ),
        Series::causes(
            "covalent_node_peers_refused_total",
            "Socket peers turned away, by cause.",
            |it| &it.peers_refused,
        ),
        Series::count(
            "covalent_node_events_total",
            "Events that the daemon raised.",
            |it| it.events,
        ),
        Series::gauge(
            "covalent_node_omitted_objects",
            "Pipes, regions and nodes that are missing below because the daemon's answer had no room for them.",
            |it| as_f64(it.omitted),
        ),
    ],
};
