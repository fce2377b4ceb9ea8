//! The measured results. Other programs read them, and the table, the plot and a section of the
//! page are made from them.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{
    drive::{Repeat, histogram},
    goals::Verdict,
    pacing::Pacing,
    table,
};
use crate::{
    host::Host, kept::Kept, repeats::Settled, streams::Entry, summary::Summary, watch::Watched,
};

/// The quantiles of a curve: each halves about what is left above, and includes the commonly used
/// ones.
const CURVE: [f64; 20] = [
    0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999,
    0.99995, 0.99998, 0.99999, 0.999_999, 1.0,
];

/// A whole run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The suite.
    pub name: String,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Where.
    pub host: Host,
    /// How.
    pub setup: Setup,
    /// The sides that took part, and those that did not, with the reason.
    pub contestants: Vec<Entry>,
    /// The figures of each side at each size.
    pub figures: Vec<Figures>,
    /// How well the medians are known.
    pub settled: Settled,
    /// The verdicts on the goals.
    pub goals: Vec<Verdict>,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// When requests left.
    pub pacing: Pacing,
    /// Milliseconds of each repeat.
    pub slice_ms: u64,
    /// Requests before each that do not count.
    pub warm_up: u64,
    /// Milliseconds after which an answer counts as lost.
    pub patience_ms: u64,
    /// Core of the client.
    pub near_core: usize,
    /// Core of the server.
    pub far_core: usize,
}

/// The figures of one side for requests of one size. All times are whole round trips.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The side.
    pub side: String,
    /// Bytes of each request and answer.
    pub bytes: usize,
    /// Requests that count, the lost ones included.
    pub requests: u64,
    /// Those that were not answered in time.
    pub lost: u64,
    /// Answers a second.
    pub rate_per_s: f64,
    /// Of all requests, in microseconds.
    pub times_us: Times,
    /// The median of each repeat, in microseconds.
    pub p50_us: Summary,
    /// The 99 % quantile of each repeat, in microseconds.
    pub p99_us: Summary,
    /// Quantiles, each with its time in microseconds, up to the last one with ten requests beyond
    /// it; then the maximum.
    pub curve: Vec<(f64, f64)>,
    /// The machine's other activity.
    pub watched: Watched,
    /// Busy fraction of the client's core, including all other work there (such as our lane): 1 is
    /// always busy. Median of the repeats.
    pub asking_core: f64,
    /// The same for the server's core, with our other lane or the server.
    pub answering_core: f64,
    /// A note to print with these figures.
    pub note: Option<String>,
}

/// How long requests took, in microseconds. The first seven are perftest's columns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
    /// The median of the repeats' medians; perftest calls it typical.
    pub typical: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// 90 % of all took no longer.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// 99.99 %.
    pub p9999: f64,
}

/// The repeats of one side at one size, as they come.
#[derive(Debug)]
pub struct Gathered {
    all_ns: Histogram<u64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    rates_per_s: Vec<f64>,
    answered: u64,
    lost: u64,
    watched: Option<Watched>,
    core_loads: [Vec<f64>; 2],
    note: Option<&'static str>,
}

impl Gathered {
    /// Nothing yet.
    pub fn new() -> Result<Self> {
        Ok(Self {
            all_ns: histogram()?,
            p50_us: Vec::new(),
            p99_us: Vec::new(),
            rates_per_s: Vec::new(),
            answered: 0,
            lost: 0,
            watched: None,
            core_loads: [Vec::new(), Vec::new()],
            note: None,
        })
    }

    /// Adds a repeat and the machine's other activity.
    pub fn add(&mut self, repeat: &Repeat, watched: Watched) -> Result<()> {
        let quantile_us = |quantile| repeat.times_ns.value_at_quantile(quantile) as f64 / 1e3;
        self.p50_us.push(quantile_us(0.5));
        self.p99_us.push(quantile_us(0.99));
        self.rates_per_s.push(repeat.rate_per_s());
        self.all_ns
            .add(&repeat.times_ns)
            .context("adding up histograms")?;
        for (all, load) in self.core_loads.iter_mut().zip(repeat.core_loads) {
            all.push(load);
        }
        self.note = self.note.or(repeat.note);
        self.answered += repeat.answered;
        self.lost += repeat.lost;
        self.watched = Some(self.watched.map_or(watched, |before| before.and(&watched)));
        Ok(())
    }

