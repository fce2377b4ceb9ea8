//! Parser for the text output of perftest's programs (`ib_send_lat`, `ib_write_lat`, `ib_read_lat`,
//! `ib_atomic_lat`, and the same with `_bw`).
//!
//! A file may hold several outputs in sequence, with any text between them. Columns are taken from
//! the header above the figures, so versions with more or fewer columns work too. A line that does
//! not match its header is not interpreted: its number is reported.

use serde::{Deserialize, Serialize};

/// Longest line that is looked at, in bytes: no program prints one like that.
const LINE_BYTES_MAX: usize = 4096;

/// One output of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// As it calls itself: `RDMA_Write Latency Test`.
    pub title: String,
    /// The device, if printed.
    pub device: Option<String>,
    /// `IB` or `Ethernet`, if printed.
    pub link_type: Option<String>,
    /// The measured quantity.
    pub kind: Kind,
    /// One for each message size.
    pub rows: Vec<Row>,
}

/// The quantity that a program measures, as far as its title shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A message there and one back; it prints half of it.
    HalfRoundTrip,
    /// A read or an atomic: a whole round trip.
    RoundTrip,
    /// Messages or bytes a second.
    Rate,
}

/// The figures of one message size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of each message.
    pub bytes: u64,
    /// How often.
    pub iterations: u64,
    /// Times in microseconds, as printed.
    pub times_us: Option<Times>,
    /// Millions of messages a second.
    pub mpps: Option<f64>,
    /// Bytes a second, in the mean.
    pub bytes_per_s: Option<f64>,
}

/// Times in microseconds. A run limited by duration, not by iterations, prints only the mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The shortest.
    pub min: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// The median.
    pub typical: Option<f64>,
    /// The mean.
    pub mean: Option<f64>,
    /// The standard deviation.
    pub stdev: Option<f64>,
    /// The 99 % quantile.
    pub p99: Option<f64>,
    /// The 99.9 % quantile.
    pub p999: Option<f64>,
}

/// The outputs found in a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Outputs with figures, in their order.
    pub outputs: Vec<Output>,
    /// Numbers of lines, from 1, that stand where figures should and are none.
    pub unread_lines: Vec<usize>,
}

/// A column of figures.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Column {
    Bytes,
    Iterations,
    Min,
    Max,
    Typical,
    Mean,
    Stdev,
    P99,
    P999,
    /// Mean bandwidth, in bytes a second each unit.
    Bandwidth(f64),
    Mpps,
    /// One that is not looked at.
    Other,
}

/// Reads everything that is there. Any text is accepted.
pub fn parse(text: &str) -> Found {
    let mut found = Found::default();
    let mut about = About::default();
    let mut columns: Option<Vec<Column>> = None;
    for (at, line) in text.lines().enumerate() {
        if line.len() > LINE_BYTES_MAX {
            continue;
        }
        let trimmed = line.trim();
        if trimmed.starts_with("#bytes") {
            let header = header(trimmed);
            columns = header.contains(&Column::Iterations).then_some(header);
            if columns.is_some() {
                found.outputs.push(about.output());
            }
            continue;
        }
        if let Some(known) = &columns {
            if trimmed.starts_with(|first: char| first.is_ascii_digit()) {
                match (row(trimmed, known), found.outputs.last_mut()) {
                    (Some(row), Some(output)) => output.rows.push(row),
                    _ => found.unread_lines.push(at + 1),
                }
                continue;
            }
            // perftest ends its figures with a line of dashes; ours with remarks.
            if trimmed.starts_with('-') || trimmed.starts_with('#') {
                columns = None;
            }
        }
        about.read_line(trimmed);
    }
    found.outputs.retain(|output| !output.rows.is_empty());
    found
}

/// Returns what a program with this title measures.
pub fn kind_of(title: &str) -> Kind {
    if title.contains("BW") {
        Kind::Rate
    } else if ["Send", "RDMA_Write", "Raw_Ethernet", "Write"]
        .iter()
        .any(|verb| title.starts_with(verb))
    {
        Kind::HalfRoundTrip
    } else {
        Kind::RoundTrip
    }
}

/// The lines above the figures.
#[derive(Debug, Default)]
struct About {
    title: Option<String>,
    device: Option<String>,
    link_type: Option<String>,
}

