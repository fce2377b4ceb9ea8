//! Differences between a sample and the one before it.

use std::collections::BTreeMap;

use covalent_grpc_schema::v1::{Family, Gone, series::Value};

type Labels = BTreeMap<String, String>;

/// Series of `now` that are new or have another value than in `before`, and series of `before` that
/// are not in `now`.
pub fn changes(before: &[Family], now: &[Family]) -> (Vec<Family>, Vec<Gone>) {
    let (known, present) = (values(before), values(now));
    let changed = now.iter().filter_map(|family| {
        let series = family.series.iter().filter(|series| {
            known.get(&(family.name.as_str(), &series.labels)) != Some(&series.value.as_ref())
        });
        let series: Vec<_> = series.cloned().collect();
        (!series.is_empty()).then(|| Family {
            name: family.name.clone(),
            kind: family.kind,
            series,
        })
    });
    let gone = known.keys().filter(|it| !present.contains_key(*it));
    let gone = gone.map(|(name, labels)| Gone {
        name: (*name).to_owned(),
        labels: (*labels).clone(),
    });
    (changed.collect(), gone.collect())
}

fn values(families: &[Family]) -> BTreeMap<(&str, &Labels), Option<&Value>> {
    let series = families.iter().flat_map(|family| {
        let series = family.series.iter();
        series.map(|series| {
            let key = (family.name.as_str(), &series.labels);
            (key, series.value.as_ref())
        })
    });
    series.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use covalent_grpc_schema::v1::Series;

    fn family(name: &str, series: &[(&str, f64)]) -> Family {
        let series = series.iter().map(|(port, number)| Series {
            labels: labels(port),
            value: Some(Value::Number(*number)),
        });
        Family {
            name: name.to_owned(),
            kind: 1,
            series: series.collect(),
        }
    }

    fn labels(port: &str) -> Labels {
        [("port".to_owned(), port.to_owned())].into()
    }

    #[test]
    fn new_and_changed_series_are_sent_whole_and_lost_ones_by_name() {
        let before = [
            family("rx", &[("p0", 1.0), ("p1", 2.0)]),
            family("tx", &[("p0", 3.0)]),
        ];
        let now = [
            family("rx", &[("p0", 1.0), ("p2", 5.0)]),
            family("tx", &[("p0", 4.0)]),
        ];
        let (changed, gone) = changes(&before, &now);
        assert_eq!(
            changed,
            [family("rx", &[("p2", 5.0)]), family("tx", &[("p0", 4.0)])]
        );
        assert_eq!(
            gone,
            [Gone {
                name: "rx".to_owned(),
                labels: labels("p1")
            }]
        );
        assert_eq!(changes(&now, &now), (Vec::new(), Vec::new()));
        assert_eq!(changes(&[], &now).0, now);
    }
}
