//! From what is declared of an object to what is written of it.

use std::sync::LazyLock;

use covalent_api::{
    metrics::{Object, Sample, seconds},
    status::ROUND_TRIP_BOUNDS_NS,
};
use covalent_pipe::telemetry::{Draft, FieldKind};

/// The bounds of round trips as Prometheus writes them.
static BOUNDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let seconds = ROUND_TRIP_BOUNDS_NS
        .iter()
        .map(|&bound| seconds(bound).to_string());
    seconds.collect()
});

/// Draws `object` as its kind's metrics have it, of which the first has the number `first`. Without labels if they are in the file already.
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
            Sample::RoundTrips(told) => {
                let bounds = BOUNDS.iter().map(String::as_str);
                let within = bounds.zip(told.within.iter().copied());
                for (bound, count) in within.chain([("+Inf", told.count)]) {
                    let by = Some(("le", bound));
                    draft.value(family, FieldKind::Bucket, by, count);
                }
                draft.value(family, FieldKind::Sum, None, told.sum_ns);
                draft.value(family, FieldKind::Total, None, told.count);
            }
        });
    }
}
