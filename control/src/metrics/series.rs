//! One metric of one kind of object: its name, its help and where its value is found.

use covalent_api::status::Causes;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// A label and its value.
pub(super) struct Label {
    name: &'static str,
    value: String,
}

impl Label {
    pub(super) fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self {
            name,
            value: value.into(),
        }
    }
}

/// Where a metric's value is found in an object of type `T`; [`Series`]' constructors say what each is.
enum Read<T: 'static> {
    Count(fn(&T) -> u64),
    GrowingSeconds(fn(&T) -> u64),
    CountsBy(&'static str, fn(&T) -> &Causes),
    Gauge(fn(&T) -> f64),
    GaugeIfKnown(fn(&T) -> Option<f64>),
    Info(fn(&T) -> Vec<Label>),
    State(&'static str, &'static [&'static str], fn(&T) -> &str),
}

/// The metrics of one kind of object.
pub(super) struct Object<T: 'static> {
    /// What tells objects of this kind apart.
    pub(super) labels: fn(&T) -> Vec<Label>,
    /// The metrics.
    pub(super) series: &'static [Series<T>],
}

impl<T> Object<T> {
    /// Each metric with the samples of all `objects`.
    pub(super) fn families(
        &self,
        common: &[Label],
        objects: &[T],
    ) -> impl Iterator<Item = MetricFamily> {
        let labels = |object| -> Vec<LabelPair> {
            common
                .iter()
                .chain(&(self.labels)(object))
                .map(pair)
                .collect()
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
            family(series.name, series.help, series.kind(), samples)
        })
    }

    /// Each metric as declared.
    pub(super) fn declared(&self) -> impl Iterator<Item = Declared> + use<T> {
        self.series.iter().map(Declared::from)
    }
}

/// One metric of the objects of type `T`.
pub(super) struct Series<T: 'static> {
    /// As the naming law has it.
    name: &'static str,
    /// One sentence for people.
    help: &'static str,
    /// Where the value is.
    read: Read<T>,
}

impl<T> Series<T> {
    /// A count that only grows.
    pub(super) const fn count(name: &'static str, help: &'static str, read: fn(&T) -> u64) -> Self {
        Self {
            name,
            help,
            read: Read::Count(read),
        }
    }

    /// Nanoseconds that only grow; shown in seconds.
    pub(super) const fn growing_seconds(
        name: &'static str,
        help: &'static str,
        read: fn(&T) -> u64,
    ) -> Self {
        Self {
            name,
            help,
            read: Read::GrowingSeconds(read),
        }
    }

    /// Counts by `cause`.
    pub(super) const fn causes(
        name: &'static str,
        help: &'static str,
        read: fn(&T) -> &Causes,
    ) -> Self {
        Self::counts_by(name, help, "cause", read)
    }

    /// Counts by whatever the label `by` says.
    pub(super) const fn counts_by(
        name: &'static str,
        help: &'static str,
        by: &'static str,
        read: fn(&T) -> &Causes,
    ) -> Self {
        Self {
            name,
            help,
            read: Read::CountsBy(by, read),
        }
    }

    /// A present value.
    pub(super) const fn gauge(name: &'static str, help: &'static str, read: fn(&T) -> f64) -> Self {
        Self {
            name,
            help,
            read: Read::Gauge(read),
        }
    }

    /// A present value, once there is one.
    pub(super) const fn gauge_if_known(
        name: &'static str,
        help: &'static str,
        read: fn(&T) -> Option<f64>,
    ) -> Self {
        Self {
            name,
            help,
            read: Read::GaugeIfKnown(read),
        }
    }

    /// Text, as labels of a 1.
    pub(super) const fn info_of(
        name: &'static str,
        help: &'static str,
        read: fn(&T) -> Vec<Label>,
    ) -> Self {
        Self {
            name,
            help,
            read: Read::Info(read),
        }
    }

    /// Which of a few states, each shown as 1 or 0 under the label `state`.
    pub(super) const fn state(
        name: &'static str,
        help: &'static str,
        states: &'static [&'static str],
        read: fn(&T) -> &str,
    ) -> Self {
        Self::one_of(name, help, "state", states, read)
    }

    /// Which of a few values, or none of them, each shown as 1 or 0 under the label `by`.
    pub(super) const fn one_of(
        name: &'static str,
        help: &'static str,
        by: &'static str,
        values: &'static [&'static str],
        read: fn(&T) -> &str,
    ) -> Self {
        Self {
            name,
            help,
            read: Read::State(by, values, read),
        }
    }
}

/// A metric that can appear on `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
}

impl<T> From<&Series<T>> for Declared {
    fn from(series: &Series<T>) -> Self {
        let kind = if series.kind() == MetricType::COUNTER {
            "counter"
        } else {
            "gauge"
        };
        Self {
            name: series.name,
            help: series.help,
            kind,
        }
    }
}

impl<T> Series<T> {
    const fn kind(&self) -> MetricType {
        match self.read {
            Read::Count(_) | Read::GrowingSeconds(_) | Read::CountsBy(..) => MetricType::COUNTER,
            Read::Gauge(_) | Read::GaugeIfKnown(_) | Read::Info(_) | Read::State(..) => {
                MetricType::GAUGE
            }
        }
    }

    fn samples(&self, object: &T, mut labels: Vec<LabelPair>, samples: &mut Vec<Metric>) {
        match &self.read {
            Read::Count(read) => samples.push(counter(labels, as_f64(read(object)))),
            Read::GrowingSeconds(read) => samples.push(counter(labels, seconds(read(object)))),
            Read::CountsBy(name, read) => {
                samples.extend(read(object).iter().map(|(cause, count)| {
                    let mut labels = labels.clone();
                    labels.push(pair(&Label::new(name, cause.as_str())));
                    counter(labels, as_f64(*count))
                }))
            }
            Read::Gauge(read) => samples.push(gauge(labels, read(object))),
            Read::GaugeIfKnown(read) => {
                samples.extend(read(object).map(|value| gauge(labels, value)))
            }
            Read::Info(read) => {
                labels.extend(read(object).iter().map(pair));
                samples.push(gauge(labels, 1.0));
            }
            Read::State(by, states, read) => samples.extend(states.iter().map(|state| {
                let mut labels = labels.clone();
                labels.push(pair(&Label::new(by, *state)));
                gauge(labels, flag(read(object) == *state))
            })),
        }
    }
}

/// A gauge with one sample.
pub(super) fn one(name: &str, help: &str, labels: Vec<Label>, value: f64) -> MetricFamily {
    family(
        name,
        help,
        MetricType::GAUGE,
        vec![gauge(labels.iter().map(pair).collect(), value)],
    )
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

fn family(name: &str, help: &str, kind: MetricType, samples: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
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

fn pair(label: &Label) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(label.name.to_owned());
    pair.set_value(label.value.clone());
    pair
}
