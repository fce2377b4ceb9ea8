//! The measured results. Other programs read them, and the table and a section of the page are made
//! from them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use covalent::status::PortMode;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{gap::Gap, way::Method};
use crate::{
    loss::{self, Severed},
    repeats::Settled,
    report::{Block, Goal, Limit, MEDIANS, Report, Suite, Table, without_places},
    summary::Summary,
};

/// A whole run.
pub type Results = Report<Run>;

/// The setup and the figures of a run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// How.
    pub setup: Setup,
    /// Median round trip of a verb over two whole links, one at a time.
    pub round_trip_ns: u64,
    /// Verbs that were posted in all; each was executed once.
    pub verbs: u64,
    /// The figures of each kind of cut.
    pub sides: Vec<Figures>,
    /// Systems without a second link, on one cable that is cut and restored. `None` if there were
    /// none.
    pub severed: Option<Severed>,
    /// All cuts, in order.
    pub cuts: Vec<Cut>,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Number of repeats. Absent in older results, which did not record it.
    pub repeats: Option<u32>,
    /// How well the medians had to be known; nothing if it did not matter.
    pub spread_max: Option<f64>,
    /// Verbs that the application kept open.
    pub open: u32,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// `link.event_ratio`, where it was not left to the daemons.
    pub event_ratio: Option<u32>,
    /// Idle policy of the lanes.
    pub idle: String,
    /// The mode of the initiator's ports as read back.
    pub mode: PortMode,
    /// The core of the initiator's lane.
    pub near_core: usize,
    /// The core of the responder's.
    pub far_core: usize,
    /// The application's core.
    pub application_core: usize,
    /// Whether that is the initiating lane's core too.
    pub application_shares: bool,
    /// The daemons' command lines.
    pub daemons: Vec<Vec<String>>,
}

/// One cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// How.
    pub way: Method,
    /// Which link.
    pub link: usize,
    /// Whether the verbs were made in two phases.
    pub two_phase: bool,
    /// Verbs that were done before, during and after it.
    pub verbs: usize,
    /// How long the call took that cuts.
    pub cutting_ns: u64,
    /// From just before that call to the first completion of a verb that waited on the cut link, if
    /// it can be determined.
    pub first_ns: Option<u64>,
    /// The longest that any verb waited from then on.
    pub longest_ns: u64,
    /// Time until the initiator's daemon reported the failure. The lane detects it earlier.
    pub noticed_ns: Option<u64>,
    /// The reason that the initiator's lane reported.
    pub reason: Option<String>,
    /// Failures of the link that was not cut.
    pub others: u32,
}

impl Cut {
    /// As [`Gap::bound_ns`].
    const fn gap(&self) -> Gap {
        Gap {
            first_ns: self.first_ns,
            longest_ns: self.longest_ns,
        }
    }
}

/// A distribution, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The median.
    pub p50_us: f64,
    /// 99 of 100 are no more.
    pub p99_us: f64,
    /// The most.
    pub max_us: f64,
}

/// The figures of one kind of cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Which.
    pub way: Method,
    /// How often.
    pub cuts: u64,
    /// Cuts for which the first completion of a waiting verb can be determined.
    pub distinguished: u64,
    /// From the cut to the first completion over the other link. If it cannot be determined, the
    /// longest wait, which is an upper bound.
    pub first: Quantiles,
    /// The longest wait of any verb.
    pub longest: Quantiles,
    /// Time until the initiator's daemon reported it.
    pub noticed: Option<Quantiles>,
    /// How often the initiator reported each reason.
    pub reasons: BTreeMap<String, u64>,
    /// Failures of links that were not cut.
    pub others: u64,
}

/// Aggregates each kind of cut that was measured.
pub fn sides(cuts: &[Cut]) -> Result<Vec<Figures>> {
    Method::ALL
        .into_iter()
        .filter_map(|way| {
            let of_way: Vec<_> = cuts.iter().filter(|cut| cut.way == way).collect();
            (!of_way.is_empty()).then(|| figures(way, &of_way))
        })
        .collect()
}

