//! The figures, their goals and their section of the page.

use serde::{Deserialize, Serialize};

use super::{
    stream::{CONNECTIONS, PIPELINE},
    task::Mode,
};
use crate::{
    cell,
    repeats::Settled,
    report::{Block, Goal, Limit, MEDIANS, Report, Sides, Suite, Table},
    servers::etcd::{MEMBERS, WRITE_BYTES},
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
    /// Milliseconds of each; etcd's own benchmark takes a minute.
    pub slice_ms: u64,
    /// Members of the group.
    pub members: u8,
    /// How the lanes wait.
    pub idle: String,
    /// The version of etcd, if it took part.
    pub etcd: Option<String>,
    /// The version of Redis.
    pub redis: Option<String>,
}

/// The system that orders writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// A group of ours.
    Covalent {
        /// The sending members.
        way: Mode,
        /// Bytes of a message.
        bytes: u32,
    },
    /// Three members of etcd.
    Etcd,
    /// A stream of Redis with two replicas.
    RedisStream {
        /// Bytes of an entry.
        bytes: u32,
    },
}

impl Side {
    /// For people.
    pub fn words(self) -> String {
        match self {
            Self::Covalent { way, bytes } => {
                let senders = match way {
                    Mode::All => "all send",
                    Mode::One => "one sends",
                    Mode::Lone => "one message at a time",
                };
                format!("group, {senders}, {bytes} B")
            }
            Self::Etcd => format!("etcd, {MEMBERS} members, {WRITE_BYTES} B"),
            Self::RedisStream { bytes } => format!("Redis stream, 2 replicas, {bytes} B"),
        }
    }
}

/// The figures of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Which.
    pub side: Side,
    /// Ordered messages per second: each member's deliveries, or the writes that etcd or Redis
    /// accepts.
    pub messages_per_s: Summary,
    /// Deliveries a second of all members together.
    pub deliveries_per_s: Option<Summary>,
    /// Messages in a batch.
    pub messages_per_batch: Option<f64>,
    /// Median time from sending a message to its delivery at the sender, in microseconds. It is
    /// delivered once all members have it.
    pub p50_us: Option<f64>,
    /// The same, exceeded by one in a hundred.
    pub p99_us: Option<f64>,
    /// Command lines of its processes.
    pub commands: Vec<String>,
}

impl Setup {
    /// Describes the settings that affect the figures.
    pub fn words(&self) -> String {
        format!(
            "a group of {} over cables in memory (copy, pages of 4 KiB), lanes {}, no process \
             pinned; its daemons and members share the cores, as the other systems' processes do",
            self.members, self.idle
        )
    }
}

impl Run {
    /// Returns the figures of `side`.
    pub fn figures(&self, side: Side) -> Option<&Figures> {
        self.sides.iter().find(|figures| figures.side == side)
    }
}

/// Message size for the delivery goal, in bytes.
const MESSAGE_BYTES: u32 = 64;

/// The delivery goal: deliveries per second of all members together.
const DELIVERIES_AT_LEAST: f64 = 1e6;

/// The etcd goal, as a multiple of etcd's write rate.
const TIMES_ETCD: f64 = 10.0;

impl Suite for Run {
    const NAME: &'static str = "multicast";
    const TITLE: &'static str = "Multicast in one order, beside etcd and a stream of Redis";
    const MISSING: &'static str =
        "Not measured: `covalent-bench multicast --results bench/results` does, as root.";

    fn judge(&self) -> Vec<Goal> {
        let all = |bytes| {
            let way = Mode::All;
            self.figures(Side::Covalent { way, bytes })
        };
        let sides = |covalent, beside, peer: &str| Sides {
            covalent,
            beside,
            peer: peer.to_owned(),
            unit: "1/s".to_owned(),
            at: None,
        };
        let deliveries = all(MESSAGE_BYTES).and_then(|figures| {
            let ours = figures.deliveries_per_s.as_ref()?.median;
            let target = format!(
                "messages of {MESSAGE_BYTES} B in a group of {}: {:.0} M or more deliveries a \
                 second, of all members together",
                self.setup.members,
                DELIVERIES_AT_LEAST / 1e6
            );
            let sides = sides(ours, DELIVERIES_AT_LEAST, "the goal");
            Some(Goal::between(
                "deliveries",
                target,
                sides,
                Limit::AtLeast(1.0),
            ))
        });
        let etcd = self.figures(Side::Etcd);
        let writes = all(WRITE_BYTES).zip(etcd).map(|(ours, etcd)| {
            let target = format!(
                "messages of {WRITE_BYTES} B, as many as a write of etcd's benchmark has, at \
                 {TIMES_ETCD:.0} or more times its rate"
            );
            let (ours, theirs) = (&ours.messages_per_s, &etcd.messages_per_s);
            let sides = sides(ours.median, theirs.median, "etcd");
            Goal::between("etcd", target, sides, Limit::AtLeast(TIMES_ETCD))
        });
        deliveries.into_iter().chain(writes).collect()
    }

