//! The measured results. Other programs read them, and the table and a section of the page are made
//! from them.

use covalent_protocol::Mode;
use serde::{Deserialize, Serialize};

use super::{goals::Verdict, table};
use crate::{host::Host, kept::Kept, repeats::Settled, summary::Summary};

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
    /// The figures of each side.
    pub sides: Vec<Figures>,
    /// The verdicts on the goals.
    pub goals: Vec<Verdict>,
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

impl Kept for Results {
    const NAME: &'static str = "exchanges";

    fn began_unix_ms(&self) -> u64 {
        self.began_unix_ms
    }

    fn table(&self) -> String {
        table::table(self)
    }
}

impl Results {
    /// How well the medians are known.
    pub fn settled(&self) -> Settled {
        let setup = &self.setup;
        let figures = self.sides.iter().map(|side| &side.records_mops);
        Settled::of(setup.rounds, setup.spread_max, figures)
    }

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

#[cfg(test)]
pub mod example {
    use super::*;

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
        let mut results = Results {
            name: Results::NAME.to_owned(),
            began_unix_ms: 1,
            host: Host::observed(),
            setup: Setup {
                rounds: 3,
                spread_max: None,
                slice_ms: 100,
                ring_slots: 2048,
                near_core: 0,
                far_core: 1,
            },
            sides,
            goals: Vec::new(),
        };
        results.goals = super::super::goals::judge(&results);
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_results_are_read_back() {
        let place = tempfile::tempdir().expect("a directory");
        let results = example::results();
        results.write_to(place.path()).expect("written");
        let read = Results::last_beside(place.path())
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
        let one = results.figures(super::super::goals::judged(Phases::One));
        let [sealed, plain] = results.fractions(one.expect("measured")).expect("raw");
        assert!((sealed - 0.3).abs() < 1e-9 && (plain - 0.15).abs() < 1e-9);
    }
}
