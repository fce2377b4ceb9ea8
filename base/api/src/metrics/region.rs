//! Metrics of the registered regions, and of the durable ones.

use crate::status::{DurableRegionStatus, RegionStatus};

use super::{
    family::Family,
    series::{Object, Series, as_f64},
};

/// Without the key, which grants use of the region: anyone can read metrics. The name alone is
/// unique.
const LABELS: &[&str] = &["region", "session"];

fn labels(region: &RegionStatus) -> Vec<String> {
    vec![region.name.clone(), region.session.to_string()]
}

/// Metrics of a registered region.
pub const REGION: Object<RegionStatus> = Object {
    labels: LABELS,
    values: labels,
    series: &[Series::gauge(
        Family {
            name: "covalent_region_size_bytes",
            unit: "bytes",
            meaning: "Size of the region.",
            worry: "It is missing: the application that registered it has exited.",
        },
        |it| as_f64(it.size_bytes),
    )],
};

const DURABLE_LABELS: &[&str] = &["region", "lane", "user", "session"];

fn durable_labels(region: &DurableRegionStatus) -> Vec<String> {
    let session = region.session.map(|session| session.to_string());
    vec![
        region.name.clone(),
        region.lane.to_string(),
        region.uid.to_string(),
        session.unwrap_or_default().to_owned(),
    ]
}

/// Metrics of a durable region.
pub const DURABLE_REGION: Object<DurableRegionStatus> = Object {
    labels: DURABLE_LABELS,
    values: durable_labels,
    series: &[Series::gauge(
        Family {
            name: "covalent_region_durable_bytes",
            unit: "bytes",
            meaning: "Size of the durable region, whether it is registered now or not.",
            worry: "`session` stays empty: its application did not return. If it is no longer \
                    needed: `covalent region delete`.",
        },
        |it| as_f64(it.size_bytes),
    )],
};
