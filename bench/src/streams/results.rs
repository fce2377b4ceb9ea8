//! The figures and their part of the page.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::{
    repeats::Settled,
    report::{Block, Entry, Goal, Report, Suite},
    streams::{
        case::{Case, Size, Test},
        goals, page,
        session::{counts::CountSweep, loads::LoadSweep},
        table,
    },
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
    /// The contestants that took part, and those that did not, with the reason.
    pub contestants: Vec<Entry>,
    /// The figures of each contestant.
    pub figures: Vec<Figure>,
    /// Notification methods, over the load. Absent in results from before it was measured.
    pub loads: Option<LoadSweep>,
    /// Ever more pipes. Results of before it was measured have none.
    pub counts: Option<CountSweep>,
}

/// How a run was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Repetitions of each case by each contestant.
    pub rounds: u32,
    /// How well the medians had to be known; nothing if it did not matter.
    pub spread_max: Option<f64>,
    /// Milliseconds of each repetition that were counted.
    pub slice_ms: u64,
    /// Milliseconds before those.
    pub warm_up_ms: u64,
    /// The daemon's core.
    pub daemon_core: usize,
    /// The application's core.
    pub application_core: usize,
    /// Size of the packet ring of pipes and of the bare ring, in KiB.
    pub ring_kib: u64,
    /// Size of its pages, in bytes.
    pub page_bytes: u64,
    /// Slots of the session beside a pipe. Absent in older results, which had 64.
    pub session_slots: Option<u32>,
    /// Frequency governor of the daemon's core, if the system reports it.
    pub governor: Option<String>,
    /// The kernel's policy for transparent huge pages.
    pub transparent_huge_pages: String,
    /// Where the mix of packets is from.
    pub mix: String,
    /// Mean length of its packets, in bytes.
    pub mix_mean_bytes: f64,
}

/// The figures of a contestant in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The contestant.
    pub contestant: String,
    /// The case.
    pub case: Case,
    /// In which unit.
    pub unit: String,
    /// Of all repetitions.
    pub figure: Summary,
    /// Median of how much of the daemon's core was taken.
    pub daemon_cores: f64,
    /// Of the application's.
    pub application_cores: f64,
    /// CPU use of auxiliary processes, on any core.
    pub other_cores: f64,
}

impl Suite for Run {
    const NAME: &'static str = "streams";
    // The first part of the page, with several headings. Without a result there is no page.
    const TITLE: &'static str = "";
    const MISSING: &'static str = "";
    const PLOTS: &'static [&'static str] = page::PLOTS;

    fn judge(&self) -> Vec<Goal> {
        goals::judge(self)
    }

    fn settled(&self) -> Option<Settled> {
        let setup = &self.setup;
        let figures = self.figures.iter().map(|figure| &figure.figure);
        Some(Settled::of(setup.rounds, setup.spread_max, figures))
    }

    fn contestants(&self) -> &[Entry] {
        &self.contestants
    }

    fn plots(report: &Results) -> Result<Vec<(String, String)>> {
        page::plots(report)
    }

    fn blocks(report: &Results) -> Vec<Block> {
        page::blocks(report)
    }

    /// Medians alone: as many columns as there are sizes.
    fn terminal(report: &Results) -> String {
        table::table(report)
    }
}

impl Run {
    /// Returns the figure of a contestant in a case.
    pub fn figure(&self, contestant: &str, case: Case) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|figure| figure.contestant == contestant && figure.case == case)
    }

    /// The sizes at which a test was made, small before large, the mix last.
    pub fn sizes(&self, test: Test) -> Vec<Size> {
        let mut sizes: Vec<Size> = self
            .figures
            .iter()
            .filter(|figure| figure.case.test == test)
            .map(|figure| figure.case.size)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the contestants of a test, in their order.
    pub fn in_test(&self, test: Test) -> Vec<&Entry> {
        self.contestants
            .iter()
            .filter(|entry| {
                self.figures
                    .iter()
                    .any(|figure| figure.case.test == test && figure.contestant == entry.name)
            })
            .collect()
    }
}

