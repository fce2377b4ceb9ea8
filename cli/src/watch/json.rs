//! Samples for programs: the fields of the schema, by their names.

use covalent_grpc_schema::v1::{Family, Kind, Sample, Series, series};
use serde_json::{Value, json};

/// A sample.
pub fn sample(sample: &Sample) -> Value {
    let gone = sample.gone.iter();
    json!({
        "number": sample.number,
        "realtime_ns": sample.realtime_ns,
        "monotonic_ns": sample.monotonic_ns,
        "node": sample.node,
        "daemon_answers": sample.daemon_answers,
        "daemon_problem": sample.daemon_problem,
        "skipped_samples": sample.skipped_samples,
        "families": sample.families.iter().map(family).collect::<Vec<_>>(),
        "gone": gone.map(|it| json!({ "name": it.name, "labels": it.labels })).collect::<Vec<_>>(),
    })
}

fn family(family: &Family) -> Value {
    let kind = match family.kind() {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Unspecified => "unknown",
    };
    json!({
        "name": family.name,
        "kind": kind,
        "series": family.series.iter().map(one).collect::<Vec<_>>(),
    })
}

fn one(series: &Series) -> Value {
    match &series.value {
        Some(series::Value::Number(number)) => {
            json!({ "labels": series.labels, "number": number })
        }
        Some(series::Value::Histogram(observed)) => {
            let buckets = observed.buckets.iter().map(|bucket| {
                json!({
                    "upper_bound": bucket.upper_bound,
                    "cumulative_count": bucket.cumulative_count,
                })
            });
            let histogram = json!({
                "count": observed.count,
                "sum": observed.sum,
                "buckets": buckets.collect::<Vec<_>>(),
            });
            json!({ "labels": series.labels, "histogram": histogram })
        }
        None => json!({ "labels": series.labels }),
    }
}
