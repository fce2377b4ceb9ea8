//! The measured results. Other programs read them, and the table and a section of the page are made
//! from them.

use serde::{Deserialize, Serialize};

use super::{goals::Verdict, table, task::Mode};
use crate::{
    host::Host,
    kept::Kept,
    repeats::Settled,
    servers::etcd::{MEMBERS, WRITE_BYTES},
    summary::Summary,
};

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
             pinned; its daemons and members share the cores, as the peers' processes do",
            self.members, self.idle
        )
    }
}

impl Kept for Results {
    const NAME: &'static str = "multicast";

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
        let figures = self.sides.iter().map(|side| &side.messages_per_s);
        Settled::of(setup.rounds, setup.spread_max, figures)
    }

    /// Returns the figures of `side`.
    pub fn figures(&self, side: Side) -> Option<&Figures> {
        self.sides.iter().find(|figures| figures.side == side)
    }
}

#[cfg(test)]
pub mod example {
    use super::*;

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
        let mut results = Results {
            name: Results::NAME.to_owned(),
            began_unix_ms: 1,
            host: Host::observed(),
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
        assert_eq!(read, results);
        assert!(read.figures(Side::Etcd).is_some());
    }
}
