//! The figures, their goals and their section of the page.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{
    drive::{Repeat, histogram},
    pacing::Pacing,
    plot, table,
};
use crate::{
    cell::side_name,
    repeats::Settled,
    report::{Block, Entry, Goal, Limit, Report, Sides, Suite, Table},
    summary::Summary,
    watch::Watched,
};

/// The quantiles of a curve: each halves about what is left above, and includes the commonly used
/// ones.
const CURVE: [f64; 20] = [
    0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999,
    0.99995, 0.99998, 0.99999, 0.999_999, 1.0,
];

/// A whole run.
pub type Results = Report<Run>;

/// The setup and the figures of a run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// How.
    pub setup: Setup,
    /// The sides that took part, and those that did not, with the reason.
    pub contestants: Vec<Entry>,
    /// The figures of each side at each size.
    pub figures: Vec<Figures>,
    /// How well the medians are known.
    pub settled: Settled,
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
            format!(" (did not keep up: {:.0}/s)", self.rate_per_s)
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

/// A goal: the time of one side is at most a multiple of another side's.
struct Against {
    name: &'static str,
    ours: &'static str,
    peer: &'static str,
    at_most: f64,
    words: &'static str,
}

const GOALS: [Against; 4] = [
    Against {
        name: "rtt_lane",
        ours: "covalent-lane-cas",
        peer: "af_xdp",
        at_most: 1.25,
        words: "a CAS in the lane's thread takes at most 1.25 times a bare AF_XDP echo",
    },
    Against {
        name: "rtt_lane_udp",
        ours: "covalent-lane-cas",
        peer: "udp",
        at_most: 0.5,
        words: "a CAS in the lane's thread is at least 2 times as fast as kernel UDP",
    },
    Against {
        name: "rtt",
        ours: "covalent-cas",
        peer: "af_xdp",
        at_most: 2.0,
        words: "a CAS of an application takes at most 2 times a bare AF_XDP echo",
    },
    Against {
        name: "rtt_udp",
        ours: "covalent-cas",
        peer: "udp",
        at_most: 0.5,
        words: "a CAS of an application is at least 2 times as fast as kernel UDP",
    },
];

/// A bare echo requested by a second thread, which waits as an application does.
const HANDED_OVER: &str = "af_xdp-handed-over";

impl Suite for Run {
    const NAME: &'static str = "latency";
    const TITLE: &'static str = "Latency";
    const MISSING: &'static str =
        "Not measured: `covalent-bench latency --results bench/results` does, as root.";

    /// Judges the round-trip times of 8 bytes.
    fn judge(&self) -> Vec<Goal> {
        let sides = |ours, peer: &str| {
            let median = |side| {
                let mut of_eight = self.of_size(8);
                Some(of_eight.find(|one| one.side == side)?.p50_us.median)
            };
            Some(Sides {
                covalent: median(ours)?,
                beside: median(peer)?,
                peer: peer.to_owned(),
                unit: "µs".to_owned(),
                at: None,
            })
        };
        let judged = GOALS.iter().filter_map(|goal| {
            let is_of_an_application = goal.ours == "covalent-cas";
            let limit = Limit::AtMost(goal.at_most);
            let compared = sides(goal.ours, goal.peer)?;
            Some(Goal {
                aside: is_of_an_application
                    .then(|| sides(goal.ours, HANDED_OVER))
                    .flatten(),
                ..Goal::between(goal.name, goal.words, compared, limit)
            })
        });
        judged.collect()
    }

    fn settled(&self) -> Option<Settled> {
        Some(self.settled)
    }

    fn contestants(&self) -> &[Entry] {
        &self.contestants
    }

    fn plots(report: &Results) -> Result<Vec<(String, String)>> {
        let sizes = report.sizes().into_iter();
        sizes
            .map(|bytes| Ok((file_of(bytes), plot::curves(report, bytes)?)))
            .collect()
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let setup = &report.setup;
        let mut blocks = vec![prose(report)];
        for bytes in report.sizes() {
            let title = format!("Latency of {bytes} bytes");
            blocks.push(Block::plot(title, file_of(bytes)));
            blocks.push(table_of(report, bytes));
        }
        if !report.goals.is_empty() {
            let ratio = |goal: &Goal| format!("{:.2}", goal.measured);
            blocks.push(Block::goals(&report.goals, &[(">ratio", &ratio)]));
        }
        blocks.push(Block::contestants(
            &report.contestants,
            " took no part",
            |one| one.words("", "."),
            "repeats",
        ));
        let cores = format!(
            "requester on core {}, responder on core {}",
            setup.near_core, setup.far_core
        );
        let facts = [
            ("cores", cores),
            ("machine", report.host.words()),
            ("measured", report.host.measured()),
        ];
        let troubles = report.troubles().into_iter();
        let troubles = troubles.map(|trouble| ("busy", trouble));
        blocks.push(Block::facts(facts.into_iter().chain(troubles), []));
        blocks
    }

    /// perftest's columns.
    fn terminal(report: &Results) -> String {
        table::table(report)
    }
}

