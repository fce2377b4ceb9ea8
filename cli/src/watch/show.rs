//! Samples for people: a table that is always the newest, or lines.

use anyhow::Result;
use covalent_grpc_schema::v1::{Sample, series::Value};
use jiff::Timestamp;
use ratatui::crossterm::terminal;

use super::series::{Known, Name, Series};
use crate::output::{self, Cell, Color, Table, Theme};

/// Lines that a table has besides its rows.
const RULE_LINES: usize = 4;

/// Lines on the screen that no row can use: those of the table, the line above it, and that of the
/// cursor.
const FRAME_LINES: usize = RULE_LINES + 2;

/// Lines of a row with broken labels, to find the rows that fit in few steps.
const ROW_LINES: usize = 4;

/// Goes to the first line and clears all.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// A terminal on which the newest sample stands.
pub struct Screen {
    theme: Theme,
    /// Samples that were left out, in all.
    skipped: u64,
}

impl Screen {
    /// Nothing is drawn yet.
    pub const fn new(theme: Theme) -> Self {
        Self { theme, skipped: 0 }
    }

    /// Draws a sample in place of the one before.
    pub fn draw(&mut self, sample: &Sample, known: &Known) -> Result<()> {
        self.skipped += sample.skipped_samples;
        let rows = terminal::size().map_or(usize::MAX, |(_, rows)| usize::from(rows));
        let text = self.picture(sample, known, rows.saturating_sub(FRAME_LINES));
        output::line(&format!("{CLEAR}{text}"))
    }

    fn picture(&self, sample: &Sample, known: &Known, rows_max: usize) -> String {
        let mut head = format!("{}  {}", sample.node, time(sample));
        if self.skipped > 0 {
            head += &format!("  {} samples left out", self.skipped);
        }
        if !sample.daemon_answers {
            let problem = self.theme.text(&sample.daemon_problem, Some(Color::Red));
            head += &format!("  {problem}");
        }
        let all = known.series();
        let lines_max = rows_max.saturating_add(RULE_LINES);
        let mut shown = all.len().min(rows_max);
        let mut table = self.table(&all[..shown]).to_string();
        loop {
            // The last line reports how many are not shown.
            let lines = table.lines().count() + usize::from(shown < all.len());
            let over = lines.saturating_sub(lines_max);
            if over == 0 || shown == 0 {
                break;
            }
            // A row takes several lines if its labels are broken.
            shown = shown.saturating_sub(over.div_ceil(ROW_LINES));
            table = self.table(&all[..shown]).to_string();
        }
        let mut text = format!("{head}\n{table}");
        if shown < all.len() {
            let more = all.len() - shown;
            text += &format!("\n{more} more: name a family or a label, or make the window higher");
        }
        text
    }

    fn table(&self, series: &[(Name, Series)]) -> Table {
        let mut table = self
            .theme
            .new_table(["metric", "labels", "value", "in a second"]);
        for (name, series) in series {
            table.add_row([
                Cell::new(&name.family),
                Cell::new(name.labels.replace("\",", "\", ")),
                Cell::right(value(&series.value)),
                Cell::right(series.rate.map(rate).unwrap_or_default()),
            ]);
        }
        table
    }
}

/// A line for each series of the sample, and one for each that is gone.
pub fn lines(sample: &Sample, known: &Known) -> Result<()> {
    let time = time(sample);
    if sample.skipped_samples > 0 {
        output::line(&format!(
            "{time} # {} samples left out",
            sample.skipped_samples
        ))?;
    }
    if !sample.daemon_answers {
        output::line(&format!("{time} # {}", sample.daemon_problem))?;
    }
    for (name, series) in known.series() {
        output::line(&format!("{time} {}", line(name, series)))?;
    }
    for gone in &sample.gone {
        let name = Name {
            family: gone.name.clone(),
            labels: super::series::labels(&gone.labels),
        };
        output::line(&format!("{time} {} gone", called(&name)))?;
    }
    Ok(())
}

fn line(name: &Name, series: &Series) -> String {
    let value = value(&series.value);
    match series.rate {
        Some(value_rate) => format!("{} {value} ({}/s)", called(name), rate(value_rate)),
        None => format!("{} {value}", called(name)),
    }
}

