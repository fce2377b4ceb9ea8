//! The figures, their goals and their section of the page.

use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use crate::{
    cell,
    host::printed_command,
    report::{Block, Goal, Limit, Report, Suite, Table},
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
    /// The gaps that clients saw, by restarted daemon.
    pub gaps: Vec<Gaps>,
    /// Additions reported as done to their callers.
    pub done: u64,
    /// Additions with an unknown outcome.
    pub unknown: u64,
    /// Where the counter stands.
    pub counted: u64,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// How often each daemon was shut down gracefully, and as often killed.
    pub restarts: u32,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// Idle policy of the lanes.
    pub idle: String,
    /// The mode of a port as it was read back.
    pub mode: PortMode,
    /// The daemons' command lines.
    pub commands: Vec<Vec<String>>,
}

/// How a daemon was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// By SIGTERM: the daemon resolves open exchanges first.
    InOrder,
    /// By SIGKILL.
    Killed,
}

/// The gaps of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gaps {
    /// The restarted daemon, and the counter that the client adds to.
    pub what: String,
    /// How it was ended.
    pub ended: Ended,
    /// One gap per restart, sorted, in nanoseconds.
    pub ns: Vec<u64>,
}

impl Ended {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::InOrder => "in order",
            Self::Killed => "killed",
        }
    }
}

impl Gaps {
    /// Creates the gaps of `what`.
    pub fn new(what: &str, ended: Ended, mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        Self {
            what: what.to_owned(),
            ended,
            ns,
        }
    }

    /// The gap that `percent` of 100 do not exceed; 0 where there is none.
    pub fn percentile_ns(&self, percent: usize) -> u64 {
        let rank = (self.ns.len() * percent).div_ceil(100).max(1);
        self.ns.get(rank - 1).copied().unwrap_or(0)
    }
}

impl Suite for Run {
    const NAME: &'static str = "restart";
    const TITLE: &'static str = "A daemon is started again";
    const MISSING: &'static str =
        "Not measured: `covalent-bench restart --results bench/results` does, as root.";

    fn judge(&self) -> Vec<Goal> {
        let most = self.done + self.unknown;
        let beyond = self.done.saturating_sub(self.counted) + self.counted.saturating_sub(most);
        vec![Goal::of(
            "restart",
            "each addition is counted once, or at most once if its outcome is unknown",
            beyond as f64,
            Limit::AtMost(0.0),
        )]
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let (setup, host) = (&report.setup, &report.host);
        let mut table = Table::new(&["restarted", "ended", ">min ms", ">p50", ">p90", ">max"]);
        for gaps in &report.gaps {
            let [min, p50, p90, max] = [0, 50, 90, 100]
                .map(|percent| format!("{:.2}", gaps.percentile_ns(percent) as f64 / 1e6));
            table.row([
                gaps.what.clone(),
                gaps.ended.words().to_owned(),
                min,
                p50,
                p90,
                max,
            ]);
        }
        let is_exact = report.goals.iter().all(|goal| goal.met);
        let mut blocks = vec![
            prose(),
            Block::Table(table),
            Block::facts(
                [
                    (
                        "restarts",
                        format!("{} of each kind of each daemon", setup.restarts),
                    ),
                    (
                        "additions",
                        format!(
                            "{} done, {} with unknown outcome, {} counted, within {} to {}: {}",
                            report.done,
                            report.unknown,
                            report.counted,
                            report.done,
                            report.done + report.unknown,
                            if is_exact { "exact" } else { "**not exact**" }
                        ),
                    ),
                    ("lanes", format!("{}, not pinned", setup.idle)),
                    (
                        "port",
                        format!("{}, rings of {}", cell::mode(&setup.mode), setup.ring_slots),
                    ),
                    ("machine", host.words()),
                    ("measured", host.measured()),
                ],
                [],
            ),
        ];
        let commands = setup.commands.iter();
        blocks.extend(commands.map(|line| Block::Text(format!("`{}`", printed_command(line)))));
        blocks
    }
}

/// What is measured, and how.
fn prose() -> Block {
    Block::text(
        "Two nodes are on one cable. A client of each node keeps one addition in flight at all\n\
         times, both to the same counter. A daemon is stopped and started again, and the\n\
         clients reattach without help\n\
         ([decision \
         52](decisions.md#52-a-restart-is-lived-through-by-the-library-not-by-the-daemon)).\n\
         The gap is the longest time between two completions around the restart. It includes\n\
         the exit, the start of the new process, its ports, its links and the clients' memory.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    #[test]
    fn percentiles_are_gaps_that_were_seen() {
        let gaps = Gaps::new("x", Ended::InOrder, vec![30, 10, 20, 40]);
        let percentiles = [0, 50, 90, 100].map(|percent| gaps.percentile_ns(percent));
        assert_eq!(percentiles, [10, 20, 40, 40]);
        assert_eq!(
            Gaps::new("x", Ended::Killed, Vec::new()).percentile_ns(50),
            0
        );
    }

    #[test]
    fn a_counter_outside_of_its_bounds_misses_the_goal() {
        let run = |counted| Run {
            setup: Setup {
                restarts: 1,
                ring_slots: 64,
                idle: "poll".to_owned(),
                mode: crate::report::example_mode(),
                commands: vec![vec!["/a/covalentd".to_owned()]],
            },
            gaps: vec![Gaps::new("x", Ended::Killed, vec![2_000_000])],
            done: 10,
            unknown: 2,
            counted,
        };
        let met = [9, 10, 12, 13].map(|counted| run(counted).judge()[0].met);
        assert_eq!(met, [false, true, true, false]);
        let section = Results::new(1, Host::observed(), run(13)).section("", &[]);
        for words in [
            "| x | killed | 2.00 | 2.00 | 2.00 | 2.00 |",
            "13 counted, within 10 to 12: **not exact** |",
            "\n\n`covalentd`\n",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }
}
