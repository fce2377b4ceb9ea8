//! Metrics of what the node knows of others beyond its neighbours, and of the paths to them.

use crate::status::FabricStatus;

use super::{
    family::Family,
    series::{Object, Series, as_f64, none},
};

/// Metrics of the way to other nodes.
pub const TREE: Object<FabricStatus> = Object {
    labels: &[],
    values: none,
    series: &[
        Series::gauge(
            Family {
                name: "covalent_tree_roots",
                unit: "nodes",
                meaning: "Other nodes that are reached, directly or over others.",
                worry: "It falls below the number of the other nodes: some cannot be reached from here. The event \
                        `node_unreachable` names each.",
            },
            |it| as_f64(it.reached),
        ),
        Series::gauge(
            Family {
                name: "covalent_tree_lost",
                unit: "nodes",
                meaning: "Other nodes that cannot be reached any more and are not forgotten yet.",
                worry: "Above 0: a node or its last cable has failed. After five seconds (250 paces) a lost node is forgotten, and \
                        only `covalent_tree_roots` still shows it.",
            },
            |it| as_f64(it.lost),
        ),
        Series::gauge(
            Family {
                name: "covalent_tree_hops_max",
                unit: "cables",
                meaning: "Cables between this node and the farthest that it reaches.",
                worry: "It grows: cables in the middle have failed, and ways go round them. A cable in memory between two lanes \
                        counts as one.",
            },
            |it| as_f64(it.hops_max),
        ),
        Series::counts_by(
            Family {
                name: "covalent_tree_repairs_total",
                unit: "repairs",
                meaning: "Times that the way to a node was replaced, by how.",
                worry: "It grows all the time: cables flap. `after_loss`: there was no way meanwhile.",
            },
            "how",
            |it| &it.repairs,
        ),
        Series::count(
            Family {
                name: "covalent_tree_losses_total",
                unit: "losses",
                meaning: "Times that there was no way to a node any more.",
                worry: "It grows while no node was stopped: the cables leave single points of failure.",
            },
            |it| it.losses,
        ),
        Series::count(
            Family {
                name: "covalent_tree_shortened_total",
                unit: "ways",
                meaning: "Times that a shorter way to a node was taken.",
                worry: "Never by itself.",
            },
            |it| it.shortened,
        ),
        Series::count(
            Family {
                name: "covalent_tree_waves_total",
                unit: "waves",
                meaning: "Times that this node began its tree anew.",
                worry: "It grows all the time: two nodes say one GUID (the event `fabric_problem` tells), or cables near this node flap.",
            },
            |it| it.waves,
        ),
    ],
};

/// Metrics of paths to other nodes.
pub const PATH: Object<FabricStatus> = Object {
    labels: &[],
    values: none,
    series: &[
        Series::counts_by(
            Family {
                name: "covalent_path_events_total",
                unit: "paths",
                meaning: "What happened to paths to nodes beyond the neighbours, by what.",
                worry: "`refused` or `declined` grows: there was no room (`fabric.paths`, `fabric.transits`) or no way. `opened`, \
                        `accepted` and `joined` grow fast: cables flap, or more nodes are spoken with than `fabric.paths`.",
            },
            "what",
            |it| &it.paths,
        ),
        Series::gauge(
            Family {
                name: "covalent_path_transits",
                unit: "paths",
                meaning: "Paths of others that lead through this node.",
                worry: "It stays at `fabric.transits`: others are declined.",
            },
            |it| as_f64(it.transits),
        ),
        Series::count(
            Family {
                name: "covalent_path_passed_records_total",
                unit: "records",
                meaning: "Records of others that were passed on.",
                worry: "Never by itself; it is what this node's cables and lanes do for others.",
            },
            |it| it.passed_records,
        ),
        Series::count(
            Family {
                name: "covalent_path_dropped_records_total",
                unit: "records",
                meaning: "Records of others that were dropped because their path was over.",
                worry: "It grows all the time: paths break. What they told of is resolved by the two ends.",
            },
            |it| it.dropped_records,
        ),
    ],
};
