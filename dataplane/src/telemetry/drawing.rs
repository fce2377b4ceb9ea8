//! Encodes objects according to the declarations of their metrics.

use std::sync::LazyLock;

use covalent_api::{
    metrics::{Object, Sample, seconds},
    status::ROUND_TRIP_BOUNDS_NS,
};
use covalent_counters::{Draft, FieldKind};

/// The bounds of round trips as Prometheus writes them.
static BOUNDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let seconds = ROUND_TRIP_BOUNDS_NS
        .iter()
        .map(|&bound| seconds(bound).to_string());
    seconds.collect()
});

/// Encodes `object` with the metrics of its kind. The first metric has the number `first`. Labels
/// are left out if the file has them already.
pub(super) fn draw<T>(
    kind: &Object<T>,
    first: u32,
    object: &T,
    with_labels: bool,
    draft: &mut Draft,
) {
    draft.clear();
    if with_labels {
        for (name, value) in kind.labels.iter().zip((kind.values)(object)) {
            draft.label(name, &value);
        }
    }
    for (family, series) in (first..).zip(kind.series) {
        series.samples(object, &mut |sample| match sample {
            Sample::Count { by, count } => draft.value(family, FieldKind::Count, by, count),
            Sample::GrowingNs(ns) => draft.value(family, FieldKind::Nanoseconds, None, ns),
            Sample::Gauge { by, value } => {
                let bits = value.unwrap_or(f64::NAN).to_bits();
                draft.value(family, FieldKind::Gauge, by, bits);
            }
            Sample::Info(names, values) => {
                let labels = names.iter().copied();
                draft.info(family, labels.zip(values.iter().map(String::as_str)));
            }
            Sample::RoundTrips(round_trips) => {
                let bounds = BOUNDS.iter().map(String::as_str);
                let within = bounds.zip(round_trips.within.iter().copied());
                for (bound, count) in within.chain([("+Inf", round_trips.count)]) {
                    let by = Some(("le", bound));
                    draft.value(family, FieldKind::Bucket, by, count);
                }
                draft.value(family, FieldKind::Sum, None, round_trips.sum_ns);
                draft.value(family, FieldKind::Total, None, round_trips.count);
            }
        });
    }
}
