//! The measured results. Other programs read them, and the table and a section of the page are made
//! from them.

use covalent::status::PortMode;
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

impl Kept for Results {
    const NAME: &'static str = "atomics";

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
        let figures = self.sides.iter().map(|side| &side.mops);
        Settled::of(setup.rounds, setup.spread_max, figures)
    }

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

#[cfg(test)]
pub mod example {
    use super::*;

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
        let mut results = Results {
            name: Results::NAME.to_owned(),
            began_unix_ms: 1,
            host: Host::observed(),
            setup: Setup {
                rounds: 3,
                spread_max: None,
                slice_ms: 100,
                ring_slots: 2048,
                slots: 255,
                depth: 512,
                pipeline: 64,
                idle: "poll".to_owned(),
                mode: Some(PortMode {
                    xdp: "native".to_owned(),
                    zero_copy: false,
                    need_wakeup: true,
                    page_bytes: 4096,
                    queues: 1,
                }),
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
        assert_eq!(read.setup, results.setup);
        assert_eq!(
            read.best_of_redis().expect("measured").side,
            SideName::Redis(50)
        );
        assert_eq!(read.goals.len(), 2);
    }
}
