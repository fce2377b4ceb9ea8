//! The figures, their goals and their section of the page.

use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use crate::{
    cell,
    report::{Block, Goal, Limit, Report, Suite, Table},
};

/// Largest share of a core, in percent.
const CPU_PERCENT_MAX: f64 = 2.0;

/// Largest resident memory, in MiB.
const RESIDENT_MIB_MAX: f64 = 100.0;

/// A whole run.
pub type Results = Report<Run>;

/// The setup and the figures of a run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// How.
    pub setup: Setup,
    /// Both daemons.
    pub daemons: Vec<IdleUsage>,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// For how long they rested.
    pub seconds: f64,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// Idle policy of the lanes.
    pub idle: String,
    /// The mode of a port as it was read back.
    pub mode: PortMode,
    /// The daemons' command lines.
    pub commands: Vec<Vec<String>>,
}

/// The consumption of one daemon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IdleUsage {
    /// Of one core.
    pub cpu_percent: f64,
    /// Of memory.
    pub resident_mib: f64,
}

impl IdleUsage {
    /// How much of the tighter limit it took.
    pub fn share(self) -> f64 {
        (self.cpu_percent / CPU_PERCENT_MAX).max(self.resident_mib / RESIDENT_MIB_MAX)
    }
}

impl Suite for Run {
    const NAME: &'static str = "idle";
    const TITLE: &'static str = "Daemons at rest";
    const MISSING: &'static str =
        "Not measured: `covalent-bench idle --results bench/results` does, as root.";

    fn judge(&self) -> Vec<Goal> {
        let shares = self.daemons.iter().map(|usage| usage.share());
        vec![Goal::of(
            "idle",
            format!(
                "a daemon at rest takes less than {CPU_PERCENT_MAX} % of a core and \
                 {RESIDENT_MIB_MAX} MiB"
            ),
            shares.fold(0.0, f64::max),
            Limit::Below(1.0),
        )]
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let (setup, host) = (&report.setup, &report.host);
        let mut table = Table::new(&[">% of a core", ">MiB resident"]);
        for usage in &report.daemons {
            table.row([
                format!("{:.2}", usage.cpu_percent),
                format!("{:.1}", usage.resident_mib),
            ]);
        }
        vec![
            Block::Table(table),
            Block::goals(
                &report.goals,
                &[(">of the tighter limit", &|goal| {
                    format!("{:.2}", goal.measured)
                })],
            ),
            Block::facts(
                [
                    (
                        "lanes",
                        format!("{}, not pinned, {:.1} s", setup.idle, setup.seconds),
                    ),
                    (
                        "port",
                        format!("{}, rings of {}", cell::mode(&setup.mode), setup.ring_slots),
                    ),
                    ("machine", host.words()),
                ],
                [],
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host::Host, kept::Kept as _};

    fn results() -> Results {
        let run = Run {
            setup: Setup {
                seconds: 3.0,
                ring_slots: 2048,
                idle: "adaptive".to_owned(),
                mode: PortMode {
                    queues: 2,
                    ..crate::report::example_mode()
                },
                commands: Vec::new(),
            },
            daemons: vec![IdleUsage {
                cpu_percent: 3.0,
                resident_mib: 20.0,
            }],
        };
        Results::new(7, Host::observed(), run)
    }

    #[test]
    fn the_tighter_limit_decides() {
        let share = |cpu_percent, resident_mib| {
            IdleUsage {
                cpu_percent,
                resident_mib,
            }
            .share()
        };
        assert_eq!(share(1.0, 10.0), 0.5);
        assert_eq!(share(0.1, 90.0), 0.9);
    }

    #[test]
    fn people_see_the_verdict_and_programs_the_same() {
        let table = results().table();
        assert!(
            table.contains("3.00          20.0") && table.contains("of the tighter limit 1.50"),
            "{table}"
        );
        let place = tempfile::tempdir().expect("a directory");
        let folder = place.path().join("a/b");
        let path = results().write_to(&folder).expect("written");
        assert_eq!(path, folder.join("idle.json"));
        let read = Results::read_from(&folder).expect("read").expect("there");
        assert_eq!(read, results());
        assert!(!read.line().expect("JSON").contains('\n'));
    }
}
