//! The measured results. Other programs read them, and the table, the plot and a section of the
//! page are made from them.

use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use super::{contestant::BARE, goals::Verdict, table, turn::Slice};
use crate::{
    host::Host,
    kept::Kept,
    repeats::Settled,
    streams::{Entry, Size},
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
    /// The contestants that took part, and those that did not, with the reason.
    pub contestants: Vec<Entry>,
    /// The figures of each contestant.
    pub figures: Vec<Figure>,
    /// The verdicts on the goals.
    pub goals: Vec<Verdict>,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Slices of each contestant at each size.
    pub rounds: u32,
    /// How well the medians had to be known; nothing if it did not matter.
    pub spread_max: Option<f64>,
    /// Milliseconds that were sent in each.
    pub slice_ms: u64,
    /// Descriptors in each ring.
    pub ring_slots: u32,
    /// Frames moved at a time.
    pub burst: u32,
    /// The sender's core, on which the kernel receives too.
    pub sender_core: usize,
    /// The core of the receiver, or of the lane.
    pub receiver_core: usize,
    /// The application's core; the same where there are only two.
    pub application_core: usize,
    /// The mode of the daemon's port, as the daemon reads it back. The other contestants bind with
    /// the same flags to the same interface. DPDK's program is checked to be in native mode.
    pub mode: Option<PortMode>,
    /// The daemon's command line.
    pub daemon: Vec<String>,
    /// Where the mix of frames is from.
    pub mix: String,
}

/// The figures of a contestant for frames of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The contestant.
    pub contestant: String,
    /// Size of the frames.
    pub size: Size,
    /// Millions of frames a second that arrived.
    pub mpps: Summary,
    /// Median of the offered rate, in the same unit.
    pub offered_mpps: f64,
    /// Of all slices, the share of frames that were sent and did not arrive.
    pub lost: f64,
    /// Median of how much of its core the sender took, the kernel's work there included.
    pub sender_cores: f64,
    /// Of how much the receiver or the lane took of theirs.
    pub receiver_cores: f64,
    /// Of how much the application took.
    pub application_cores: f64,
}

impl Figure {
    /// Of at least one slice.
    pub fn of(contestant: &str, size: Size, slices: &[Slice]) -> Option<Self> {
        let summary = |figure: fn(&Slice) -> f64| Summary::of(slices.iter().map(figure).collect());
        let sent: u64 = slices.iter().map(|slice| slice.sent).sum();
        let received: u64 = slices.iter().map(|slice| slice.received).sum();
        Some(Self {
            contestant: contestant.to_owned(),
            size,
            mpps: summary(Slice::mpps)?,
            offered_mpps: summary(|slice| slice.sent as f64 / slice.elapsed.as_secs_f64() / 1e6)?
                .median,
            lost: (sent - received) as f64 / sent.max(1) as f64,
            sender_cores: summary(|slice| slice.sender_cores)?.median,
            receiver_cores: summary(|slice| slice.receiver_cores)?.median,
            application_cores: summary(|slice| slice.application_cores)?.median,
        })
    }
}

