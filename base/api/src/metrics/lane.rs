//! Metrics of the lanes.

use crate::status::{JournalStatus, LaneStatus};

use super::{
    family::Family,
    series::{Object, Series, as_f64, seconds},
};

const LABELS: &[&str] = &["lane"];

fn labels(lane: &LaneStatus) -> Vec<String> {
    vec![lane.lane.to_string()]
}

const INFO: &[&str] = &["address", "core", "idle"];

fn info(lane: &LaneStatus) -> Vec<String> {
    let core = lane.core.map(|core| core.to_string()).unwrap_or_default();
    let address = lane.address.map(|it| it.to_string()).unwrap_or_default();
    vec![address, core, lane.idle.clone()]
}

/// A number of the lane's journal, if it keeps one.
fn journal(lane: &LaneStatus, read: fn(&JournalStatus) -> u64) -> Option<f64> {
    lane.journal.as_ref().map(|journal| as_f64(read(journal)))
}

/// Metrics of a lane.
pub const LANE: Object<LaneStatus> = Object {
    labels: LABELS,
    values: labels,
    series: &[
        Series::info_of(
            Family {
                name: "covalent_lane_info",
                unit: "–",
                meaning: "The lane's address, the core that it is pinned to (empty if it floats), \
                          and its idle policy.",
                worry: "`core` is empty under `idle=\"poll\"`: the lane moves between cores.",
            },
            INFO,
            info,
        ),
        Series::count(
            Family {
                name: "covalent_lane_loops_total",
                unit: "loops",
                meaning: "Rounds of the lane's loop.",
                worry: "It does not grow under `poll`: the lane is stuck.",
            },
            |it| it.loops,
        ),
        Series::count(
            Family {
                name: "covalent_lane_busy_loops_total",
                unit: "loops",
                meaning: "Rounds that found work.",
                worry: "Its rate nears that of `covalent_lane_loops_total`: the lane has no spare \
                        time. Distribute its ports over more lanes.",
            },
            |it| it.busy_loops,
        ),
        Series::growing_seconds(
            Family {
                name: "covalent_lane_busy_seconds_total",
                unit: "seconds",
                meaning: "Time in rounds that found work.",
                worry: "Its rate nears 1: the lane has no spare time, under any idle policy. \
                        Distribute its ports over more lanes.",
            },
            |it| it.busy_ns,
        ),
        Series::count(
            Family {
                name: "covalent_lane_sleeps_total",
                unit: "sleeps",
                meaning: "Times that the lane slept.",
                worry: "It does not grow without traffic under `adaptive` or `interrupt`: the lane \
                        never sleeps.",
            },
            |it| it.sleeps,
        ),
        Series::growing_seconds(
            Family {
                name: "covalent_lane_cpu_seconds_total",
                unit: "seconds",
                meaning: "CPU time of the lane's thread.",
                worry: "Its rate nears 1 under `adaptive` or `interrupt`: the lane is fully \
                        loaded. Under `poll`, 1 is normal.",
            },
            |it| it.cpu_ns,
        ),
        Series::gauge(
            Family {
                name: "covalent_lane_longest_round_seconds",
                unit: "seconds",
                meaning: "Longest round that found work.",
                worry: "Above some milliseconds on a dedicated core: the lane did nothing else for \
                        so long. On a shared core the time of other threads counts too.",
            },
            |it| seconds(it.longest_round_ns),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_appended_records",
                unit: "records",
                meaning: "Records passed to the lane's journal, over all its generations.",
                worry: "It grows while the next one does not: the disk has stalled. Only lanes \
                        with a journal have these series.",
            },
            |it| journal(it, |journal| journal.appended),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_durable_records",
                unit: "records",
                meaning: "The part of these records that is on disk.",
                worry: "It stays behind the one above for longer than a write takes: meanwhile \
                        nothing is acknowledged on durable regions.",
            },
            |it| journal(it, |journal| journal.durable),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_held_verbs",
                unit: "verbs",
                meaning: "Verbs of this node that were executed and wait for the disk.",
                worry: "It grows: the disk is slower than the applications of this node.",
            },
            |it| journal(it, |journal| journal.held),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_regions",
                unit: "regions",
                meaning: "Durable regions.",
                worry: "It is less than the applications registered: one was registered without \
                        durability.",
            },
            |it| journal(it, |journal| journal.regions),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_region_bytes",
                unit: "bytes",
                meaning: "Total size of the durable regions.",
                worry: "With 104 bytes for each region and 64 for every 4 KiB it approaches a \
                        quarter of `journal.file_mib`: further regions will be refused.",
            },
            |it| journal(it, |journal| journal.region_bytes),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_kept_regions",
                unit: "regions",
                meaning: "Durable regions whose owner is not attached.",
                worry: "It stays above 0: an application did not return.",
            },
            |it| journal(it, |journal| journal.kept),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_refused_verbs",
                unit: "verbs",
                meaning: "Verbs of other nodes that were refused because the journal had no room \
                          or had failed.",
                worry: "It grows: the disk is too slow, or the journal's files are too small.",
            },
            |it| journal(it, |journal| journal.refused),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_retried_writes",
                unit: "writes",
                meaning: "Writes and syncs that were issued again because the kernel lacked \
                          resources temporarily.",
                worry: "It grows: the machine is out of memory. After fifty consecutive retries \
                        the journal fails.",
            },
            |it| journal(it, |journal| journal.retried),
        ),
        Series::gauge_if_known(
            Family {
                name: "covalent_lane_journal_failed",
                unit: "0 or 1",
                meaning: "Whether the journal has failed: verbs on durable regions are refused.",
                worry: "It is 1: `covalent status`, the event `journal_failed` and the daemon's \
                        log give the reason and the remedy. Only a restart ends it.",
            },
            |it| journal(it, |journal| u64::from(journal.failure.is_some())),
        ),
    ],
};