impl About {
    fn read_line(&mut self, line: &str) {
        if line.ends_with(" Test") && !line.contains(':') {
            *self = Self {
                title: Some(line.to_owned()),
                ..Self::default()
            };
        }
        for (name, place) in [
            ("Device", &mut self.device),
            ("Link type", &mut self.link_type),
        ] {
            if let Some(value) = value_of(line, name) {
                *place = Some(value.to_owned());
            }
        }
    }

    fn output(&self) -> Output {
        let title = self.title.clone().unwrap_or_else(|| "perftest".to_owned());
        let kind = kind_of(&title);
        Output {
            title,
            device: self.device.clone(),
            link_type: self.link_type.clone(),
            kind,
            rows: Vec::new(),
        }
    }
}

/// The word behind `name :` in a line that may have several.
fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(name)?;
    rest.trim_start()
        .strip_prefix(':')?
        .split_whitespace()
        .next()
}

/// The columns of a header. A name of several words ends with its unit in brackets.
fn header(line: &str) -> Vec<Column> {
    let mut columns = Vec::new();
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let mut name = word.to_owned();
        if matches!(word, "99%" | "99.9%" | "BW" | "tps")
            && let Some(rest) = words.next()
        {
            name = format!("{name} {rest}");
        }
        let column = match name.as_str() {
            "#bytes" => Column::Bytes,
            "#iterations" => Column::Iterations,
            "t_min[usec]" => Column::Min,
            "t_max[usec]" => Column::Max,
            "t_typical[usec]" => Column::Typical,
            "t_avg[usec]" => Column::Mean,
            "t_stdev[usec]" => Column::Stdev,
            "99% percentile[usec]" => Column::P99,
            "99.9% percentile[usec]" => Column::P999,
            "BW average[MB/sec]" | "BW average[MiB/sec]" => Column::Bandwidth(f64::from(1 << 20)),
            "BW average[Gb/sec]" => Column::Bandwidth(1e9 / 8.0),
            "MsgRate[Mpps]" => Column::Mpps,
            _ => Column::Other,
        };
        columns.push(column);
    }
    columns
}

/// A line of figures; `None` if it does not fit the columns.
fn row(line: &str, columns: &[Column]) -> Option<Row> {
    let mut words = line.split_whitespace();
    let mut row = Row::default();
    let mut times = Times::default();
    let mut has_times = false;
    for column in columns {
        if *column == Column::Other {
            words.next();
            continue;
        }
        let word = words.next()?;
        let time = |place: &mut Option<f64>| {
            *place = Some(figure(word)?);
            Some(())
        };
        match column {
            Column::Bytes => row.bytes = word.parse().ok()?,
            Column::Iterations => row.iterations = word.parse().ok()?,
            Column::Bandwidth(unit) => row.bytes_per_s = Some(figure(word)? * unit),
            Column::Mpps => row.mpps = Some(figure(word)?),
            Column::Min => time(&mut times.min)?,
            Column::Max => time(&mut times.max)?,
            Column::Typical => time(&mut times.typical)?,
            Column::Mean => time(&mut times.mean)?,
            Column::Stdev => time(&mut times.stdev)?,
            Column::P99 => time(&mut times.p99)?,
            Column::P999 => time(&mut times.p999)?,
            Column::Other => {}
        }
        has_times |= !matches!(
            column,
            Column::Bytes | Column::Iterations | Column::Bandwidth(_) | Column::Mpps
        );
    }
    row.times_us = has_times.then_some(times);
    Some(row)
}

