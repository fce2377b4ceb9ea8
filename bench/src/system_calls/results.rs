//! The figures, their goals and their section of the page.

use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use super::strace::Calls;
use crate::report::{Block, Goal, Limit, Report, Suite, Table};

/// The doorbell of an AF_XDP port.
pub const DOORBELL: &str = "sendto";

/// Offering the core: it goes with the time that passes.
pub const YIELD: &str = "sched_yield";

/// Allowed other calls per hundred verbs. The start and end of a trace and status requests cause
/// them.
const OTHERS_PER_HUNDRED_VERBS: f64 = 1.0;

/// A whole run.
pub type Results = Report<Run>;

/// The setup and the figures of a run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// How.
    pub setup: Setup,
    /// The counts of each load.
    pub loads: Vec<Figures>,
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

/// The other calls of a lane by name, the most frequent first.
fn others(lane: &LaneCalls) -> String {
    let mut others: Vec<_> = lane
        .calls
        .iter()
        .filter(|(name, _)| ![DOORBELL, YIELD].contains(&name.as_str()))
        .collect();
    others.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let listed: Vec<_> = others
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if listed.is_empty() {
        "none".to_owned()
    } else {
        listed.join(", ")
    }
}

/// Describes a load.
fn load_words(load: &Figures) -> String {
    match load.depth {
        1 => format!("{} additions, one at a time", load.verbs),
        depth => format!("{} additions, {depth} in flight", load.verbs),
    }
}

impl Suite for Run {
    const NAME: &'static str = "system-calls";
    const TITLE: &'static str = "System calls of a lane";
    const MISSING: &'static str =
        "Not counted: `covalent-bench system-calls --results bench/results` does, as root.";

    fn judge(&self) -> Vec<Goal> {
        let worst = |of: &dyn Fn(&LaneCalls, u64) -> f64| {
            let loads = self.loads.iter();
            loads
                .flat_map(|load| load.lanes.iter().map(|lane| of(lane, load.verbs)))
                .fold(0.0, f64::max)
        };
        let others = worst(&|lane, verbs| lane.others() as f64 * 100.0 / verbs as f64);
        let bells = worst(&|lane, _| lane.of(DOORBELL) as f64 * 100.0 / lane.frames.max(1) as f64);
        vec![
            Goal::of(
                "system_calls",
                "fewer than one call per hundred verbs that is neither a port's doorbell nor a \
                 yield of the core",
                others,
                Limit::AtMost(OTHERS_PER_HUNDRED_VERBS),
            ),
            Goal::of(
                "doorbells",
                "no more doorbells than frames, in a hundred frames",
                bells,
                Limit::AtMost(100.0),
            ),
        ]
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let host = &report.host;
        let mut table = Table::new(&[
            "",
            "lane",
            ">frames sent",
            ">doorbells",
            ">per verb",
            ">yields of the core",
            "others",
        ]);
        for load in &report.loads {
            for lane in &load.lanes {
                let bells = lane.of(DOORBELL);
                table.row([
                    load_words(load),
                    lane.lane.clone(),
                    lane.frames.to_string(),
                    bells.to_string(),
                    format!("{:.3}", bells as f64 / load.verbs as f64),
                    lane.of(YIELD).to_string(),
                    others(lane),
                ]);
            }
        }
        vec![
            prose(report),
            Block::Table(table),
            Block::goals(
                &report.goals,
                &[(">measured", &|goal| format!("{:.2}", goal.measured))],
            ),
            Block::Text(format!(
                "Counted with {} on {}.",
                host.measured(),
                host.words()
            )),
        ]
    }
}

/// What is measured, and how.
fn prose(report: &Results) -> Block {
    Block::Text(format!(
        "`strace -c` counts the system calls of the lanes' threads while an application adds\n\
         to a word at another node over AF_XDP. A lane rings its port's doorbell\n\
         (`{DOORBELL}`) once for each round that sends, regardless of the number of frames.\n\
         Under `{}` it also yields its core (`{YIELD}`) after its work and, when idle, every\n\
         64 rounds, because an application that shares the core needs it. The number of those\n\
         calls grows with the elapsed time, which is long for a traced lane. A verb causes no\n\
         other call. [Allocations](#exchanges-over-one-link) are counted above.",
        report.setup.idle
    ))
}

#[cfg(test)]
pub mod example {
    use super::*;
    use crate::host::Host;

    /// A run with one load, in which all is as it should be.
    pub fn results() -> Results {
        let calls = |pairs: &[(&str, u64)]| {
            pairs
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        let run = Run {
            setup: Setup {
                idle: "poll".to_owned(),
                ring_slots: 2048,
                mode: crate::report::example_mode(),
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
        };
        Results::new(1, Host::observed(), run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept as _;

    #[test]
    fn doorbells_and_yields_are_not_counted_as_other_calls() {
        let mut results = example::results();
        let requester = &results.loads[0].lanes[0];
        assert_eq!((requester.of(DOORBELL), requester.others()), (4_000, 3));
        let met = |results: &Results| -> Vec<bool> {
            let goals = results.judge();
            goals.iter().map(|goal| goal.met).collect()
        };
        assert_eq!(met(&results), [true, true]);
        let lane = &mut results.run.loads[0].lanes[1];
        lane.calls.insert("futex".to_owned(), 1_001);
        assert_eq!(met(&results), [false, true]);
        let lane = &mut results.run.loads[0].lanes[1];
        lane.calls.clear();
        lane.calls.insert(DOORBELL.to_owned(), 5_001);
        assert_eq!(met(&results), [true, false]);
    }

    #[test]
    fn kept_results_are_read_back() {
        let place = tempfile::tempdir().expect("a directory");
        let results = example::results();
        results.write_to(place.path()).expect("written");
        let read = Results::read_from(place.path()).expect("readable");
        assert_eq!(read.expect("there").loads, results.loads);
    }

    #[test]
    fn the_section_has_calls_and_goals() {
        let section = example::results().section("", &[]);
        for words in [
            "\n## System calls of a lane\n",
            "| 100000 additions, 512 in flight | asking | 5000 | 4000 | 0.040 | 30000 | write 3 |",
            "a yield of the core | met | 0.00 |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }
}
