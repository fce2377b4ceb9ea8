//! Declared metrics in the form in which the library of metrics takes them.

use covalent_api::{
    metrics::{Family, Kind, Object, Sample, Series, as_f64, seconds},
    status::{ROUND_TRIP_BOUNDS_NS, RoundTrips},
};
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

/// Each metric of a kind of object with the samples of all `objects`.
pub(super) fn of_kind<T>(
    kind: &Object<T>,
    node: &str,
    objects: &[T],
) -> impl Iterator<Item = MetricFamily> {
    let labeled: Vec<(&T, Vec<LabelPair>)> = objects
        .iter()
        .map(|object| {
            let mut labels = vec![pair("node", node)];
            labels.extend(pairs(kind.labels, (kind.values)(object)));
            (object, labels)
        })
        .collect();
    kind.series.iter().map(move |series| {
        let mut all = Vec::with_capacity(labeled.len());
        for (object, labels) in &labeled {
            samples(series, object, labels, &mut all);
        }
        family(&series.family, series.kind(), all)
    })
}

fn samples<T>(series: &Series<T>, object: &T, labels: &[LabelPair], all: &mut Vec<Metric>) {
    let under = |by: Option<(&str, &str)>| {
        let mut labels = labels.to_vec();
        labels.extend(by.map(|(name, value)| pair(name, value)));
        labels
    };
    series.samples(object, &mut |sample| {
        all.extend(match sample {
            Sample::Count { by, count } => Some(counter(under(by), as_f64(count))),
            Sample::GrowingNs(ns) => Some(counter(under(None), seconds(ns))),
            Sample::Gauge { by, value } => value.map(|value| gauge(under(by), value)),
            Sample::Info(names, values) => {
                let mut labels = under(None);
                labels.extend(pairs(names, values));
                Some(gauge(labels, 1.0))
            }
            Sample::RoundTrips(round_trips) => Some(histogram(under(None), round_trips)),
        });
    });
}

fn histogram(labels: Vec<LabelPair>, round_trips: &RoundTrips) -> Metric {
    let buckets = ROUND_TRIP_BOUNDS_NS.iter().zip(&round_trips.within);
    let buckets = buckets.map(|(&bound, &within)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(seconds(bound));
        bucket.set_cumulative_count(within);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(round_trips.count);
    histogram.set_sample_sum(seconds(round_trips.sum_ns));
    let mut metric = Metric::from_label(labels);
    metric.set_histogram(histogram);
    metric
}

/// A gauge with one sample.
pub(super) fn one(words: &Family, node: &str, labels: &[(&str, &str)], value: f64) -> MetricFamily {
    let mut all = vec![pair("node", node)];
    all.extend(labels.iter().map(|(name, value)| pair(name, value)));
    family(words, Kind::Gauge, vec![gauge(all, value)])
}

fn family(words: &Family, kind: Kind, samples: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(words.name.to_owned());
    family.set_help(words.meaning.to_owned());
    family.set_field_type(match kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
        Kind::Histogram => MetricType::HISTOGRAM,
    });
    family.set_metric(samples);
    family
}

fn counter(labels: Vec<LabelPair>, value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::from_label(labels);
    metric.set_counter(counter);
    metric
}

fn gauge(labels: Vec<LabelPair>, value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::from_label(labels);
    metric.set_gauge(gauge);
    metric
}

fn pairs(names: &[&str], values: Vec<String>) -> impl Iterator<Item = LabelPair> {
    names
        .iter()
        .zip(values)
        .map(|(name, value)| pair(name, &value))
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}
