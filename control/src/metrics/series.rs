//! One metric of one kind of object: its words and where its value is found.

use covalent_api::status::{Causes, ROUND_TRIP_BOUNDS_NS, RoundTrips};
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

use super::family::{Declared, Family, Kind};

/// Where a metric's value is found in an object of type `T`; [`Series`]' constructors say what each is.
enum Read<T: 'static> {
    Count(fn(&T) -> u64),
    GrowingSeconds(fn(&T) -> u64),
    CountsBy(&'static str, fn(&T) -> &Causes),
    Gauge(fn(&T) -> f64),
    GaugeIfKnown(fn(&T) -> Option<f64>),
    Info(&'static [&'static str], fn(&T) -> Vec<String>),
    RoundTrips(fn(&T) -> &RoundTrips),
    State(&'static str, &'static [&'static str], fn(&T) -> &str),
}

/// The metrics of one kind of object.
pub(super) struct Object<T: 'static> {
    /// Names of what tells objects of this kind apart.
    pub(super) labels: &'static [&'static str],
    /// What an object has for each of them; [`none`] where there is only one.
    pub(super) values: fn(&T) -> Vec<String>,
    /// The metrics.
    pub(super) series: &'static [Series<T>],
}

impl<T> Object<T> {
    /// Each metric with the samples of all `objects`.
    pub(super) fn families(&self, node: &str, objects: &[T]) -> impl Iterator<Item = MetricFamily> {
        let labels = |object| -> Vec<LabelPair> {
            let mut labels = vec![pair("node", node)];
            labels.extend(pairs(self.labels, (self.values)(object)));
            labels
        };
        let labelled: Vec<(&T, Vec<LabelPair>)> = objects
            .iter()
            .map(|object| (object, labels(object)))
            .collect();
        self.series.iter().map(move |series| {
            let mut samples = Vec::with_capacity(labelled.len());
            for (object, labels) in &labelled {
                series.samples(object, labels.clone(), &mut samples);
            }
            family(&series.family, series.kind(), samples)
        })
    }

    /// Each metric as declared.
    pub(super) fn declared(&self) -> impl Iterator<Item = Declared> + use<T> {
        let labels = self.labels;
        self.series.iter().map(move |series| Declared {
            family: series.family,
            kind: series.kind(),
            labels: labels.iter().chain(series.by()).copied().collect(),
        })
    }
}

/// One metric of the objects of type `T`.
pub(super) struct Series<T: 'static> {
    family: Family,
    /// Where the value is.
    read: Read<T>,
}

impl<T> Series<T> {
    /// A count that only grows.
    pub(super) const fn count(family: Family, read: fn(&T) -> u64) -> Self {
        Self {
            family,
            read: Read::Count(read),
        }
    }

    /// Nanoseconds that only grow; shown in seconds.
    pub(super) const fn growing_seconds(family: Family, read: fn(&T) -> u64) -> Self {
        Self {
            family,
            read: Read::GrowingSeconds(read),
        }
    }

    /// Counts by `cause`.
    pub(super) const fn causes(family: Family, read: fn(&T) -> &Causes) -> Self {
        Self::counts_by(family, "cause", read)
    }

    /// Counts by whatever the label `by` says.
    pub(super) const fn counts_by(
        family: Family,
        by: &'static str,
        read: fn(&T) -> &Causes,
    ) -> Self {
        Self {
            family,
            read: Read::CountsBy(by, read),
        }
    }

    /// A present value.
    pub(super) const fn gauge(family: Family, read: fn(&T) -> f64) -> Self {
        Self {
            family,
            read: Read::Gauge(read),
        }
    }

    /// A present value, once there is one.
    pub(super) const fn gauge_if_known(family: Family, read: fn(&T) -> Option<f64>) -> Self {
        Self {
            family,
            read: Read::GaugeIfKnown(read),
        }
    }

    /// How long round trips took, as a histogram.
    pub(super) const fn round_trips(family: Family, read: fn(&T) -> &RoundTrips) -> Self {
        Self {
            family,
            read: Read::RoundTrips(read),
        }
    }

