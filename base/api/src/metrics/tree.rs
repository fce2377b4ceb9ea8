//! Metrics of the nodes known beyond the neighbors, and of the paths to them.

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
                meaning: "Other nodes that are reachable, directly or over others.",
                worry: "It falls below the number of the other nodes: some are unreachable from \
                        here. The event `node_unreachable` names each.",
            },
            |it| as_f64(it.reached),
        ),
        Series::gauge(
            Family {
                name: "covalent_tree_lost",
                unit: "nodes",
                meaning: "Other nodes that are unreachable and not forgotten yet.",
                worry: "It is above 0: a node or its last cable has failed. After five seconds \
                        (250 ticks) an unreachable node is forgotten. Then only \
                        `covalent_tree_roots` shows the loss.",
            },
            |it| as_f64(it.lost),
        ),
        Series::gauge(
            Family {
                name: "covalent_tree_hops_max",
                unit: "cables",
                meaning: "Cables between this node and the farthest reachable node.",
                worry: "It grows: cables in the middle have failed, and routes lead around them. A \
                        cable in memory between two lanes counts as one.",
            },
            |it| as_f64(it.hops_max),
        ),
        Series::counts_by(
            Family {
                name: "covalent_tree_repairs_total",
                unit: "repairs",
                meaning: "Times that the route to a node was replaced, by how.",
                worry: "It grows all the time: cables flap. `after_loss`: there was no route \
                        meanwhile.",
            },
            "how",
            |it| &it.repairs,
        ),
        Series::count(
            Family {
                name: "covalent_tree_losses_total",
                unit: "losses",
                meaning: "Times that a node became unreachable.",
                worry: "It grows while no node was stopped: the cables leave single points of \
                    failure.",
            },
            |it| it.losses,
        ),
        Series::count(
            Family {
                name: "covalent_tree_shortened_total",
                unit: "ways",
                meaning: "Times that a shorter route to a node was selected.",
                worry: "Never on its own.",
            },
            |it| it.shortened,
        ),
        Series::count(
            Family {
                name: "covalent_tree_waves_total",
                unit: "waves",
                meaning: "Times that this node restarted its tree.",
                worry: "It grows all the time: two nodes use one GUID (see the event \
                        `fabric_problem`), or cables near this node flap.",
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
                meaning: "Events of paths to nodes beyond the neighbors, by `what`.",
                worry: "`refused` or `declined` grows: there was no room (`fabric.paths`, \
                        `fabric.transits`) or no route. `opened`, `accepted` and `joined` grow \
                        fast: cables flap, or more nodes are in use than `fabric.paths`.",
            },
            "what",
            |it| &it.paths,
        ),
        Series::gauge(
            Family {
                name: "covalent_path_transits",
                unit: "paths",
                meaning: "Paths between other nodes that lead through this node.",
                worry: "It stays at `fabric.transits`: further paths are declined.",
            },
            |it| as_f64(it.transits),
        ),
        Series::count(
            Family {
                name: "covalent_path_passed_records_total",
                unit: "records",
                meaning: "Records of other nodes that were forwarded.",
                worry: "Never on its own: it counts the work of this node's cables and lanes for \
                        other nodes.",
            },
            |it| it.passed_records,
        ),
        Series::count(
            Family {
                name: "covalent_path_dropped_records_total",
                unit: "records",
                meaning: "Records of other nodes that were dropped because their path had ended.",
                worry: "It grows all the time: paths break. The two ends resolve the affected \
                        exchanges.",
            },
            |it| it.dropped_records,
        ),
    ],
};