/// Returns, for each kind of cut, the summary of the medians of its repeats, in microseconds.
pub fn medians(cuts: &[Cut], repeats: u32) -> Vec<Summary> {
    Method::ALL
        .into_iter()
        .filter_map(|way| {
            let bounds: Vec<f64> = cuts
                .iter()
                .filter(|cut| cut.way == way)
                .map(|cut| cut.gap().bound_ns() as f64 / 1e3)
                .collect();
            let each = bounds.len().checked_div(repeats as usize)?;
            let medians = bounds
                .chunks(each.max(1))
                .filter_map(|repeat| Some(Summary::of(repeat.to_vec())?.median));
            Summary::of(medians.collect())
        })
        .collect()
}

fn figures(way: Method, cuts: &[&Cut]) -> Result<Figures> {
    let mut reasons = BTreeMap::new();
    for reason in cuts.iter().filter_map(|cut| cut.reason.clone()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let noticed: Vec<u64> = cuts.iter().filter_map(|cut| cut.noticed_ns).collect();
    Ok(Figures {
        way,
        cuts: cuts.len() as u64,
        distinguished: cuts.iter().filter(|cut| cut.first_ns.is_some()).count() as u64,
        first: quantiles(cuts.iter().map(|cut| cut.gap().bound_ns()))?,
        longest: quantiles(cuts.iter().map(|cut| cut.longest_ns))?,
        noticed: if noticed.is_empty() {
            None
        } else {
            Some(quantiles(noticed.into_iter())?)
        },
        reasons,
        others: cuts.iter().map(|cut| u64::from(cut.others)).sum(),
    })
}

fn quantiles(figures_ns: impl Iterator<Item = u64>) -> Result<Quantiles> {
    let mut histogram =
        Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).context("making a histogram")?;
    for ns in figures_ns {
        histogram.saturating_record(ns);
    }
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Quantiles {
        p50_us: at(0.5),
        p99_us: at(0.99),
        max_us: at(1.0),
    })
}

impl Setup {
    /// Describes copy mode, page size and the other settings that affect the figures.
    pub fn words(&self) -> String {
        let mode = &self.mode;
        let ratio = self.event_ratio.map_or_else(
            || "`event_ratio` as by default".to_owned(),
            |ratio| format!("`event_ratio` {ratio}"),
        );
        format!(
            "two links, {} XDP, {}, need_wakeup {}, {} queue(s), pages of {} bytes, rings of {}, \
             lanes {}, {ratio}, {} verbs open",
            mode.xdp,
            if mode.zero_copy { "zero-copy" } else { "copy" },
            mode.need_wakeup,
            mode.queues,
            mode.page_bytes,
            self.ring_slots,
            self.idle,
            self.open
        )
    }

    /// Describes the assignment of threads to cores.
    pub fn core_words(&self) -> String {
        let application = if self.application_shares {
            "on the initiator's core too, which they share by yielding".to_owned()
        } else {
            format!("on core {}, alone", self.application_core)
        };
        format!(
            "the initiator's lane on core {}, the responder's on core {}; the application \
             {application}; the daemons' other threads and the cutter on any core",
            self.near_core, self.far_core
        )
    }
}

/// Most microseconds from a cut to the first completion over the other link, in 99 of 100 cuts.
const AT_MOST_US: f64 = 1000.0;

impl Suite for Run {
    const NAME: &'static str = "failover";
    const TITLE: &'static str = "A link is cut";
    const MISSING: &'static str =
        "Not measured: `covalent-bench failover --results bench/results` does, as root.";
    // Hundreds of cuts.
    const IS_LONG: bool = true;

    /// Judges each way by itself.
    fn judge(&self) -> Vec<Goal> {
        let cut = self
            .sides
            .iter()
            .filter(|figures| figures.way != Method::Uncut);
        cut.map(|figures| {
            let way = figures.way.words();
            Goal::of(
                &format!("failover: {way}"),
                format!(
                    "{way}: p99 from the cut to the first completion over the other link below \
                     {:.0} ms",
                    AT_MOST_US / 1e3
                ),
                figures.first.p99_us,
                Limit::Below(AT_MOST_US),
            )
        })
        .collect()
    }

