//! Metrics of what the node knows of others beyond its neighbours.

use covalent_api::status::FabricStatus;

use super::series::{Label, Object, Series, as_f64};

fn labels(_: &FabricStatus) -> Vec<Label> {
    Vec::new()
}

pub(super) const TREE: Object<FabricStatus> = Object {
    labels,
    series: &[
        Series::gauge(
            "covalent_tree_roots",
            "Other nodes that are reached, directly or over others.",
            |it| as_f64(it.reached),
        ),
        Series::gauge(
            "covalent_tree_lost",
            "Other nodes that cannot be reached any more and are not forgotten yet.",
            |it| as_f64(it.lost),
        ),
        Series::gauge(
            "covalent_tree_hops_max",
            "Cables between this node and the farthest that it reaches.",
            |it| as_f64(it.hops_max),
        ),
        Series::counts_by(
            "covalent_tree_repairs_total",
            "Times that the way to a node was replaced, by how.",
            "how",
            |it| &it.repairs,
        ),
        Series::count(
            "covalent_tree_losses_total",
            "Times that there was no way to a node any more.",
            |it| it.losses,
        ),
        Series::count(
            "covalent_tree_shortened_total",
            "Times that a shorter way to a node was taken.",
            |it| it.shortened,
        ),
        Series::count(
            "covalent_tree_waves_total",
            "Times that this node began its tree anew.",
            |it| it.waves,
        ),
    ],
};
