//! The counts. Other programs read them, and a table and a section of the page are made from them.

use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use super::{strace::Calls, table};
use crate::{host::Host, kept::Kept};

/// The doorbell of an AF_XDP port.
pub const DOORBELL: &str = "sendto";

/// Offering the core: it goes with the time that passes.
pub const YIELD: &str = "sched_yield";

/// Allowed other calls per hundred verbs. The start and end of a trace and status requests cause
/// them.
const OTHERS_PER_HUNDRED_VERBS: f64 = 1.0;

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
    /// The counts of each load.
    pub loads: Vec<Figures>,
    /// The verdicts on the goals.
    pub goals: Vec<Verdict>,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Idle policy of the lanes.
    pub idle: String,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// The mode of the asking daemon's port as it read it back.
    pub mode: PortMode,
    /// Whether the application is on the asking lane's core.
    pub application_shares: bool,
    /// The daemons' command lines.
    pub daemons: Vec<Vec<String>>,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Additions in flight.
    pub depth: u32,
    /// How many there were.
    pub verbs: u64,
    /// The lanes.
    pub lanes: Vec<LaneCalls>,
}

/// The system calls of one lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneCalls {
    /// `requester` or `answering`.
    pub lane: String,
    /// Frames that its port sent meanwhile.
    pub frames: u64,
    /// Calls by name.
    pub calls: Calls,
}

impl LaneCalls {
    /// How often it made the call `name`.
    pub fn of(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or_default()
    }

    /// Returns the calls other than the doorbell and yielding the core.
    pub fn others(&self) -> u64 {
        let all: u64 = self.calls.values().sum();
        all - self.of(DOORBELL) - self.of(YIELD)
    }
}

/// Whether a goal is met.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub goal: String,
    /// In words.
    pub target: String,
    /// Calls for a hundred verbs, of the load and lane with the most.
    pub measured: f64,
    /// The upper limit.
    pub at_most: f64,
    /// Whether it is met.
    pub met: bool,
}

/// Judges the counts.
pub fn judge(results: &Results) -> Vec<Verdict> {
    let worst = |of: &dyn Fn(&LaneCalls, u64) -> f64| {
        results
            .loads
            .iter()
            .flat_map(|load| load.lanes.iter().map(|lane| of(lane, load.verbs)))
            .fold(0.0, f64::max)
    };
    let others = worst(&|lane, verbs| lane.others() as f64 * 100.0 / verbs as f64);
    let bells = worst(&|lane, _| lane.of(DOORBELL) as f64 * 100.0 / lane.frames.max(1) as f64);
    [
        (
            "system_calls",
            "fewer than one call per hundred verbs that is neither a port's doorbell nor a yield \
             of the core",
            others,
            OTHERS_PER_HUNDRED_VERBS,
        ),
        (
            "doorbells",
            "no more doorbells than frames, in a hundred frames",
            bells,
            100.0,
        ),
    ]
    .into_iter()
    .map(|(goal, target, measured, at_most)| Verdict {
        goal: goal.to_owned(),
        target: target.to_owned(),
        measured,
        at_most,
        met: measured <= at_most,
    })
    .collect()
}

impl Kept for Results {
    const NAME: &'static str = "system-calls";

    fn began_unix_ms(&self) -> u64 {
        self.began_unix_ms
    }

    fn table(&self) -> String {
        table::table(self)
    }
}

#[cfg(test)]
pub mod example {
    use super::*;

    /// A run with one load, in which all is as it should be.
    pub fn results() -> Results {
        let calls = |pairs: &[(&str, u64)]| {
            pairs
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        let mut results = Results {
            name: Results::NAME.to_owned(),
            began_unix_ms: 1,
            host: Host::observed(),
            setup: Setup {
                idle: "poll".to_owned(),
                ring_slots: 2048,
                mode: PortMode {
                    xdp: "native".to_owned(),
                    zero_copy: false,
                    need_wakeup: true,
                    page_bytes: 4096,
                    queues: 1,
                },
                application_shares: true,
                daemons: vec![vec!["covalentd".to_owned()]],
            },
            loads: vec![Figures {
                depth: 512,
                verbs: 100_000,
                lanes: vec![
                    LaneCalls {
                        lane: "asking".to_owned(),
                        frames: 5_000,
                        calls: calls(&[("sendto", 4_000), ("sched_yield", 30_000), ("write", 3)]),
                    },
                    LaneCalls {
                        lane: "answering".to_owned(),
                        frames: 5_000,
                        calls: calls(&[("sendto", 5_000)]),
                    },
                ],
            }],
            goals: Vec::new(),
        };
        results.goals = judge(&results);
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_and_yields_are_not_counted_as_other_calls() {
        let mut results = example::results();
        let requester = &results.loads[0].lanes[0];
        assert_eq!((requester.of(DOORBELL), requester.others()), (4_000, 3));
        let met = |results: &Results| -> Vec<bool> {
            judge(results).iter().map(|verdict| verdict.met).collect()
        };
        assert_eq!(met(&results), [true, true]);
        let lane = &mut results.loads[0].lanes[1];
        lane.calls.insert("futex".to_owned(), 1_001);
        assert_eq!(met(&results), [false, true]);
        let lane = &mut results.loads[0].lanes[1];
        lane.calls.clear();
        lane.calls.insert(DOORBELL.to_owned(), 5_001);
        assert_eq!(met(&results), [true, false]);
    }

    #[test]
    fn kept_results_are_read_back() {
        let place = tempfile::tempdir().expect("a directory");
        let results = example::results();
        results.write_to(place.path()).expect("written");
        let read = Results::last_beside(place.path()).expect("readable");
        assert_eq!(read.expect("there").loads, results.loads);
    }
}