    /// The medians so far; `None` before the first repeat.
    pub fn p50_us(&self) -> Option<Summary> {
        Summary::of(self.p50_us.clone())
    }

    /// Returns the figures; `None` if there was no repeat.
    pub fn figures(&self, side: &str, bytes: usize) -> Option<Figures> {
        let all = &self.all_ns;
        let us = |ns: u64| ns as f64 / 1e3;
        let quantile = |quantile| us(all.value_at_quantile(quantile));
        let p50_us = self.p50_us()?;
        let curve = CURVE
            .into_iter()
            .filter(|&at| at >= 1.0 || (1.0 - at) * all.len() as f64 >= 10.0)
            .map(|at| (at, quantile(at)))
            .collect();
        Some(Figures {
            side: side.to_owned(),
            bytes,
            requests: self.answered + self.lost,
            lost: self.lost,
            rate_per_s: Summary::of(self.rates_per_s.clone())?.median,
            times_us: Times {
                min: us(all.min()),
                max: us(all.max()),
                typical: p50_us.median,
                mean: all.mean() / 1e3,
                stdev: all.stdev() / 1e3,
                p90: quantile(0.9),
                p99: quantile(0.99),
                p999: quantile(0.999),
                p9999: quantile(0.9999),
            },
            p50_us,
            p99_us: Summary::of(self.p99_us.clone())?,
            curve,
            watched: self.watched?,
            asking_core: median(&self.core_loads[0])?,
            answering_core: median(&self.core_loads[1])?,
            note: self.note.map(str::to_owned),
        })
    }
}

fn median(figures: &[f64]) -> Option<f64> {
    Some(Summary::of(figures.to_vec())?.median)
}

impl Figures {
    /// Returns the side's name and its note.
    pub fn label(&self) -> String {
        match &self.note {
            Some(note) => format!("{} ({note})", self.side),
            None => self.side.clone(),
        }
    }

    /// Returns a warning if the side was slower than its schedule, else an empty string.
    pub fn behind(&self, pacing: Pacing) -> String {
        if self.kept_up(pacing) {
            String::new()
        } else {
            format!("  (DID NOT KEEP UP: {:.0} answers/s)", self.rate_per_s)
        }
    }

    /// Returns whether the reply rate is within 2 % of the request rate.
    pub fn kept_up(&self, pacing: Pacing) -> bool {
        match pacing {
            Pacing::Open { rate_per_s } => self.rate_per_s >= 0.98 * rate_per_s,
            Pacing::PingPong => true,
        }
    }
}

impl Kept for Results {
    const NAME: &'static str = "latency";

    fn began_unix_ms(&self) -> u64 {
        self.began_unix_ms
    }

    fn table(&self) -> String {
        table::table(self)
    }
}

impl Results {
    /// Sizes that were measured, the smallest first.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.figures.iter().map(|figures| figures.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the figures of one size.
    pub fn of_size(&self, bytes: usize) -> impl Iterator<Item = &Figures> {
        self.figures
            .iter()
            .filter(move |figures| figures.bytes == bytes)
    }

    /// Why figures are not to be trusted, for each side and size with trouble.
    pub fn troubles(&self) -> Vec<String> {
        self.figures
            .iter()
            .filter_map(|figures| {
                let trouble = figures.watched.trouble()?;
                Some(format!(
                    "{}, {} bytes: {trouble}",
                    figures.side, figures.bytes
                ))
            })
            .collect()
    }
}

#[cfg(test)]
pub mod example {
    use super::*;
    use crate::streams::Description;