/// Parses a plausible figure: perftest has printed negative ones, and those of a clock that went
/// backwards.
fn figure(word: &str) -> Option<f64> {
    let figure: f64 = word.parse().ok()?;
    (figure.is_finite() && figure >= 0.0).then_some(figure)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEND_LAT: &str = include_str!("samples/ib_send_lat.txt");
    const WRITE_LAT: &str = include_str!("samples/ib_write_lat-duration.txt");
    const ATOMIC_LAT: &str = include_str!("samples/ib_atomic_lat.txt");
    const ATOMIC_BW: &str = include_str!("samples/ib_atomic_bw.txt");
    const WRITE_BW: &str = include_str!("samples/ib_write_bw-gbits.txt");
    const ALL: [&str; 5] = [SEND_LAT, WRITE_LAT, ATOMIC_LAT, ATOMIC_BW, WRITE_BW];

    fn one(text: &str) -> Output {
        let mut found = parse(text);
        assert_eq!(
            (found.outputs.len(), found.unread_lines.len()),
            (1, 0),
            "{found:?}"
        );
        found.outputs.remove(0)
    }

    #[test]
    fn latencies_of_iterations_have_all_columns() {
        let output = one(SEND_LAT);
        assert_eq!(
            (output.title.as_str(), output.kind),
            ("Send Latency Test", Kind::HalfRoundTrip)
        );
        assert_eq!(
            (output.device.as_deref(), output.link_type.as_deref()),
            (Some("rxe0"), Some("Ethernet"))
        );
        assert_eq!(output.rows.len(), 2);
        let times = output.rows[1].times_us.expect("times");
        assert_eq!(
            (output.rows[1].bytes, output.rows[1].iterations),
            (64, 1000)
        );
        assert_eq!(
            (times.min, times.typical, times.p999),
            (Some(8.91), Some(11.02), Some(58.4))
        );
    }

    #[test]
    fn latencies_of_a_duration_have_only_a_mean() {
        let output = one(WRITE_LAT);
        let times = output.rows[0].times_us.expect("times");
        assert_eq!(
            (times.mean, times.typical, output.rows[0].mpps),
            (Some(1.12), None, None)
        );
    }

    #[test]
    fn an_atomic_is_a_round_trip_and_rates_have_units() {
        assert_eq!(one(ATOMIC_LAT).kind, Kind::RoundTrip);
        let rate = one(ATOMIC_BW);
        assert_eq!(
            (rate.kind, rate.rows[0].mpps),
            (Kind::Rate, Some(0.219_031))
        );
        assert_eq!(rate.rows[0].bytes_per_s, Some(1.67 * f64::from(1 << 20)));
        let gbits = one(WRITE_BW);
        assert_eq!(gbits.rows[0].bytes_per_s, Some(0.48e9 / 8.0));
        assert!(gbits.rows.iter().all(|row| row.times_us.is_none()));
    }

    #[test]
    fn several_outputs_in_one_file_are_separated() {
        let found = parse(&ALL.join("some shell prompt $\n"));
        let titles: Vec<_> = found
            .outputs
            .iter()
            .map(|output| output.title.as_str())
            .collect();
        assert_eq!(titles.len(), 5);
        assert!(titles.contains(&"Atomic Latency Test"), "{titles:?}");
        assert_eq!(found.unread_lines, [0; 0]);
    }

    #[test]
    fn our_own_table_is_parsed_too() {
        let table = crate::latency::example_table();
        let found = parse(&table);
        assert_eq!(found.unread_lines, [0; 0]);
        assert_eq!(found.outputs[0].rows.len(), 4);
        assert!(
            found.outputs[0].rows[0]
                .times_us
                .and_then(|times| times.p99)
                .is_some()
        );
    }

    #[test]
    fn impossible_figures_are_reported_with_their_lines() {
        let text = SEND_LAT.replace("11.02", "-11.02");
        let found = parse(&text);
        assert_eq!(
            (found.outputs[0].rows.len(), found.unread_lines.len()),
            (1, 1)
        );
        for wrong in ["nan", "inf", "1e999", "x"] {
            assert_eq!(figure(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_accepted(text in "(?s).{0,2000}") {
            let _ = parse(&text);
        }

        #[test]
        fn damaged_outputs_give_no_impossible_figures(
            which in 0..ALL.len(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = ALL[which].as_bytes().to_vec();
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            let found = parse(&String::from_utf8_lossy(&bytes));
            for row in found.outputs.iter().flat_map(|output| &output.rows) {
                let times = row.times_us.unwrap_or_default();
                let figures = [
                    times.min,
                    times.max,
                    times.typical,
                    times.mean,
                    times.stdev,
                    times.p99,
                    times.p999,
                    row.mpps,
                    row.bytes_per_s,
                ];
                prop_assert!(
                    figures.into_iter().flatten().all(|figure| figure.is_finite() && figure >= 0.0),
                );
            }
        }
    }
}
