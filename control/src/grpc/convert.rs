//! Converts metrics to the schema, from the same source as `/metrics`.

use std::collections::BTreeMap;

use covalent_grpc_schema::v1::{self, series::Value};
use prometheus::proto::{Histogram, LabelPair, MetricFamily, MetricType};

use crate::metrics::{Declared, Kind};

/// A metric as declared.
pub fn metric(declared: &Declared) -> v1::Metric {
    let words = &declared.family;
    let labels = declared.labels.iter();
    v1::Metric {
        name: words.name.to_owned(),
        kind: kind(declared.kind).into(),
        unit: words.unit.to_owned(),
        meaning: words.meaning.to_owned(),
        worry: words.worry.to_owned(),
        labels: labels.map(|&label| label.to_owned()).collect(),
    }
}

/// A metric with its series.
pub fn family(family: &MetricFamily) -> v1::Family {
    let kind_sent = match family.get_field_type() {
        MetricType::COUNTER => v1::Kind::Counter,
        MetricType::GAUGE => v1::Kind::Gauge,
        MetricType::HISTOGRAM => v1::Kind::Histogram,
        _ => v1::Kind::Unspecified,
    };
    let series = family.get_metric().iter().map(|metric| {
        let value = match kind_sent {
            v1::Kind::Counter => Value::Number(metric.get_counter().get_value()),
            v1::Kind::Histogram => Value::Histogram(histogram(metric.get_histogram())),
            v1::Kind::Gauge | v1::Kind::Unspecified => {
                Value::Number(metric.get_gauge().get_value())
            }
        };
        v1::Series {
            labels: labels(metric.get_label()),
            value: Some(value),
        }
    });
    v1::Family {
        name: family.name().to_owned(),
        kind: kind_sent.into(),
        series: series.collect(),
    }
}

fn labels(pairs: &[LabelPair]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|pair| (pair.name().to_owned(), pair.value().to_owned()))
        .collect()
}

fn histogram(histogram: &Histogram) -> v1::Histogram {
    let buckets = histogram.get_bucket().iter();
    v1::Histogram {
        count: histogram.get_sample_count(),
        sum: histogram.get_sample_sum(),
        buckets: buckets
            .map(|bucket| v1::Bucket {
                upper_bound: bucket.upper_bound(),
                cumulative_count: bucket.cumulative_count(),
            })
            .collect(),
    }
}

const fn kind(kind: Kind) -> v1::Kind {
    match kind {
        Kind::Counter => v1::Kind::Counter,
        Kind::Gauge => v1::Kind::Gauge,
        Kind::Histogram => v1::Kind::Histogram,
    }
}
