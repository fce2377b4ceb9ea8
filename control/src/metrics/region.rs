//! Metrics of the registered regions, and of the durable ones.

use covalent_api::status::{DurableRegionStatus, RegionStatus};

use super::series::{Label, Object, Series, as_f64};

fn labels(region: &RegionStatus) -> Vec<Label> {
    vec![
        Label::new("region", region.name.as_str()),
        Label::new("session", region.session.to_string()),
        Label::new("rkey", region.rkey.to_string()),
    ]
}

pub(super) const REGION: Object<RegionStatus> = Object {
    labels,
    series: &[Series::gauge(
        "covalent_region_size_bytes",
        "Size of the region.",
        |it| as_f64(it.size_bytes),
    )],
};

fn durable_labels(region: &DurableRegionStatus) -> Vec<Label> {
    let session = region.session.map(|session| session.to_string());
    vec![
        Label::new("region", region.name.as_str()),
        Label::new("lane", region.lane.to_string()),
        Label::new("user", region.uid.to_string()),
        Label::new("session", session.unwrap_or_default()),
    ]
}

pub(super) const DURABLE_REGION: Object<DurableRegionStatus> = Object {
    labels: durable_labels,
    series: &[Series::gauge(
        "covalent_region_durable_bytes",
        "Size of the durable region, registered now or not.",
        |it| as_f64(it.size_bytes),
    )],
};