    fn settled(&self) -> Option<Settled> {
        let repeats = self.setup.repeats?;
        let medians = medians(&self.cuts, repeats);
        Some(Settled::of(repeats, self.setup.spread_max, medians.iter()))
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let (setup, host) = (&report.setup, &report.host);
        let trip_us = report.round_trip_ns as f64 / 1e3;
        let mut table = Table::new(&[
            "",
            ">cuts",
            ">attributed",
            ">first: p50 µs",
            ">p99",
            ">max",
            ">p99 in round trips",
            ">longest wait: p50 µs",
            ">p99",
            ">max",
            "detected by",
        ]);
        for figures in &report.sides {
            let (first, longest) = (&figures.first, &figures.longest);
            let whole = |figure: f64| format!("{figure:.0}");
            table.row([
                figures.way.words().to_owned(),
                figures.cuts.to_string(),
                figures.distinguished.to_string(),
                whole(first.p50_us),
                whole(first.p99_us),
                whole(first.max_us),
                whole(first.p99_us / trip_us),
                whole(longest.p50_us),
                whole(longest.p99_us),
                whole(longest.max_us),
                reasons(figures),
            ]);
        }
        let mut blocks = vec![
            prose(report),
            Block::Table(table),
            Block::goals(
                &report.goals,
                &[(">p99 µs", &|goal| format!("{:.0}", goal.measured))],
            ),
        ];
        if let Some(severed) = &report.severed {
            blocks.push(Block::text(
                "Without a second link there is no failover. This compares TCP with a message of\n\
                 Covalent, a request and its reply each:",
            ));
            blocks.extend(loss::cuts_blocks(severed.cut_ms, &severed.cuts));
        }
        let others: u64 = report.sides.iter().map(|figures| figures.others).sum();
        let verbs = format!(
            "{}, each executed once; {others} failures of links that were not cut",
            report.verbs
        );
        let daemons = setup.daemons.iter();
        blocks.push(Block::facts(
            [
                ("verbs", verbs),
                ("mode", setup.words()),
                ("cores", setup.core_words()),
                (MEDIANS, report.medians()),
                ("machine", host.words()),
                ("measured", host.measured()),
            ],
            daemons.map(|line| ("daemon".to_owned(), without_places(&line.join(" ")))),
        ));
        blocks
    }
}

/// What is measured, and how.
fn prose(report: &Results) -> Block {
    let setup = &report.setup;
    let trip_us = report.round_trip_ns as f64 / 1e3;
    Block::Text(format!(
        "Two daemons have two links over AF_XDP on veth pairs. An application keeps {}\n\
         additions open at the other node, alternately in one phase and in two. One link is\n\
         cut and repaired repeatedly, in each of the ways in turn. *First* is the time from\n\
         just before the cut is requested to the first completion, over the other link, of a\n\
         verb that waited on the cut one. An application does not see which link a verb uses:\n\
         a verb that a later one overtook waited on the cut link. *Attributed* is the number\n\
         of cuts with such a verb. A cut has none if the call that takes the interface down\n\
         outlasts everything else. *First* is then the longest wait of any verb, counted from\n\
         its posting if the cut was requested earlier; that is an upper bound of the time\n\
         since the cable failed. *Round trips* are those of one verb at a time over the same\n\
         links, {trip_us:.1} µs.",
        setup.open
    ))
}

/// Formats how often each reason was reported for a cut, the most frequent first.
fn reasons(figures: &Figures) -> String {
    let mut reasons: Vec<_> = figures.reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let listed: Vec<_> = reasons
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    listed.join(", ")
}

#[cfg(test)]
pub mod example {
    use super::*;
    use crate::host::Host;