/// As `/metrics` has it.
fn called(name: &Name) -> String {
    match name.labels.as_str() {
        "" => name.family.clone(),
        labels => format!("{}{{{labels}}}", name.family),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Histogram(histogram) if histogram.count == 0 => "0".to_owned(),
        Value::Histogram(histogram) => format!(
            "{}, mean {:.3e}",
            histogram.count,
            histogram.sum / histogram.count as f64
        ),
    }
}

fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        10.0.. => format!("{rate:.0}"),
        _ => format!("{rate:.2}"),
    }
}

fn time(sample: &Sample) -> String {
    Timestamp::from_nanosecond(sample.realtime_ns.into()).map_or_else(
        |_| sample.realtime_ns.to_string(),
        |time| format!("{time:.3}"),
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::output::walk;
    use covalent_grpc_schema::v1::{self, Kind};

    /// The widest picture.
    pub fn widest(theme: Theme) -> String {
        let series = |number: f64| {
            let labels = ["port", "peer_name", "cause"];
            let labels = labels.map(|name| (name.to_owned(), walk::NAME.to_owned()));
            v1::Series {
                labels: labels.into(),
                value: Some(Value::Number(number)),
            }
        };
        let family = v1::Family {
            name: "covalent_link_never_seen_exchanges_total".into(),
            kind: Kind::Counter.into(),
            series: vec![series(u64::MAX as f64)],
        };
        let sample = Sample {
            families: vec![family],
            ..sample(1, 1)
        };
        let mut known = Known::default();
        known.take(&sample);
        Screen::new(theme).picture(&sample, &known, 50)
    }

    fn sample(second: u64, counted: u64) -> Sample {
        let series = |port: &str, number: f64| v1::Series {
            labels: [("port".to_owned(), port.to_owned())].into(),
            value: Some(Value::Number(number)),
        };
        let histogram = v1::Histogram {
            count: 4,
            sum: 2e-4,
            buckets: Vec::new(),
        };
        let family = |name: &str, kind: Kind, series| v1::Family {
            name: name.into(),
            kind: kind.into(),
            series,
        };
        Sample {
            number: second,
            node: "node-a".into(),
            realtime_ns: 1_795_430_826_123_456_789,
            monotonic_ns: second * 1_000_000_000,
            daemon_answers: true,
            families: vec![
                family(
                    "covalent_port_rx_packets_total",
                    Kind::Counter,
                    vec![series("p0", counted as f64), series("p1", 7.0)],
                ),
                family(
                    "covalent_link_round_trip_seconds",
                    Kind::Histogram,
                    vec![v1::Series {
                        labels: Default::default(),
                        value: Some(Value::Histogram(histogram)),
                    }],
                ),
            ],
            ..Sample::default()
        }
    }

    #[test]
    fn the_picture_has_values_rates_and_faults() {
        let mut known = Known::default();
        known.take(&sample(1, 1_000));
        let mut last = sample(2, 3_500);
        last.daemon_answers = false;
        last.daemon_problem = "the daemon is unreachable".into();
        known.take(&last);
        let mut screen = Screen::new(Theme::PLAIN);
        screen.skipped = 3;
        let text = screen.picture(&last, &known, 50);
        for wanted in [
            "node-a  2026-11-23T",
            "3 samples left out",
            "the daemon is unreachable",
            "port=\"p0\"",
            "3500",
            "2500",
            "4, mean 5.000e-5",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
        assert!(!text.contains(" more:"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        let mut known = Known::default();
        known.take(&sample(1, 1_000));
        let text = Screen::new(Theme::PLAIN).picture(&sample(1, 1_000), &known, 2);
        assert!(text.contains("2 more: "), "{text}");
        assert!(!text.contains("p1"), "{text}");
    }

    #[test]
    fn a_line_is_as_on_the_metrics_page_with_the_rate_behind() {
        let mut known = Known::default();
        known.take(&sample(1, 1_000));
        known.take(&sample(2, 1_001));
        let lines: Vec<_> = known
            .series()
            .iter()
            .map(|(name, series)| line(name, series))
            .collect();
        assert_eq!(
            lines,
            [
                "covalent_port_rx_packets_total{port=\"p0\"} 1001 (1.00/s)",
                "covalent_port_rx_packets_total{port=\"p1\"} 7 (0/s)",
                "covalent_link_round_trip_seconds 4, mean 5.000e-5 (0/s)",
            ]
        );
    }
}