    fn settled(&self) -> Option<Settled> {
        let setup = &self.setup;
        let figures = self.sides.iter().map(|side| &side.messages_per_s);
        Some(Settled::of(setup.rounds, setup.spread_max, figures))
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let (setup, host) = (&report.setup, &report.host);
        let mut table = Table::new(&[
            "",
            ">messages/s",
            ">deliveries/s",
            ">messages in a batch",
            ">p50 us",
            ">p99 us",
        ]);
        for side in &report.sides {
            let deliveries = side.deliveries_per_s.as_ref().map(|rate| rate.median);
            table.row([
                side.side.words(),
                cell::range(&side.messages_per_s, 0),
                cell::figure(deliveries, 0),
                cell::figure(side.messages_per_batch, 1),
                cell::figure(side.p50_us, 0),
                cell::figure(side.p99_us, 0),
            ]);
        }
        let commands = report.sides.iter().flat_map(|side| {
            let commands = side.commands.iter();
            commands.map(|command| (side.side.words(), command.clone()))
        });
        let version =
            |version: &Option<String>| version.clone().unwrap_or_else(|| "not measured".to_owned());
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
                    ("etcd", version(&setup.etcd)),
                    ("Redis", version(&setup.redis)),
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
        "A group has {} members. Each is a process with its own daemon, and an in-memory cable\n\
         joins every two daemons. A message is delivered when all members have it. All members\n\
         deliver the same messages in the same order, which each slice checks. *Messages*\n\
         counts the ordered messages, *deliveries* those that all members together received.\n\
         Others use the loopback interface. One is etcd with three members, data in memory\n\
         and `--unsafe-no-fsync`, under the load of `etcdctl check perf`. Its writes have\n\
         1,280 bytes, and its log outlives the processes; Covalent's messages do not. The\n\
         other is a stream of Redis with two replicas under\n\
         `redis-benchmark -P {PIPELINE} -c {CONNECTIONS}`. No client waits for those replicas,\n\
         so the stream has figures and no goal. All sides take turns {} times, {} ms each,\n\
         etcd for a minute; medians (least to most), per second. Microseconds are from a\n\
         message to its delivery at its sender.",
        setup.members, setup.rounds, setup.slice_ms
    ))
}

#[cfg(test)]
pub mod example {
    use super::*;
    use crate::host::Host;

    /// A run in which deliveries miss their goal and writes reach theirs.
    pub fn results() -> Results {
        let side = |side, median: f64, ours: bool| Figures {
            side,
            messages_per_s: Summary::of(vec![median, median * 0.9, median * 1.1]).expect("figures"),
            deliveries_per_s: ours.then(|| Summary::of(vec![median * 4.0]).expect("a figure")),
            messages_per_batch: ours.then_some(12.5),
            p50_us: None,
            p99_us: None,
            commands: vec!["etcd --name m0".to_owned()],
        };
        let covalent = |way, bytes| Side::Covalent { way, bytes };
        let mut lone = side(covalent(Mode::Lone, 64), 5_000.0, true);
        (lone.p50_us, lone.p99_us) = (Some(150.0), Some(420.0));
        let run = Run {
            setup: Setup {
                rounds: 3,
                spread_max: None,
                slice_ms: 1000,
                members: 4,
                idle: "adaptive".to_owned(),
                etcd: Some("etcd Version: 3.4.23".to_owned()),
                redis: Some("Redis server v=7.0.15".to_owned()),
            },
            sides: vec![
                side(covalent(Mode::All, 64), 200_000.0, true),
                side(covalent(Mode::All, WRITE_BYTES), 50_000.0, true),
                lone,
                side(Side::Etcd, 2_500.0, false),
                side(Side::RedisStream { bytes: 64 }, 250_000.0, false),
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
        assert_eq!(read, results);
        assert!(read.figures(Side::Etcd).is_some());
    }

    #[test]
    fn each_goal_is_judged_at_its_message_size() {
        assert_eq!(
            example::results().judged(),
            [("deliveries", 0.8, false), ("etcd", 20.0, true)]
        );
    }

    #[test]
    fn the_section_has_rates_ratios_and_goals() {
        let section = example::results().section("", &[]);
        for words in [
            "\n## Multicast in one order, beside etcd and a stream of Redis\n",
            "| group, all send, 64 B | 200000 (180000–220000) | 800000 | 12.5 | – | – |",
            "| etcd, 3 members, 1280 B | 2500 (2250–2750) | – | – | – | – |",
            "of all members together | **missed** | 0.80 |",
            "times its rate | met | 20.00 |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }
}