    /// A hundred cuts of each way; of those that are silent both ways two take too long.
    pub fn results() -> Results {
        let mut cuts = Vec::new();
        for turn in 0..100 {
            for way in Method::ALL {
                let slow = way == Method::Silent && turn < 2;
                let first_ns = if slow { 3_000_000 } else { 300_000 };
                let is_cut = way != Method::Uncut;
                let is_silent = is_cut && way != Method::CarrierNear;
                cuts.push(Cut {
                    way,
                    link: turn % 2,
                    two_phase: turn / 2 % 2 == 1,
                    verbs: 1000,
                    cutting_ns: 50_000,
                    first_ns: is_silent.then_some(first_ns),
                    longest_ns: if is_cut { first_ns + 50_000 } else { 80_000 },
                    noticed_ns: is_cut.then_some(200_000),
                    reason: is_cut.then(|| {
                        if is_silent {
                            "peer RTT exceeded"
                        } else {
                            "carrier lost"
                        }
                        .to_owned()
                    }),
                    others: 0,
                });
            }
        }
        let run = Run {
            setup: Setup {
                repeats: Some(5),
                spread_max: None,
                open: 16,
                ring_slots: 2048,
                event_ratio: None,
                idle: "poll".to_owned(),
                mode: crate::report::example_mode(),
                near_core: 0,
                far_core: 1,
                application_core: 0,
                application_shares: true,
                daemons: vec![vec!["covalentd".to_owned(), "--config".to_owned()]],
            },
            round_trip_ns: 20_000,
            verbs: 600_000,
            sides: sides(&cuts).expect("figures"),
            severed: Some(Severed {
                cut_ms: 100,
                contestants: Vec::new(),
                cuts: crate::loss::example_cuts(),
            }),
            cuts,
        };
        Results::new(1, Host::observed(), run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept as _;

    #[test]
    fn if_the_first_completion_is_unknown_the_longest_wait_is_used() {
        let results = example::results();
        let of = |way| {
            results
                .sides
                .iter()
                .find(|figures| figures.way == way)
                .expect("measured")
        };
        let near = of(Method::CarrierNear);
        assert_eq!((near.distinguished, near.cuts), (0, 100));
        assert!((near.first.p99_us - 350.0).abs() < 1.0, "{near:?}");
        let silent = of(Method::Silent);
        assert_eq!((silent.distinguished, silent.cuts), (100, 100));
        assert!((silent.first.p50_us - 300.0).abs() < 1.0, "{silent:?}");
        assert!((silent.first.p99_us - 3000.0).abs() < 10.0, "{silent:?}");
        assert_eq!(silent.reasons["peer RTT exceeded"], 100);
    }

    #[test]
    fn a_repeat_is_a_share_of_the_cuts() {
        let results = example::results();
        let medians = medians(&results.cuts, 4);
        assert_eq!(medians.len(), Method::ALL.len());
        assert!(medians.iter().all(|median| median.repeats.len() == 4));
        assert!((medians[0].median - 80.0).abs() < 1e-9, "{:?}", medians[0]);
        assert_eq!(results.settled().expect("repeats").repeats, 5);
        assert!(super::medians(&[], 0).is_empty());
    }

    #[test]
    fn kept_results_are_read_back() {
        let place = tempfile::tempdir().expect("a directory");
        let results = example::results();
        assert_eq!(Results::read_from(place.path()).expect("no problem"), None);
        results.write_to(place.path()).expect("written");
        let read = Results::read_from(place.path())
            .expect("readable")
            .expect("there");
        assert_eq!((&read.cuts, &read.setup), (&results.cuts, &results.setup));
    }

    #[test]
    fn each_method_is_judged_by_itself() {
        let met: Vec<bool> = example::results()
            .goals
            .iter()
            .map(|verdict| verdict.met)
            .collect();
        assert_eq!(met, [true, true, false, true, true]);
    }

    #[test]
    fn the_section_has_gaps_reasons_and_goals() {
        let section = example::results().section("", &[]);
        for words in [
            "\n## A link is cut\n",
            "| silent both ways | 100 | 100 | 300 |",
            "| peer RTT exceeded 100 |",
            "| silent both ways: p99 from the cut to the first completion over the other link \
             below 1 ms | **missed** | 300",
            "| silent | tcp | 3 | 1 | 400.0 (200.0–600.0) |",
            "| medians | 5 repeats; the widest spread is",
            "| 600000, each executed once; 0 failures of links that were not cut |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }
}
