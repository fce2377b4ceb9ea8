//! The figures, their goals and their section of the page.

use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use crate::{
    cell,
    repeats::Settled,
    report::{Block, Goal, Limit, MEDIANS, Report, Sides, Suite, Table},
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
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// Exchanges that may be open on the link.
    pub slots: u8,
    /// Verbs that the application has in flight.
    pub depth: u32,
    /// Requests that one Redis connection has in flight.
    pub pipeline: u32,
    /// Idle policy of the lanes.
    pub idle: String,
    /// The mode of the daemon's port as it read it back.
    pub mode: Option<PortMode>,
    /// The core of the client: `redis-benchmark` or the initiating lane.
    pub near_core: usize,
    /// The core of the server.
    pub far_core: usize,
    /// The application's core.
    pub application_core: usize,
    /// Whether that is the asking lane's core too.
    pub application_shares: bool,
    /// The version of Redis, in its own words.
    pub redis: String,
}

/// The side that adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideName {
    /// `redis-benchmark` with so many connections.
    Redis(u32),
    /// The same without pipelining: one request in flight per connection.
    RedisUnpipelined(u32),
    /// An application, through its daemon.
    #[serde(rename = "covalent-add")]
    Application,
    /// The lane's own thread.
    #[serde(rename = "covalent-lane-add")]
    Lane,
    /// No additions: pairs of records that the ports carry, one each way, without inspecting them.
    #[serde(rename = "records")]
    Bare,
}

impl SideName {
    /// For people.
    pub fn words(self) -> String {
        match self {
            Self::Redis(1) => "Redis INCR, 1 connection".to_owned(),
            Self::Redis(connections) => format!("Redis INCR, {connections} connections"),
            Self::RedisUnpipelined(1) => "Redis INCR, not pipelined".to_owned(),
            Self::RedisUnpipelined(connections) => {
                format!("the same, {connections} connections")
            }
            Self::Application => "additions of an application".to_owned(),
            Self::Lane => "additions in the lane's thread".to_owned(),
            Self::Bare => "pairs of records, not looked at".to_owned(),
        }
    }
}

/// The figures of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Which.
    pub side: SideName,
    /// Millions of additions a second.
    pub mops: Summary,
    /// Records in a frame, where there are any.
    pub records_per_frame: Option<f64>,
    /// Command lines of its processes.
    pub commands: Vec<String>,
}

impl Setup {
    /// Describes copy mode, page size and the other settings that affect the figures.
    pub fn words(&self) -> String {
        let mode = self.mode.as_ref().map_or_else(String::new, |mode| {
            format!(
                "{} XDP, {}, need_wakeup {}, {} queue(s), pages of {} bytes, ",
                mode.xdp,
                if mode.zero_copy { "zero-copy" } else { "copy" },
                mode.need_wakeup,
                mode.queues,
                mode.page_bytes
            )
        });
        format!(
            "{mode}rings of {}, lanes {}, {} slots, {} verbs of the application in flight",
            self.ring_slots, self.idle, self.slots, self.depth
        )
    }

    /// Describes the assignment of threads to cores.
    pub fn core_words(&self) -> String {
        format!(
            "two each: redis-benchmark or the initiator's lane on core {}, redis-server or the \
             responder's lane on core {}; the application on core {}{}",
            self.near_core,
            self.far_core,
            self.application_core,
            if self.application_shares {
                ", which it shares with the initiator's lane by yielding"
            } else {
                ", a third one, which Redis does not have"
            }
        )
    }
}

impl Run {
    /// Returns the figures of `side`.
    pub fn figures(&self, side: SideName) -> Option<&Figures> {
        self.sides.iter().find(|figures| figures.side == side)
    }

    /// The faster one of Redis' loads.
    pub fn best_of_redis(&self) -> Option<&Figures> {
        self.sides
            .iter()
            .filter(|figures| matches!(figures.side, SideName::Redis(_)))
            .max_by(|one, other| one.mops.median.total_cmp(&other.mops.median))
    }
}

/// The goal, as a multiple of Redis' rate.
const AT_LEAST: f64 = 5.0;

impl Suite for Run {
    const NAME: &'static str = "atomics";
    const TITLE: &'static str = "Additions to a counter, beside Redis";
    const MISSING: &'static str =
        "Not measured: `covalent-bench atomics --results bench/results` does, as root.";

    fn judge(&self) -> Vec<Goal> {
        [
            (SideName::Lane, "redis_lane", "in the lane's thread"),
            (SideName::Application, "redis", "of an application"),
        ]
        .into_iter()
        .filter_map(|(side, goal, adder)| {
            let sides = Sides {
                covalent: self.figures(side)?.mops.median,
                beside: self.best_of_redis()?.mops.median,
                peer: "redis".to_owned(),
                unit: "M/s".to_owned(),
                at: None,
            };
            let target = format!(
                "additions {adder} to a counter at another node at {AT_LEAST:.0} or more times the \
                 rate of Redis' INCR with -P {}",
                self.setup.pipeline
            );
            Some(Goal::between(goal, target, sides, Limit::AtLeast(AT_LEAST)))
        })
        .collect()
    }

