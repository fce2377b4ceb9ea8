//! The figures, their goals and their section of the page.

use covalent_protocol::Mode;
use serde::{Deserialize, Serialize};

use crate::{
    cell,
    repeats::Settled,
    report::{Block, Goal, Limit, Report, Suite, Table},
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
    /// The figures of each side.
    pub sides: Vec<Figures>,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Slices of each side.
    pub rounds: u32,
    /// How well the medians had to be known; nothing if it did not matter.
    pub spread_max: Option<f64>,
    /// Milliseconds of each.
    pub slice_ms: u64,
    /// Longest frames that the cable holds each way.
    pub ring_slots: u32,
    /// The core of one end.
    pub near_core: usize,
    /// The core of the other.
    pub far_core: usize,
}

/// How an exchange is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phases {
    /// Two messages.
    One,
    /// Four.
    Two,
}

impl From<Phases> for Mode {
    fn from(phases: Phases) -> Self {
        match phases {
            Phases::One => Self::OnePhase,
            Phases::Two => Self::TwoPhase,
        }
    }
}

/// Which ends initiate exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// One end initiates, the other responds.
    One,
    /// Both ends initiate and respond.
    Both,
}

/// The measured side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideName {
    /// Frames full of records, written and checked record by record.
    Sealed,
    /// Frames full of records that are not inspected.
    Plain,
    /// Additions to a word at the other end.
    Exchanges {
        /// How.
        mode: Phases,
        /// Exchanges that an end may have open.
        slots: u8,
        /// Which ends initiate.
        ways: Directions,
    },
}

impl SideName {
    /// All of them, in the order in which they take turns.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Sealed, Self::Plain];
        for mode in [Phases::One, Phases::Two] {
            for slots in [64, 255] {
                for ways in [Directions::One, Directions::Both] {
                    all.push(Self::Exchanges { mode, slots, ways });
                }
            }
        }
        all
    }

    /// For people.
    pub fn words(self) -> String {
        match self {
            Self::Sealed => "records, CRCs made and checked".to_owned(),
            Self::Plain => "records, not looked at".to_owned(),
            Self::Exchanges { mode, slots, ways } => {
                let mode = match mode {
                    Phases::One => "1PC",
                    Phases::Two => "2PC",
                };
                let ways = match ways {
                    Directions::One => "one initiator",
                    Directions::Both => "two initiators",
                };
                format!("{mode}, {slots} slots, {ways}")
            }
        }
    }
}

/// The figures of one side, both ends together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Which.
    pub side: SideName,
    /// Exchanges, in millions a second; of a side that makes some.
    pub exchanges_mops: Option<Summary>,
    /// Records sent, in millions a second.
    pub records_mops: Summary,
    /// Records in a frame, in the mean of the slices.
    pub records_per_frame: f64,
    /// Exchanges that were counted.
    pub exchanges: u64,
    /// Allocations of both threads while they were counted.
    pub allocations: u64,
}

impl Run {
    /// Returns the figures of `side`.
    pub fn figures(&self, side: SideName) -> Option<&Figures> {
        self.sides.iter().find(|figures| figures.side == side)
    }

    /// Returns the records that `figures` sent, as a fraction of the cable's capacity with CRCs and
    /// without.
    pub fn fractions(&self, figures: &Figures) -> Option<[f64; 2]> {
        let raw = |side| Some(self.figures(side)?.records_mops.median);
        let own = figures.records_mops.median;
        Some([own / raw(SideName::Sealed)?, own / raw(SideName::Plain)?])
    }

    /// Allocations of all sides while they were counted.
    pub fn allocations(&self) -> u64 {
        self.sides.iter().map(|side| side.allocations).sum()
    }
}

/// Returns the side that the goal for `mode` applies to: the default number of slots, with one
/// initiating end.
const fn judged(mode: Phases) -> SideName {
    SideName::Exchanges {
        mode,
        slots: 64,
        ways: Directions::One,
    }
}

impl Suite for Run {
    const NAME: &'static str = "exchanges";
    const TITLE: &'static str = "Exchanges over one link";
    const MISSING: &'static str =
        "Not measured: `covalent-bench exchanges --results bench/results` does.";

