//! One metric of one kind of object: its words and where its value is found.

use super::family::{Declared, Family, Kind};
use crate::status::{Causes, RoundTrips};

/// Location of a metric's value in an object of type `T`. The constructors of [`Series`] describe
/// each.
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
pub struct Object<T: 'static> {
    /// Names of the labels that distinguish objects of this kind.
    pub labels: &'static [&'static str],
    /// An object's value of each label; empty if there is only one object.
    pub values: fn(&T) -> Vec<String>,
    /// The metrics.
    pub series: &'static [Series<T>],
}

impl<T> Object<T> {
    /// Each metric as declared.
    pub fn declared(&self) -> impl Iterator<Item = Declared> + use<T> {
        let labels = self.labels;
        self.series.iter().map(move |series| Declared {
            family: series.family,
            kind: series.kind(),
            labels: labels.iter().chain(series.by()).copied().collect(),
        })
    }
}

/// One metric of the objects of type `T`.
pub struct Series<T: 'static> {
    /// Its words.
    pub family: Family,
    /// Where the value is.
    read: Read<T>,
}

/// The value of one metric for one object, or for a part of it.
#[derive(Debug)]
pub enum Sample<'a> {
    /// A count that only grows, under a further label where there is one.
    Count {
        /// Name and value of that label.
        by: Option<(&'static str, &'a str)>,
        /// The count.
        count: u64,
    },
    /// Nanoseconds that only grow; shown in seconds.
    GrowingNs(u64),
    /// A present value, under a further label where there is one; `None` while it is not known.
    Gauge {
        /// Name and value of that label.
        by: Option<(&'static str, &'a str)>,
        /// The value.
        value: Option<f64>,
    },
    /// Text, as further labels of a 1.
    Info(&'static [&'static str], Vec<String>),
    /// How long round trips took, as a histogram.
    RoundTrips(&'a RoundTrips),
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

    /// Counts by the value of the label `by`.
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

    /// Its type.
    #[must_use]
    pub const fn kind(&self) -> Kind {
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

    /// Passes the metric's samples for `object` to `take`.
    pub fn samples(&self, object: &T, take: &mut dyn FnMut(Sample<'_>)) {
        match &self.read {
            Read::Count(read) => take(Sample::Count {
                by: None,
                count: read(object),
            }),
            Read::GrowingSeconds(read) => take(Sample::GrowingNs(read(object))),
            Read::CountsBy(by, read) => {
                for (cause, &count) in read(object) {
                    let by = Some((*by, cause.as_str()));
                    take(Sample::Count { by, count });
                }
            }
            Read::Gauge(read) => take(Sample::Gauge {
                by: None,
                value: Some(read(object)),
            }),
            Read::GaugeIfKnown(read) => take(Sample::Gauge {
                by: None,
                value: read(object),
            }),
            Read::Info(names, read) => take(Sample::Info(names, read(object))),
            Read::RoundTrips(read) => take(Sample::RoundTrips(read(object))),
            Read::State(by, states, read) => {
                let found = read(object);
                for state in *states {
                    take(Sample::Gauge {
                        by: Some((*by, *state)),
                        value: Some(flag(found == *state)),
                    });
                }
            }
        }
    }
}

/// The values of a kind of object of which there is one.
pub(super) const fn none<T>(_: &T) -> Vec<String> {
    Vec::new()
}

/// Nanoseconds in seconds.
#[must_use]
pub fn seconds(nanoseconds: u64) -> f64 {
    as_f64(nanoseconds) / 1e9
}

/// 1 for yes.
#[must_use]
pub const fn flag(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

/// Prometheus knows only these: beyond 2^53 a counter loses its last digits, not its rate.
#[must_use]
pub const fn as_f64(count: u64) -> f64 {
    count as f64
}