    fn settled(&self) -> Option<Settled> {
        let setup = &self.setup;
        let figures = self.sides.iter().map(|side| &side.mops);
        Some(Settled::of(setup.rounds, setup.spread_max, figures))
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let (setup, host) = (&report.setup, &report.host);
        let mut table = Table::new(&["", ">M/s", ">records in a frame", ">of Redis"]);
        let best = report.best_of_redis().map(|best| best.mops.median);
        for side in &report.sides {
            table.row([
                side.side.words(),
                cell::range(&side.mops, 2),
                cell::figure(side.records_per_frame, 1),
                cell::figure(best.map(|best| side.mops.median / best), 2),
            ]);
        }
        let commands = report.sides.iter().flat_map(|side| {
            let commands = side.commands.iter();
            commands.map(|command| (side.side.words(), command.clone()))
        });
        vec![
            prose(report),
            Block::Table(table),
            Block::goals(
                &report.goals,
                &[(">ratio", &|goal| format!("{:.2}", goal.measured))],
            ),
            Block::facts(
                [
                    ("mode", setup.words()),
                    ("cores", setup.core_words()),
                    ("Redis", setup.redis.clone()),
                    (MEDIANS, report.medians()),
                    ("machine", host.words()),
                    ("measured", host.measured()),
                ],
                commands,
            ),
        ]
    }
}

/// What is measured, and how.
fn prose(report: &Results) -> Block {
    let setup = &report.setup;
    Block::Text(format!(
        "A client adds to one counter at another node, over one veth pair between two network\n\
         namespaces, with many additions in flight. `redis-benchmark -t incr -P {}` loads\n\
         Redis over TCP, once with one connection and once with its default number; the faster\n\
         one is the reference. *Not pipelined* is the same with one request in flight per\n\
         connection. Covalent's additions use AF_XDP in one phase, and each is executed once.\n\
         *Of an application* goes through its daemon. *In the lane's thread* has the port, the\n\
         protocol and the verb engine in one thread at either end. An addition takes a record\n\
         each way, so the limit is *pairs of records*: the ports carry full frames both ways,\n\
         and neither end reads them. All sides take turns {} times, {} ms each; medians (least\n\
         to most), M/s.",
        setup.pipeline, setup.rounds, setup.slice_ms
    ))
}

#[cfg(test)]
pub mod example {
    use super::*;
    use crate::host::Host;

    /// A run in which the lane reaches its goal and the application does not.
    pub fn results() -> Results {
        let side = |side, median: f64| Figures {
            side,
            mops: Summary::of(vec![median, median * 0.9, median * 1.1]).expect("figures"),
            records_per_frame: (!matches!(
                side,
                SideName::Redis(_) | SideName::RedisUnpipelined(_)
            ))
            .then_some(21.5),
            commands: vec!["redis-server --port 6379".to_owned()],
        };
        let run = Run {
            setup: Setup {
                rounds: 3,
                spread_max: None,
                slice_ms: 100,
                ring_slots: 2048,
                slots: 255,
                depth: 512,
                pipeline: 64,
                idle: "poll".to_owned(),
                mode: Some(crate::report::example_mode()),
                near_core: 0,
                far_core: 1,
                application_core: 0,
                application_shares: true,
                redis: "Redis server v=7.0.15".to_owned(),
            },
            sides: vec![
                side(SideName::Redis(1), 0.6),
                side(SideName::Redis(50), 1.0),
                side(SideName::RedisUnpipelined(1), 0.03),
                side(SideName::Application, 2.5),
                side(SideName::Lane, 6.0),
                side(SideName::Bare, 8.0),
            ],
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
        assert_eq!(read.setup, results.setup);
        assert_eq!(
            read.best_of_redis().expect("measured").side,
            SideName::Redis(50)
        );
        assert_eq!(read.goals.len(), 2);
    }

    #[test]
    fn both_meanings_are_compared_with_the_faster_load() {
        assert_eq!(
            example::results().judged(),
            [("redis_lane", 6.0, true), ("redis", 2.5, false)]
        );
    }

    #[test]
    fn the_section_has_rates_ratios_and_goals() {
        let section = example::results().section("", &[]);
        for words in [
            "\n## Additions to a counter, beside Redis\n",
            "| additions of an application | 2.50 (2.25–2.75) | 21.5 | 2.50 |",
            "| Redis INCR, 50 connections | 1.00 (0.90–1.10) | – | 1.00 |",
            "| pairs of records, not looked at | 8.00 (7.20–8.80) | 21.5 | 8.00 |",
            "with -P 64 | **missed** | 2.50 |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }
}