    fn judge(&self) -> Vec<Goal> {
        let rate = |goal: &str, mode, name: &str, at_least: f64| {
            let rate = self.figures(judged(mode))?.exchanges_mops.as_ref()?;
            let target = format!(
                "at least {at_least:.0} M/s additions to 8 bytes in {name}, 64 slots, one initiator"
            );
            Some(Goal::of(
                goal,
                target,
                rate.median,
                Limit::AtLeast(at_least),
            ))
        };
        let allocations = self.allocations() as f64;
        [
            rate("exchanges_1pc", Phases::One, "1PC", 10.0),
            rate("exchanges_2pc", Phases::Two, "2PC", 6.0),
            Some(Goal::of(
                "exchanges_allocations",
                "no allocation during exchanges",
                allocations,
                Limit::AtMost(0.0),
            )),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn settled(&self) -> Option<Settled> {
        let setup = &self.setup;
        let figures = self.sides.iter().map(|side| &side.records_mops);
        Some(Settled::of(setup.rounds, setup.spread_max, figures))
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let (setup, host) = (&report.setup, &report.host);
        let mut table = Table::new(&[
            "",
            ">exchanges",
            ">records",
            ">records in a frame",
            ">of sealed",
            ">of plain",
            ">allocations",
        ]);
        for side in &report.sides {
            let rate = side.exchanges_mops.as_ref();
            let [sealed, plain] = report.fractions(side).unwrap_or_default();
            table.row([
                side.side.words(),
                rate.map_or_else(|| "–".to_owned(), |rate| cell::range(rate, 2)),
                format!("{:.1}", side.records_mops.median),
                format!("{:.1}", side.records_per_frame),
                format!("{sealed:.3}"),
                format!("{plain:.3}"),
                side.allocations.to_string(),
            ]);
        }
        vec![
            prose(report),
            Block::Table(table),
            Block::goals(
                &report.goals,
                &[
                    (">measured", &|goal| format!("{:.2}", goal.measured)),
                    (">of the goal", &|goal| cell::figure(goal.margin, 2)),
                ],
            ),
            Block::facts(
                [
                    (
                        "cores",
                        format!(
                            "one end on core {}, the other on core {}",
                            setup.near_core, setup.far_core
                        ),
                    ),
                    (
                        "cable",
                        format!(
                            "at least {} of the longest frames each way",
                            setup.ring_slots
                        ),
                    ),
                    ("machine", host.words()),
                    ("measured", host.measured()),
                ],
                [],
            ),
        ]
    }
}

/// What is measured, and how.
fn prose(report: &Results) -> Block {
    let setup = &report.setup;
    Block::Text(format!(
        "Two threads run the ends of one in-memory cable. Each has a lane's parts for its\n\
         link: the port, the protocol and the engine that executes verbs. They add to eight\n\
         bytes at the other end, with twice as many additions submitted as there are slots.\n\
         For comparison the same cable carries frames full of records, both ways at once. In\n\
         *sealed* each record is written, gets its CRC and is checked. In *plain* one prebuilt\n\
         frame is sent repeatedly, and neither end reads it. All sides take turns {} times, {}\n\
         ms each. Figures are medians (least to most) of both ends together, in millions per\n\
         second.",
        setup.rounds, setup.slice_ms
    ))
}

#[cfg(test)]
pub mod example {
    use super::*;
    use crate::host::Host;

    /// A run that meets the one-phase goal and misses the two-phase goal.
    pub fn results() -> Results {
        let summary =
            |median: f64| Summary::of(vec![median * 0.9, median, median * 1.1]).expect("figures");
        let sides = SideName::all()
            .into_iter()
            .map(|side| {
                let (exchanges, records) = match side {
                    SideName::Sealed => (None, 80.0),
                    SideName::Plain => (None, 160.0),
                    SideName::Exchanges {
                        mode: Phases::One, ..
                    } => (Some(12.0), 24.0),
                    SideName::Exchanges { .. } => (Some(5.0), 10.0),
                };
                Figures {
                    side,
                    exchanges_mops: exchanges.map(summary),
                    records_mops: summary(records),
                    records_per_frame: 23.0,
                    exchanges: exchanges.map_or(0, |_| 1000),
                    allocations: 0,
                }
            })
            .collect();
        let run = Run {
            setup: Setup {
                rounds: 3,
                spread_max: None,
                slice_ms: 100,
                ring_slots: 2048,
                near_core: 0,
                far_core: 1,
            },
            sides,
        };
        Results::new(1, Host::observed(), run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept as _;

    #[test]
    fn kept_results_are_read_back() {
        let place = tempfile::tempdir().expect("a directory");
        let results = example::results();
        results.write_to(place.path()).expect("written");
        let read = Results::read_from(place.path())
            .expect("readable")
            .expect("there");
        assert_eq!((&read.setup, &read.host), (&results.setup, &results.host));
        let sides = |results: &Results| -> Vec<SideName> {
            results.sides.iter().map(|side| side.side).collect()
        };
        assert_eq!(sides(&read), sides(&results));
        assert!(!results.line().expect("JSON").contains('\n'));
    }

    #[test]
    fn fractions_are_of_both_raw_rates() {
        let results = example::results();
        let one = results.figures(judged(Phases::One));
        let [sealed, plain] = results.fractions(one.expect("measured")).expect("raw");
        assert!((sealed - 0.3).abs() < 1e-9 && (plain - 0.15).abs() < 1e-9);
    }

    #[test]
    fn each_mode_has_its_goal_and_one_allocation_misses_it() {
        let mut results = example::results();
        let met = |results: &Results| -> Vec<bool> {
            let goals = results.judge();
            goals.iter().map(|goal| goal.met).collect()
        };
        assert_eq!(met(&results), [true, false, true]);
        assert_eq!(results.goals[1].margin, Some(5.0 / 6.0));
        results.run.sides[3].allocations = 1;
        assert_eq!(met(&results), [true, false, false]);
    }

    #[test]
    fn the_section_has_rates_fractions_and_goals() {
        let section = example::results().section("", &[]);
        for words in [
            "\n## Exchanges over one link\n",
            "| 1PC, 64 slots, one initiator | 12.00 (10.80–13.20) | 24.0 | 23.0 | 0.300 | 0.150 | \
             0 |",
            "| records, CRCs made and checked | – | 80.0 |",
            "in 2PC, 64 slots, one initiator | **missed** | 5.00 | 0.83 |",
            "| no allocation during exchanges | met | 0.00 | – |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }
}
