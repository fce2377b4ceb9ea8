//! Metrics of the lanes.

use covalent_api::status::LaneStatus;

use super::series::{Label, Object, Series, seconds};

fn labels(lane: &LaneStatus) -> Vec<Label> {
    vec![Label::new("lane", lane.lane.to_string())]
}

fn info(lane: &LaneStatus) -> Vec<Label> {
    let core = lane.core.map(|core| core.to_string()).unwrap_or_default();
    vec![
        Label::new("core", core),
        Label::new("idle", lane.idle.as_str()),
    ]
}

pub(super) const LANE: Object<LaneStatus> = Object {
    labels,
    series: &[
        Series::info_of(
            "covalent_lane_info",
            "The core that the lane is pinned to, empty if it floats, and its idle policy.",
            info,
        ),
        Series::count(
            "covalent_lane_loops_total",
            "Times round the lane's loop.",
            |it| it.loops,
        ),
        Series::count(
            "covalent_lane_busy_loops_total",
            "Rounds that found work.",
            |it| it.busy_loops,
        ),
        Series::count(
            "covalent_lane_sleeps_total",
            "Times that the lane slept.",
            |it| it.sleeps,
        ),
        Series::growing_seconds(
            "covalent_lane_cpu_seconds_total",
            "CPU time of the lane's thread.",
            |it| it.cpu_ns,
        ),
        Series::gauge(
            "covalent_lane_longest_round_seconds",
            "Longest round that found work.",
            |it| seconds(it.longest_round_ns),
        ),
    ],
};