impl Kept for Results {
    const NAME: &'static str = "rate";

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
        let figures = self.figures.iter().map(|figure| &figure.mpps);
        Settled::of(setup.rounds, setup.spread_max, figures)
    }

    /// Returns the figure of a contestant.
    pub fn figure(&self, contestant: &str, size: Size) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|figure| figure.contestant == contestant && figure.size == size)
    }

    /// A contestant's rate as a part of the bare receiver's.
    pub fn of_bare(&self, figure: &Figure) -> Option<f64> {
        let bare = self.figure(BARE, figure.size)?.mpps.median;
        (bare > 0.0).then(|| figure.mpps.median / bare)
    }

    /// The sizes that were measured, small before large, the mix last.
    pub fn sizes(&self) -> Vec<Size> {
        let mut sizes: Vec<Size> = self.figures.iter().map(|figure| figure.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Whether lane and application share a core.
    pub fn shares_core(&self) -> bool {
        self.setup.application_core == self.setup.receiver_core
    }
}

/// A run for tests: all contestants except one of DPDK's drivers.
#[cfg(test)]
pub fn example() -> Results {
    use crate::streams::Description;

    let figure = |contestant: &str, size, mpps: [f64; 3]| Figure {
        contestant: contestant.to_owned(),
        size,
        mpps: Summary::of(mpps.to_vec()).expect("figures"),
        offered_mpps: 2.0,
        lost: 0.25,
        sender_cores: 1.0,
        receiver_cores: 0.95,
        application_cores: if contestant == "covalent-port" {
            0.05
        } else {
            0.0
        },
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
    let small = Size::Bytes(64);
    let mut results = Results {
        name: Results::NAME.to_owned(),
        began_unix_ms: 1_790_000_000_000,
        host: Host {
            kernel: "6.1".to_owned(),
            cpu: "Some CPU".to_owned(),
            cores: 2,
            memory_mib: 1024,
            load_average: "0.10".to_owned(),
            version: "0.1.0".to_owned(),
            command: vec!["/a/covalent-bench".to_owned(), "rate".to_owned()],
            watched: None,
        },
        setup: Setup {
            rounds: 3,
            spread_max: None,
            slice_ms: 600,
            ring_slots: 2048,
            burst: 64,
            sender_core: 0,
            receiver_core: 1,
            application_core: 1,
            mode: Some(PortMode {
                xdp: "native".to_owned(),
                zero_copy: false,
                need_wakeup: true,
                page_bytes: 4096,
                queues: 1,
            }),
            daemon: vec!["/a/covalentd".to_owned(), "--config".to_owned()],
            mix: "captures".to_owned(),
        },
        contestants: vec![
            entry("covalent-port", None),
            entry("af_xdp", None),
            entry("dpdk-af_xdp", None),
            entry("dpdk-af_xdp-busy", None),
            entry("af_packet", None),
            entry("dpdk-af_packet", Some("there is no dpdk-testpmd")),
        ],
        figures: vec![
            figure("covalent-port", small, [0.98, 0.99, 1.0]),
            figure("af_xdp", small, [0.9, 1.0, 1.1]),
            figure("dpdk-af_xdp", small, [0.9, 0.9, 0.9]),
            figure("dpdk-af_xdp-busy", small, [1.1, 1.1, 1.1]),
            figure("af_packet", small, [0.5, 0.5, 0.5]),
            figure("covalent-port", Size::Mix, [0.8, 0.8, 0.8]),
            figure("af_xdp", Size::Mix, [1.0, 1.0, 1.0]),
        ],
        goals: Vec::new(),
    };
    results.goals = super::goals::judge(&results);
    results
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn figures_are_medians_and_loss_is_of_all() {
        let slice = |sent, received, sender_cores| Slice {
            sent,
            received,
            elapsed: Duration::from_secs(1),
            sender_cores,
            receiver_cores: 0.9,
            application_cores: 0.1,
        };
        let slices = [
            slice(2_000_000, 1_000_000, 1.0),
            slice(4_000_000, 4_000_000, 0.8),
            slice(2_000_000, 1_000_000, 0.9),
        ];
        let figure = Figure::of("x", Size::Mix, &slices).expect("slices");
        assert_eq!((figure.mpps.median, figure.mpps.max), (1.0, 4.0));
        assert_eq!((figure.offered_mpps, figure.lost), (2.0, 0.25));
        assert_eq!((figure.sender_cores, figure.receiver_cores), (0.9, 0.9));
        assert_eq!(Figure::of("x", Size::Mix, &[]), None);
    }

    #[test]
    fn the_last_result_beside_another_is_found() {
        let folder = tempfile::tempdir().expect("a directory");
        let pipes = folder.path().join("pipes-1.json");
        std::fs::write(&pipes, "{}").expect("written");
        std::fs::write(folder.path().join("rx-1790000000001.json"), "{}").expect("written");
        assert_eq!(Results::last_beside(&pipes).expect("no problem"), None);
        let before = example();
        let after = Results {
            began_unix_ms: before.began_unix_ms + 1,
            ..before.clone()
        };
        after.write_to(folder.path()).expect("written");
        before.write_to(folder.path()).expect("written");
        for place in [folder.path(), &pipes] {
            let found = Results::last_beside(place).expect("read");
            assert_eq!(found.as_ref(), Some(&after));
        }
        let nowhere = folder.path().join("none/none");
        assert_eq!(Results::last_beside(&nowhere).expect("no problem"), None);
        std::fs::write(folder.path().join("rate-9.json"), "{}").expect("written");
        let problem = Results::last_beside(folder.path()).expect_err("no result");
        assert!(problem.to_string().contains("rate-9.json"), "{problem}");
    }
}