/// The name of the plot of requests of `bytes`.
fn file_of(bytes: usize) -> String {
    format!("latency-{bytes}.svg")
}

/// What is measured, and how.
fn prose(report: &Results) -> Block {
    let setup = &report.setup;
    Block::Text(format!(
        "Round trips of a request and a reply of the same size: {}. A request without a reply\n\
         within {} ms counts as lost, and the quantiles include the time that it waited. All\n\
         sides take turns, {} ms each; {}. p50 is the median of the repeats' medians, and the\n\
         spread is the width of its 93 % interval. The other quantiles are of all requests.\n\
         The last columns show the load of the requester's and the responder's core, with\n\
         everything that ran there. Covalent has a lane on each.",
        setup.pacing,
        setup.patience_ms,
        setup.slice_ms,
        report.medians()
    ))
}

/// The sides at one size.
fn table_of(report: &Results, bytes: usize) -> Block {
    let mut table = Table::new(&[
        &format!("{bytes} bytes"),
        ">min µs",
        ">p50",
        ">spread",
        ">p90",
        ">p99",
        ">p99.9",
        ">p99.99",
        ">max",
        ">mean",
        ">lost",
        ">requester's core",
        ">responder's core",
    ]);
    for figures in report.of_size(bytes) {
        let times = &figures.times_us;
        let behind = figures.behind(report.setup.pacing);
        let tenth = |figure: f64| format!("{figure:.1}");
        table.row([
            format!("{}{behind}", side_name(&figures.label())),
            tenth(times.min),
            tenth(times.typical),
            format!("{:.1} %", figures.p50_us.spread() * 100.0),
            tenth(times.p90),
            tenth(times.p99),
            tenth(times.p999),
            tenth(times.p9999),
            format!("{:.0}", times.max),
            tenth(times.mean),
            figures.lost.to_string(),
            format!("{:.2}", figures.asking_core),
            format!("{:.2}", figures.answering_core),
        ]);
    }
    Block::Table(table)
}

impl Run {
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
    use crate::{host::Host, report::Description};

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
        let run = Run {
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
        };
        Results::new(1, Host::observed(), run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kept::Kept as _, report::section};

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
        let read = Results::read_from(place.path())
            .expect("readable")
            .expect("there");
        assert_eq!(
            (&read.setup, &read.contestants),
            (&results.setup, &results.contestants)
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

    #[test]
    fn each_meaning_has_its_goals_and_only_measured_sides_are_judged() {
        let mut run = example::results().run;
        let model = run.figures[0].clone();
        let mut add = |side: &str, p50: f64| {
            let mut figures = model.clone();
            (figures.side, figures.bytes) = (side.to_owned(), 8);
            figures.p50_us.median = p50;
            run.figures.push(figures);
        };
        add("af_xdp", 4.0);
        add("covalent-lane-cas", 4.8);
        add("covalent-cas", 11.0);
        add(HANDED_OVER, 6.0);
        let goals = run.judge();
        let judged: Vec<_> = goals
            .iter()
            .map(|goal| (goal.goal.as_str(), goal.met))
            .collect();
        // The example has a `udp` of 20 µs.
        assert_eq!(
            judged,
            [
                ("rtt_lane", true),
                ("rtt_lane_udp", true),
                ("rtt", false),
                ("rtt_udp", false)
            ]
        );
        assert!((goals[0].measured - 1.2).abs() < 1e-9 && goals[0].margin > Some(1.0));
        assert_eq!(goals[0].aside, None);
        let handed_over = goals[2].aside.as_ref().expect("measured");
        assert_eq!((handed_over.covalent, handed_over.beside), (11.0, 6.0));
        run.figures.retain(|one| one.side != "af_xdp");
        assert_eq!(run.judge().len(), 2);
    }

    #[test]
    fn the_section_has_both_sides_and_their_command_lines() {
        let plots = ["latency-8.svg", "latency-64.svg"];
        let section = example::results().section("performance", &plots);
        for words in [
            "\n## Latency\n",
            "![Latency of 64 bytes](performance/latency-64.svg)",
            "| **covalent-message** | 10.0 | 10.6 |",
            "| udp (as a test) | 20.0 | 20.6 |",
            "- **udp**: the side udp; 1. as in its manual.",
            "  - `udp --go`",
            "- **ucx** took no part: it is not installed.",
            "open loop, 10000 requests/s",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn plots_are_written_beside_the_page() {
        let place = tempfile::tempdir().expect("a directory");
        example::results().write_to(place.path()).expect("written");
        let page = place.path().join("performance.md");
        let text = section::<Run>(place.path(), &page).expect("made");
        let plots = place.path().join("performance");
        assert!(text.contains("performance/latency-8.svg"));
        assert!(plots.join("latency-8.svg").exists() && plots.join("latency-64.svg").exists());
    }

    #[test]
    fn without_a_result_the_section_names_the_command() {
        let place = tempfile::tempdir().expect("a directory");
        let page = place.path().join("performance.md");
        let text = section::<Run>(place.path(), &page).expect("made");
        assert!(text.contains("Not measured: `covalent-bench latency"));
    }
}
