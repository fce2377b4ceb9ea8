//! The known value and rate of each series.

use std::collections::BTreeMap;

use covalent_grpc_schema::v1::{Kind, Sample, series::Value};

/// A metric's name and the labels of one of its series, but for the node's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The metric's.
    pub family: String,
    /// `port="p0"`, with commas between.
    pub labels: String,
}

/// A series.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// As it is now.
    pub value: Value,
    /// Increase per second since the previous sample, for a counter and for the count of a
    /// histogram.
    pub rate: Option<f64>,
}

/// The last sample.
#[derive(Debug, Default)]
pub struct Known {
    /// In the order of the samples.
    series: Vec<(Name, Series)>,
    /// How much each counter had counted, in all samples so far.
    counted: BTreeMap<Name, f64>,
    monotonic_ns: Option<u64>,
}

impl Known {
    /// Records a sample, complete or with changes only.
    pub fn take(&mut self, sample: &Sample) {
        // A clock that went back is another one: control began anew.
        let since_ns = self
            .monotonic_ns
            .and_then(|before| sample.monotonic_ns.checked_sub(before))
            .filter(|since_ns| *since_ns > 0);
        self.series.clear();
        for family in &sample.families {
            for series in &family.series {
                let Some(value) = series.value.clone() else {
                    continue;
                };
                let name = Name {
                    family: family.name.clone(),
                    labels: labels(&series.labels),
                };
                let mut rate = None;
                if let Some(counted) = counted(family.kind(), &value) {
                    let before = self.counted.insert(name.clone(), counted);
                    rate = before
                        .zip(since_ns)
                        .map(|(before, ns)| (counted - before).max(0.0) * 1e9 / ns as f64);
                }
                self.series.push((name, Series { value, rate }));
            }
        }
        for gone in &sample.gone {
            self.counted.remove(&Name {
                family: gone.name.clone(),
                labels: labels(&gone.labels),
            });
        }
        self.monotonic_ns = Some(sample.monotonic_ns);
    }

    /// The series of the last sample.
    pub fn series(&self) -> &[(Name, Series)] {
        &self.series
    }
}

/// Returns the increasing count of a counter or a histogram.
fn counted(kind: Kind, value: &Value) -> Option<f64> {
    match (kind, value) {
        (Kind::Counter, Value::Number(number)) => Some(*number),
        (Kind::Histogram, Value::Histogram(histogram)) => Some(histogram.count as f64),
        _ => None,
    }
}

/// All but the node's, which is the same everywhere.
pub fn labels(labels: &BTreeMap<String, String>) -> String {
    let others = labels.iter().filter(|(name, _)| *name != "node");
    let listed: Vec<_> = others
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    listed.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use covalent_grpc_schema::v1;

    fn sample(second: u64, kind: Kind, number: f64) -> Sample {
        let labels = [("node", "a"), ("port", "p0")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let series = v1::Series {
            labels: labels.into(),
            value: Some(Value::Number(number)),
        };
        Sample {
            monotonic_ns: second * 1_000_000_000,
            families: vec![v1::Family {
                name: "covalent_x".into(),
                kind: kind.into(),
                series: vec![series],
            }],
            ..Sample::default()
        }
    }

    fn rate(known: &Known) -> Option<f64> {
        known.series()[0].1.rate
    }

    #[test]
    fn a_rate_is_the_increase_between_two_samples() {
        let mut known = Known::default();
        known.take(&sample(1, Kind::Counter, 100.0));
        assert_eq!(known.series()[0].0.labels, "port=\"p0\"");
        assert_eq!(rate(&known), None);
        known.take(&sample(3, Kind::Counter, 500.0));
        assert_eq!(rate(&known), Some(200.0));
        // It counts anew, or the clock does.
        known.take(&sample(4, Kind::Counter, 5.0));
        assert_eq!(rate(&known), Some(0.0));
        known.take(&sample(1, Kind::Counter, 50.0));
        assert_eq!(rate(&known), None);
        known.take(&sample(2, Kind::Gauge, 50.0));
        assert_eq!(rate(&known), None);
    }

    #[test]
    fn a_series_that_was_gone_starts_anew() {
        let mut known = Known::default();
        let whole = sample(1, Kind::Counter, 100.0);
        known.take(&whole);
        let series = &whole.families[0].series[0];
        known.take(&Sample {
            monotonic_ns: 2_000_000_000,
            gone: vec![v1::Gone {
                name: "covalent_x".into(),
                labels: series.labels.clone(),
            }],
            ..Sample::default()
        });
        assert_eq!(known.series(), []);
        known.take(&sample(3, Kind::Counter, 200.0));
        assert_eq!(rate(&known), None);
    }
}