    /// Two sides at two sizes, on a quiet machine.
    pub fn results() -> Results {
        let watched = Watched {
            seconds: 1.0,
            others_cores: 0.01,
            interrupts_cores: 0.2,
            steal_cores: 0.0,
            least_mhz: None,
            most_mhz: None,
        };
        let figures = |side: &str, bytes: usize, base_us: u64| {
            let mut gathered = Gathered::new().expect("a histogram");
            for extra in [0, 100, 200] {
                let mut times_ns = histogram().expect("a histogram");
                for at in 0..10_000 {
                    times_ns.saturating_record(base_us * 1000 + extra + at % 1000);
                }
                let repeat = Repeat {
                    times_ns,
                    answered: 10_000,
                    lost: 0,
                    length_ns: 1_000_000_000,
                    core_loads: [0.5, 1.0],
                    note: (side == "udp").then_some("as a test"),
                    trace: Vec::new(),
                };
                gathered.add(&repeat, watched).expect("added");
            }
            gathered.figures(side, bytes).expect("measured")
        };
        let entry = |name: &str, absent: Option<&str>| Entry {
            name: name.to_owned(),
            description: Description {
                what: format!("the side {name}"),
                version: "1".to_owned(),
                tuning: "as in its manual".to_owned(),
                commands: vec![format!("{name} --go")],
            },
            absent: absent.map(str::to_owned),
            failures: Vec::new(),
        };
        let figures = vec![
            figures("covalent-message", 8, 10),
            figures("udp", 8, 20),
            figures("covalent-message", 64, 11),
            figures("udp", 64, 22),
        ];
        Results {
            name: Results::NAME.to_owned(),
            began_unix_ms: 1,
            host: Host::observed(),
            setup: Setup {
                pacing: Pacing::Open {
                    rate_per_s: 10_000.0,
                },
                slice_ms: 1000,
                warm_up: 200,
                patience_ms: 500,
                near_core: 0,
                far_core: 1,
            },
            contestants: vec![
                entry("covalent-message", None),
                entry("udp", None),
                entry("ucx", Some("it is not installed")),
            ],
            settled: Settled {
                repeats: 3,
                spread_max: None,
                spread: 0.02,
            },
            figures,
            goals: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_all_repeats_and_the_typical_one_of_their_medians() {
        let results = example::results();
        let figures = &results.figures[0];
        assert_eq!((figures.requests, figures.lost), (30_000, 0));
        assert_eq!(figures.p50_us.repeats.len(), 3);
        assert!(
            (figures.times_us.typical - 10.6).abs() < 0.02,
            "{figures:?}"
        );
        assert!(figures.times_us.min <= 10.01 && figures.times_us.max >= 11.19);
        assert!((figures.times_us.p99 - 11.1).abs() < 0.1, "{figures:?}");
        assert!(
            figures.times_us.p99 <= figures.times_us.p999
                && figures.times_us.p999 <= figures.times_us.p9999
        );
        // Ten of thirty thousand are beyond 99.96 %.
        let deepest = figures.curve.iter().rev().nth(1).expect("two points");
        assert_eq!(deepest.0, 0.9995);
    }

    #[test]
    fn kept_results_are_read_back() {
        let place = tempfile::tempdir().expect("a directory");
        let results = example::results();
        results.write_to(place.path()).expect("written");
        let read = Results::last_beside(place.path())
            .expect("readable")
            .expect("there");
        assert_eq!(
            (read.setup, read.contestants),
            (results.setup, results.contestants)
        );
        assert_eq!(read.figures.len(), 4);
    }

    #[test]
    fn a_side_that_cannot_keep_up_is_distinguished() {
        let figures = &example::results().figures[0];
        assert!(figures.kept_up(Pacing::Open {
            rate_per_s: 10_000.0
        }));
        assert!(!figures.kept_up(Pacing::Open {
            rate_per_s: 20_000.0
        }));
        assert!(figures.kept_up(Pacing::PingPong));
    }
}
