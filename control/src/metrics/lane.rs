//! Metrics of the lanes.

use covalent_api::status::{JournalStatus, LaneStatus};

use super::series::{Label, Object, Series, as_f64, seconds};

fn labels(lane: &LaneStatus) -> Vec<Label> {
    vec![Label::new("lane", lane.lane.to_string())]
}

fn info(lane: &LaneStatus) -> Vec<Label> {
    let core = lane.core.map(|core| core.to_string()).unwrap_or_default();
    let address = lane.address.map(|it| it.to_string()).unwrap_or_default();
    vec![
        Label::new("address", address),
        Label::new("core", core),
        Label::new("idle", lane.idle.as_str()),
    ]
}

/// A number of the lane's journal, if it keeps one.
fn journal(lane: &LaneStatus, read: fn(&JournalStatus) -> u64) -> Option<f64> {
    lane.journal.as_ref().map(|journal| as_f64(read(journal)))
}

pub(super) const LANE: Object<LaneStatus> = Object {
    labels,
    series: &[
        Series::info_of(
            "covalent_lane_info",
            "The lane's address, the core that it is pinned to, empty if it floats, and its idle policy.",
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
        Series::gauge_if_known(
            "covalent_lane_journal_appended_records",
            "Records that the lane's journal was given, over all its lives.",
            |it| journal(it, |journal| journal.appended),
        ),
        Series::gauge_if_known(
            "covalent_lane_journal_durable_records",
            "Of those, on disk.",
            |it| journal(it, |journal| journal.durable),
        ),
        Series::gauge_if_known(
            "covalent_lane_journal_held_verbs",
            "Verbs of this node that were executed and wait for the disk.",
            |it| journal(it, |journal| journal.held),
        ),
        Series::gauge_if_known("covalent_lane_journal_regions", "Durable regions.", |it| {
            journal(it, |journal| journal.regions)
        }),
        Series::gauge_if_known(
            "covalent_lane_journal_region_bytes",
            "Size of the durable regions together.",
            |it| journal(it, |journal| journal.region_bytes),
        ),
        Series::gauge_if_known(
            "covalent_lane_journal_kept_regions",
            "Durable regions whose owner is not attached.",
            |it| journal(it, |journal| journal.kept),
        ),
        Series::gauge_if_known(
            "covalent_lane_journal_refused_verbs",
            "Verbs of other nodes refused because the journal had no room or had failed.",
            |it| journal(it, |journal| journal.refused),
        ),
        Series::gauge_if_known(
            "covalent_lane_journal_failed",
            "Whether the journal has failed: verbs on durable regions are refused.",
            |it| journal(it, |journal| u64::from(journal.failure.is_some())),
        ),
    ],
};