    /// Text, as labels of a 1.
    pub(super) const fn info_of(
        family: Family,
        labels: &'static [&'static str],
        read: fn(&T) -> Vec<String>,
    ) -> Self {
        Self {
            family,
            read: Read::Info(labels, read),
        }
    }

    /// Which of a few states, each shown as 1 or 0 under the label `state`.
    pub(super) const fn state(
        family: Family,
        states: &'static [&'static str],
        read: fn(&T) -> &str,
    ) -> Self {
        Self::one_of(family, "state", states, read)
    }

    /// Which of a few values, or none of them, each shown as 1 or 0 under the label `by`.
    pub(super) const fn one_of(
        family: Family,
        by: &'static str,
        values: &'static [&'static str],
        read: fn(&T) -> &str,
    ) -> Self {
        Self {
            family,
            read: Read::State(by, values, read),
        }
    }
}

impl<T> Series<T> {
    const fn kind(&self) -> Kind {
        match self.read {
            Read::Count(_) | Read::GrowingSeconds(_) | Read::CountsBy(..) => Kind::Counter,
            Read::RoundTrips(_) => Kind::Histogram,
            Read::Gauge(_) | Read::GaugeIfKnown(_) | Read::Info(..) | Read::State(..) => {
                Kind::Gauge
            }
        }
    }

    /// Labels that the series has besides its object's.
    fn by(&self) -> &[&'static str] {
        match &self.read {
            Read::CountsBy(by, _) | Read::State(by, ..) => std::slice::from_ref(by),
            Read::Info(labels, _) => labels,
            Read::RoundTrips(_)
            | Read::Count(_)
            | Read::GrowingSeconds(_)
            | Read::Gauge(_)
            | Read::GaugeIfKnown(_) => &[],
        }
    }

    fn samples(&self, object: &T, mut labels: Vec<LabelPair>, samples: &mut Vec<Metric>) {
        match &self.read {
            Read::Count(read) => samples.push(counter(labels, as_f64(read(object)))),
            Read::GrowingSeconds(read) => samples.push(counter(labels, seconds(read(object)))),
            Read::CountsBy(by, read) => {
                samples.extend(read(object).iter().map(|(cause, count)| {
                    let mut labels = labels.clone();
                    labels.push(pair(by, cause));
                    counter(labels, as_f64(*count))
                }))
            }
            Read::Gauge(read) => samples.push(gauge(labels, read(object))),
            Read::GaugeIfKnown(read) => {
                samples.extend(read(object).map(|value| gauge(labels, value)))
            }
            Read::Info(names, read) => {
                labels.extend(pairs(names, read(object)));
                samples.push(gauge(labels, 1.0));
            }
            Read::RoundTrips(read) => samples.push(histogram(labels, read(object))),
            Read::State(by, states, read) => samples.extend(states.iter().map(|state| {
                let mut labels = labels.clone();
                labels.push(pair(by, state));
                gauge(labels, flag(read(object) == *state))
            })),
        }
    }
}

fn histogram(labels: Vec<LabelPair>, told: &RoundTrips) -> Metric {
    let buckets = ROUND_TRIP_BOUNDS_NS.iter().zip(&told.within);
    let buckets = buckets.map(|(&bound, &within)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(seconds(bound));
        bucket.set_cumulative_count(within);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(told.count);
    histogram.set_sample_sum(seconds(told.sum_ns));
    let mut metric = Metric::from_label(labels);
    metric.set_histogram(histogram);
    metric
}

/// The values of a kind of object of which there is one.
pub(super) const fn none<T>(_: &T) -> Vec<String> {
    Vec::new()
}

/// A gauge with one sample.
pub(super) fn one(words: &Family, node: &str, labels: &[(&str, &str)], value: f64) -> MetricFamily {
    let mut all = vec![pair("node", node)];
    all.extend(labels.iter().map(|(name, value)| pair(name, value)));
    family(words, Kind::Gauge, vec![gauge(all, value)])
}

/// Nanoseconds in seconds.
pub(super) fn seconds(nanoseconds: u64) -> f64 {
    as_f64(nanoseconds) / 1e9
}

/// 1 for yes.
pub(super) const fn flag(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

/// Prometheus knows only these: beyond 2^53 a counter loses its last digits, not its rate.
pub(super) const fn as_f64(count: u64) -> f64 {
    count as f64
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
