//! Metrics of the registered regions.

use covalent_api::status::RegionStatus;

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