/// A run for tests: two contestants, one of them absent from some cases.
#[cfg(test)]
pub fn example() -> Results {
    use crate::{host::Host, report::Description};

    let figure = |contestant: &str, test, size, figures: [f64; 3]| Figure {
        contestant: contestant.to_owned(),
        case: Case { test, size },
        unit: test.unit().to_owned(),
        figure: Summary::of(figures.to_vec()).expect("figures"),
        daemon_cores: 1.0,
        application_cores: 0.99,
        other_cores: 0.0,
    };
    let entry = |name: &str, absent: Option<&str>| Entry {
        name: name.to_owned(),
        description: Description {
            what: format!("the {name}"),
            version: "1.2".to_owned(),
            tuning: "none".to_owned(),
            commands: vec![format!("{name} --go")],
        },
        absent: absent.map(str::to_owned),
        failures: Vec::new(),
    };
    let bytes = Size::Bytes;
    let host = Host {
        kernel: "6.1".to_owned(),
        cpu: "Some CPU".to_owned(),
        cores: 2,
        memory_mib: 1024,
        load_average: "0.10".to_owned(),
        version: "0.1.0".to_owned(),
        command: vec!["covalent-bench".to_owned(), "streams".to_owned()],
        watched: None,
    };
    let run = Run {
        setup: Setup {
            rounds: 3,
            spread_max: None,
            slice_ms: 250,
            warm_up_ms: 100,
            daemon_core: 0,
            application_core: 1,
            ring_kib: 2048,
            page_bytes: 4096,
            session_slots: Some(2048),
            governor: None,
            transparent_huge_pages: "madvise".to_owned(),
            mix: "built-in sample".to_owned(),
            mix_mean_bytes: 400.0,
        },
        contestants: vec![
            entry("ring", None),
            entry("covalent-pipe", None),
            entry("dpdk-memif", None),
            entry("aeron", Some("built without the feature `peers`")),
        ],
        figures: vec![
            figure("ring", Test::Echo, bytes(64), [80.0, 70.0, 75.0]),
            figure("covalent-pipe", Test::Echo, bytes(64), [60.0, 50.0, 55.0]),
            figure("dpdk-memif", Test::Echo, bytes(64), [10.0, 11.0, 12.0]),
            figure("ring", Test::Echo, bytes(1518), [5.0, 6.0, 7.0]),
            figure("covalent-pipe", Test::Echo, bytes(1518), [4.0, 4.5, 5.0]),
            figure("dpdk-memif", Test::Echo, bytes(1518), [5.5, 5.5, 5.5]),
            figure("covalent-pipe", Test::Echo, Size::Mix, [10.0, 10.0, 10.0]),
            figure(
                "covalent-pipe",
                Test::RoundTrip,
                bytes(64),
                [0.25, 0.26, 0.24],
            ),
        ],
        loads: None,
        counts: None,
    };
    Results::new(1_790_000_000_000, host, run)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{kept::Kept as _, report::ours_held, streams::session::example::with_sweeps};

    #[test]
    fn ours_held_only_if_it_took_part_and_never_failed() {
        let entry = |name: &str| Entry {
            name: name.to_owned(),
            ..Entry::default()
        };
        let absent = |name| Entry {
            absent: Some("no core is left".to_owned()),
            ..entry(name)
        };
        let failed = |name| Entry {
            failures: vec!["it ended".to_owned()],
            ..entry(name)
        };
        // The availability of other systems does not count.
        assert!(ours_held(&[
            entry("covalent-port"),
            absent("aeron"),
            failed("ring")
        ]));
        assert!(!ours_held(&[
            entry("covalent-pipe"),
            absent("covalent-cas")
        ]));
        assert!(!ours_held(&[failed("covalent-pipe-alone"), entry("ring")]));
    }

    #[test]
    fn a_result_of_before_the_sweeps_is_read() {
        let folder = tempfile::tempdir().expect("a directory");
        let before = with_sweeps();
        assert!(!before.line().expect("JSON").contains('\n'));
        let path = before.write_to(folder.path()).expect("written");
        let read = || {
            Results::read_from(folder.path())
                .expect("read")
                .expect("there")
        };
        assert_eq!(read(), before);
        let mut json = serde_json::to_value(&before).expect("JSON");
        let fields = json.as_object_mut().expect("a result");
        assert!(fields.remove("loads").is_some() && fields.remove("counts").is_some());
        fs::write(&path, json.to_string()).expect("written");
        let after = read();
        assert_eq!((&after.loads, &after.counts), (&None, &None));
    }

    #[test]
    fn sizes_and_contestants_of_a_test() {
        let mut results = example();
        results.run.figures.reverse();
        assert_eq!(
            results.sizes(Test::Echo),
            [Size::Bytes(64), Size::Bytes(1518), Size::Mix]
        );
        let names: Vec<&str> = results
            .in_test(Test::Echo)
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        assert_eq!(names, ["ring", "covalent-pipe", "dpdk-memif"]);
    }
}
