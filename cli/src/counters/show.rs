//! Counters as people and programs read them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use covalent_counters::{Liveness, Number, Snapshot, parse_labels};
use jiff::Timestamp;
use serde::Serialize;

use crate::output::{Cell, Theme};

/// Everything that was read.
#[derive(Debug, Clone, Serialize)]
pub struct Reading {
    node: String,
    /// `running`, `ended` or `died`.
    state: &'static str,
    pid: u64,
    started_realtime_ns: u64,
    writers: Vec<Writer>,
    series: Vec<Series>,
}

#[derive(Debug, Clone, Serialize)]
struct Writer {
    name: String,
    /// 0: it has not written yet.
    written_realtime_ns: u64,
    /// It died while it wrote.
    is_torn: bool,
    /// Objects for which there was no space.
    omitted: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Series {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    unit: String,
    labels: BTreeMap<String, String>,
    value: serde_json::Number,
    #[serde(skip)]
    text: String,
}

impl Reading {
    /// Returns the contents of `snapshot`.
    pub fn of(snapshot: &Snapshot) -> Self {
        let families = snapshot.families.iter().zip(snapshot.samples());
        let series = families.flat_map(|(family, samples)| {
            samples.into_iter().map(move |sample| Series {
                name: format!("{}{}", family.name, sample.suffix),
                kind: family.kind.as_str(),
                unit: family.unit.clone(),
                labels: parse_labels(&sample.labels)
                    .unwrap_or_default()
                    .into_iter()
                    .collect(),
                value: number(sample.number),
                text: sample.labels,
            })
        });
        Self {
            node: snapshot.node.clone(),
            state: snapshot.liveness.as_str(),
            pid: snapshot.pid,
            started_realtime_ns: snapshot.started_realtime_ns,
            writers: snapshot
                .writers
                .iter()
                .map(|writer| Writer {
                    name: writer.name.clone(),
                    written_realtime_ns: writer.written_realtime_ns,
                    is_torn: writer.is_torn,
                    omitted: writer.omitted,
                })
                .collect(),
            series: series.collect(),
        }
    }
}

fn number(number: Number) -> serde_json::Number {
    match number {
        Number::Whole(count) => count.into(),
        // A NaN is no sample, and no writer publishes an infinity, the only other value without a
        // JSON number.
        other => serde_json::Number::from_f64(other.value()).unwrap_or_else(|| 0.into()),
    }
}

/// Returns the first line and a line for each series: the nonzero ones, or all if `all`. With
/// `before`, only series that changed.
pub fn table(theme: Theme, reading: &Reading, before: Option<&Reading>, all: bool) -> String {
    let mut out = heading(reading);
    let earlier: Option<HashMap<(&str, &str), f64>> = before.map(|before| {
        let series = before.series.iter();
        series
            .map(|one| ((one.name.as_str(), one.text.as_str()), value(one)))
            .collect()
    });
    let shown: Vec<(&Series, Option<String>)> = reading
        .series
        .iter()
        .filter_map(|one| match &earlier {
            None => (all || value(one) != 0.0).then_some((one, None)),
            Some(earlier) => {
                let then = earlier.get(&(one.name.as_str(), one.text.as_str()));
                let more = value(one) - then.copied().unwrap_or_default();
                (more != 0.0).then(|| (one, Some(format!("({more:+})"))))
            }
        })
        .collect();
    if shown.is_empty() {
        return out;
    }
    let mut columns = vec!["counter", "value", "labels"];
    if before.is_some() {
        columns.insert(2, "change");
    }
    let mut table = theme.new_table(columns).without_rules();
    for (one, change) in shown {
        let labels = one.text.replace(',', " ");
        let cells = [Some(one.name.clone()), Some(one.value.to_string()), change];
        let cells = cells.into_iter().flatten().chain([labels]);
        table.add_row(cells.map(Cell::new));
    }
    let _ = write!(out, "\n{table}");
    out
}

fn value(one: &Series) -> f64 {
    one.value.as_f64().unwrap_or_default()
}

fn heading(reading: &Reading) -> String {
    let time = |ns: u64| {
        Timestamp::from_nanosecond(ns.into()).map_or_else(
            |_| "an unknown time".to_owned(),
            |time| format!("{time:.3}"),
        )
    };
    let pid = reading.pid;
    let what = match reading.state {
        running if running == Liveness::Running.as_str() => {
            format!("process {pid} is running")
        }
        ended if ended == Liveness::Ended.as_str() => {
            format!("process {pid} has ended, and these are its last counts")
        }
        _ => format!("process {pid} has died, and these are its last counts"),
    };
    let written = reading
        .writers
        .iter()
        .map(|writer| writer.written_realtime_ns);
    let mut out = format!(
        "node {}: {what}; started {}, written {}",
        reading.node,
        time(reading.started_realtime_ns),
        time(written.max().unwrap_or_default())
    );
    for writer in &reading.writers {
        if writer.is_torn {
            let _ = write!(
                out,
                "\n{} died while it wrote: its counts are not all of one moment",
                writer.name
            );
        }
        if writer.omitted > 0 {
            let _ = write!(
                out,
                "\n{}: {} objects had no room and are missing here",
                writer.name, writer.omitted
            );
        }
    }
    out
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::output::walk;

    /// The widest counters.
    pub fn widest(theme: Theme) -> String {
        let reading = |count| {
            let mut reading = reading("running", count);
            for series in &mut reading.series {
                series.name = "covalent_link_never_seen_exchanges_total".into();
                series.text = format!("port=\"{}\",peer_name=\"{}\"", walk::NAME, walk::NAME);
            }
            reading
        };
        let last = reading(u64::MAX);
        table(theme, &last, None, true) + &table(theme, &last, Some(&reading(1)), true)
    }

    fn reading(state: &'static str, count: u64) -> Reading {
        let series = |name: &str, text: &str, value: u64| Series {
            name: name.to_owned(),
            kind: "counter",
            unit: "packets".to_owned(),
            labels: BTreeMap::new(),
            value: value.into(),
            text: text.to_owned(),
        };
        Reading {
            node: "a".to_owned(),
            state,
            pid: 7,
            started_realtime_ns: 0,
            writers: vec![Writer {
                name: "lane 0".to_owned(),
                written_realtime_ns: 1_000_000_000,
                is_torn: state == "died",
                omitted: 2,
            }],
            series: vec![
                series("covalent_x_total", "port=\"p0\",cause=\"full\"", count),
                series("covalent_longer_total", "", 0),
            ],
        }
    }

    #[test]
    fn the_table_names_the_process_and_whether_it_lives() {
        let text = table(Theme::PLAIN, &reading("running", 5), None, false);
        assert_eq!(
            text,
            "node a: process 7 is running; started 1970-01-01T00:00:00.000Z, written \
             1970-01-01T00:00:01.000Z\n\
             lane 0: 2 objects had no room and are missing here\n\
             covalent_x_total  5  port=\"p0\" cause=\"full\""
        );
        assert!(table(Theme::PLAIN, &reading("ended", 5), None, false).contains("has ended"));
        let died = table(Theme::PLAIN, &reading("died", 5), None, false);
        assert!(died.contains("has died") && died.contains("lane 0 died while it wrote"));
        assert!(
            table(Theme::PLAIN, &reading("died", 5), None, true)
                .contains("covalent_longer_total  0")
        );
    }

    #[test]
    fn only_changes_since_the_last_reading_are_shown() {
        let text = table(
            Theme::PLAIN,
            &reading("running", 9),
            Some(&reading("running", 5)),
            true,
        );
        assert!(
            text.ends_with("covalent_x_total  9  (+4)  port=\"p0\" cause=\"full\""),
            "{text}"
        );
        let same = table(
            Theme::PLAIN,
            &reading("running", 9),
            Some(&reading("running", 9)),
            true,
        );
        assert!(!same.contains("covalent_x_total"), "{same}");
    }
}
