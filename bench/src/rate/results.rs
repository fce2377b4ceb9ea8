//! The figures, their goals and their section of the page.

use anyhow::Result;
use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use super::{
    bars::bars,
    contestant::{BARE, OURS},
    turn::Slice,
};
use crate::{
    cell::short,
    repeats::Settled,
    report::{Block, Entry, Goal, Limit, MEDIANS, Report, Sides, Suite, Table},
    streams::Size,
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

/// One goal: ours against the best of some other systems, at one size.
struct Against {
    name: &'static str,
    peers: &'static [&'static str],
    size: Size,
    at_least: f64,
    words: &'static str,
}

const SMALL: Size = Size::Bytes(64);

/// DPDK's driver with its default and with its better setting, without reading frames. The better
/// one counts.
const DPDK: &[&str] = &["dpdk-af_xdp", "dpdk-af_xdp-busy"];

/// DPDK's driver with the same work per frame as a pipe's application.
const DPDK_LOOKING: &[&str] = &["dpdk-af_xdp-looking"];

const GOALS: [Against; 6] = [
    Against {
        name: "rate",
        peers: &[BARE],
        size: SMALL,
        at_least: 0.97,
        words: "64 B into a pipe: at least 0.97 of a bare AF_XDP receiver",
    },
    Against {
        name: "rate_mix",
        peers: &[BARE],
        size: Size::Mix,
        at_least: 0.97,
        words: "mix into a pipe: at least 0.97 of a bare AF_XDP receiver",
    },
    Against {
        name: "rate_dpdk",
        peers: DPDK,
        size: SMALL,
        at_least: 1.0,
        words: "64 B into a pipe: never below DPDK's net_af_xdp",
    },
    Against {
        name: "rate_dpdk_mix",
        peers: DPDK,
        size: Size::Mix,
        at_least: 1.0,
        words: "mix into a pipe: never below DPDK's net_af_xdp",
    },
    Against {
        name: "rate_dpdk_looking",
        peers: DPDK_LOOKING,
        size: SMALL,
        at_least: 1.0,
        words: "64 B into a pipe: never below DPDK's net_af_xdp that looks at each frame too",
    },
    Against {
        name: "rate_dpdk_looking_mix",
        peers: DPDK_LOOKING,
        size: Size::Mix,
        at_least: 1.0,
        words: "mix into a pipe: never below DPDK's net_af_xdp that looks at each frame too",
    },
];

/// The plot.
const PLOT: &str = "rate.svg";

impl Suite for Run {
    const NAME: &'static str = "rate";
    const TITLE: &'static str = "Frames from a virtual cable into a pipe";
    const MISSING: &'static str =
        "Not measured: `covalent-bench rate --results bench/results` does, as root.";
    const PLOTS: &'static [&'static str] = &[PLOT];

    fn judge(&self) -> Vec<Goal> {
        GOALS
            .iter()
            .filter_map(|goal| {
                let peers = goal.peers.iter();
                let best = peers
                    .filter_map(|peer| self.figure(peer, goal.size))
                    .max_by(|one, other| one.mpps.median.total_cmp(&other.mpps.median))?;
                let sides = Sides {
                    covalent: self.figure(OURS, goal.size)?.mpps.median,
                    beside: best.mpps.median,
                    peer: best.contestant.clone(),
                    unit: "Mpps".to_owned(),
                    at: None,
                };
                let limit = Limit::AtLeast(goal.at_least);
                (sides.beside > 0.0).then(|| Goal::between(goal.name, goal.words, sides, limit))
            })
            .collect()
    }

    fn settled(&self) -> Option<Settled> {
        let setup = &self.setup;
        let figures = self.figures.iter().map(|figure| &figure.mpps);
        Some(Settled::of(setup.rounds, setup.spread_max, figures))
    }

    fn contestants(&self) -> &[Entry] {
        &self.contestants
    }

    fn plots(report: &Results) -> Result<Vec<(String, String)>> {
        Ok(vec![(PLOT.to_owned(), bars(report, Self::TITLE)?)])
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let setup = &report.setup;
        let mut blocks = vec![prose(report), facts(report)];
        blocks.extend(daemon(&setup.daemon));
        blocks.push(Block::plot(Self::TITLE, PLOT));
        blocks.extend(report.sizes().into_iter().map(|size| table(report, size)));
        let count = report.goals.len();
        let met = report.goals.iter().filter(|goal| goal.met).count();
        let sides = |goal: &Goal, of: fn(&Sides) -> String| {
            goal.sides.as_ref().map_or_else(String::new, of)
        };
        blocks.extend([
            Block::text("Median (least–most), and shares of cores."),
            Block::Text(format!(
                "{met} of {count} goals met; {} not measured.",
                GOALS.len() - count
            )),
            Block::goals(
                &report.goals,
                &[
                    (">ratio", &|goal| format!("{:.3}", goal.measured)),
                    (">ours", &|goal| {
                        sides(goal, |sides| {
                            format!("{} {}", short(sides.covalent), sides.unit)
                        })
                    }),
                    (">other system", &|goal| {
                        sides(goal, |sides| {
                            format!("{} {}", short(sides.beside), sides.unit)
                        })
                    }),
                    ("against", &|goal| sides(goal, |sides| sides.peer.clone())),
                ],
            ),
            Block::contestants(
                &report.contestants,
                ": not measured",
                |one| one.words("version ", ";"),
                "slices",
            ),
        ]);
        blocks
    }
}

/// What is measured, and how.
fn prose(report: &Results) -> Block {
    let setup = &report.setup;
    Block::Text(format!(
        "One sender on core {} offers each receiver as much as it can, over the same veth pair\n\
         between two network namespaces. The kernel delivers each frame into the receiver's\n\
         ring within the sender's call, on the sender's core. The receiver's own work runs on\n\
         core {}. All take turns {} times, {} ms each. Figures are medians of\n\
         the received frames, and are comparable only within this run.",
        setup.sender_core, setup.receiver_core, setup.rounds, setup.slice_ms
    ))
}

fn facts(report: &Results) -> Block {
    let (setup, host) = (&report.setup, &report.host);
    let application = if report.shares_core() {
        format!(
            "core {}, which it shares with the lane: it takes the core when it wakes",
            setup.application_core
        )
    } else {
        format!("core {}, alone", setup.application_core)
    };
    let mode = setup.mode.as_ref().map_or_else(
        || "unknown".to_owned(),
        |mode| {
            format!(
                "{} XDP, {}, need_wakeup {}, {} queue, pages of {} bytes; DPDK's is native and \
                 copies too, with pages of 2 MiB",
                mode.xdp,
                if mode.zero_copy { "zero-copy" } else { "copy" },
                mode.need_wakeup,
                mode.queues,
                mode.page_bytes
            )
        },
    );
    let rings = format!(
        "{} descriptors each, bursts of {}",
        setup.ring_slots, setup.burst
    );
    Block::facts(
        [
            ("machine", host.words()),
            ("mode of the AF_XDP sockets", mode),
            ("rings", rings),
            ("application of the pipe", application),
            ("mix of frames", setup.mix.clone()),
            (MEDIANS, report.medians()),
            ("measured", host.measured()),
        ],
        [],
    )
}

/// The daemon's configuration without the paths of the run. The last word of its command line in a
/// result holds the configuration file, with its lines joined.
fn daemon(command: &[String]) -> Option<Block> {
    let settings: Vec<&str> = command
        .last()?
        .split("; ")
        .filter(|setting| !setting.contains("_dir = ") && !setting.is_empty())
        .collect();
    Some(Block::Text(format!(
        "The daemon ran as `covalentd --config FILE` with this file, without its folders:\n\n\
         ```toml\n{}\n```",
        settings.join("\n")
    )))
}

/// The contestants at one size.
fn table(report: &Results, size: Size) -> Block {
    let mut table = Table::new(&[
        &size.to_string(),
        ">Mpps",
        ">of bare",
        ">offered",
        ">lost",
        ">sender's core",
        ">receiver's core",
        ">application",
    ]);
    for entry in &report.contestants {
        let is_ours = entry.name == OURS;
        let name = if is_ours {
            format!("**{}**", entry.name)
        } else {
            entry.name.clone()
        };
        let Some(figure) = report.figure(&entry.name, size) else {
            let none = String::new;
            let missing = "not measured".to_owned();
            table.row([
                name,
                missing,
                none(),
                none(),
                none(),
                none(),
                none(),
                none(),
            ]);
            continue;
        };
        let Summary {
            median, min, max, ..
        } = figure.mpps;
        let of_bare = report.of_bare(figure);
        table.row([
            name,
            format!("{} ({}–{})", short(median), short(min), short(max)),
            of_bare.map_or_else(String::new, |part| format!("{part:.3}")),
            short(figure.offered_mpps),
            format!("{:.2} %", figure.lost * 100.0),
            format!("{:.2}", figure.sender_cores),
            format!("{:.2}", figure.receiver_cores),
            if is_ours {
                format!("{:.2}", figure.application_cores)
            } else {
                "none".to_owned()
            },
        ]);
    }
    Block::Table(table)
}

impl Run {
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
    use crate::{host::Host, report::Description};

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
    let host = Host {
        kernel: "6.1".to_owned(),
        cpu: "Some CPU".to_owned(),
        cores: 2,
        memory_mib: 1024,
        load_average: "0.10".to_owned(),
        version: "0.1.0".to_owned(),
        command: vec!["/a/covalent-bench".to_owned(), "rate".to_owned()],
        watched: None,
    };
    let run = Run {
        setup: Setup {
            rounds: 3,
            spread_max: None,
            slice_ms: 600,
            ring_slots: 2048,
            burst: 64,
            sender_core: 0,
            receiver_core: 1,
            application_core: 1,
            mode: Some(crate::report::example_mode()),
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
    };
    Results::new(1_790_000_000_000, host, run)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{kept::Kept as _, report::section};

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
    fn a_later_result_takes_the_place_of_an_earlier_one() {
        let folder = tempfile::tempdir().expect("a directory");
        let read = || Results::read_from(folder.path());
        std::fs::write(folder.path().join("rate-9.json"), "{}").expect("written");
        assert_eq!(read().expect("no problem"), None);
        let before = example();
        let after = Results {
            began_unix_ms: before.began_unix_ms + 1,
            ..before.clone()
        };
        for result in [before, after] {
            let path = result.write_to(folder.path()).expect("written");
            assert_eq!(read().expect("read"), Some(result));
            assert_eq!(path, folder.path().join("rate.json"));
        }
        for other in [
            "{}",
            "{\"name\": \"streams\"}",
            "{\"name\": \"rate\"}",
            "rate",
        ] {
            std::fs::write(folder.path().join("rate.json"), other).expect("written");
            let problem = read().expect_err("no result").to_string();
            assert!(problem.contains("rate.json"), "{problem}");
        }
        let nowhere = folder.path().join("none/none");
        assert_eq!(Results::read_from(&nowhere).expect("no problem"), None);
    }

    #[test]
    fn the_better_of_dpdks_settings_counts() {
        let goals = example().judge();
        let met: Vec<(&str, bool)> = goals
            .iter()
            .map(|goal| (goal.goal.as_str(), goal.met))
            .collect();
        assert_eq!(
            met,
            [("rate", true), ("rate_mix", false), ("rate_dpdk", false)]
        );
        let dpdk = &goals[2];
        assert_eq!(
            dpdk.sides
                .as_ref()
                .map(|sides| (sides.peer.as_str(), sides.covalent, sides.beside)),
            Some(("dpdk-af_xdp-busy", 0.99, 1.1))
        );
        let section = example().section("", &[]);
        assert!(
            section.contains("\n1 of 3 goals met; 3 not measured.\n"),
            "{section}"
        );
    }

    #[test]
    fn just_at_the_goal_is_met() {
        let mut results = example();
        results.run.figures[0].mpps.median = 1.1;
        let goals = results.judge();
        assert!(goals[2].met && goals[2].margin >= Some(1.0));
        results.run.figures[0].mpps.median = 0.969;
        assert!(!results.judge()[0].met);
    }

    #[test]
    fn the_section_names_the_better_side_and_the_absent_ones() {
        let section = example().section("performance", &[PLOT]);
        for words in [
            "## Frames from a virtual cable into a pipe",
            "(performance/rate.svg)",
            "| mode of the AF_XDP sockets | native XDP, copy, need_wakeup true, 1 queue, pages of \
             4096 bytes;",
            "| application of the pipe | core 1, which it shares with the lane",
            "| **covalent-port** | 0.990 (0.980–1.00) | 0.990 | 2.00 | 25.00 % | 1.00 | 0.95 | \
             0.05 |",
            "| dpdk-af_packet | not measured | | | | | | |",
            "| mix into a pipe: at least 0.97 of a bare AF_XDP receiver | **missed** | 0.800 | \
             0.800 Mpps | 1.00 Mpps | af_xdp |",
            "| medians | 3 repeats; the widest spread is 20.0 % |",
            "- **dpdk-af_packet**: not measured: there is no dpdk-testpmd.",
            "  - `dpdk-af_xdp --go`",
            "| measured | `covalent-bench rate` |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn an_application_with_its_own_core_is_shown_so() {
        let mut results = example();
        results.run.setup.application_core = 2;
        let section = results.section("performance", &[]);
        assert!(section.contains("| application of the pipe | core 2, alone |"));
    }

    #[test]
    fn places_of_the_run_are_left_out() {
        let command = [
            "/a/covalentd",
            "--config",
            "[node]; name = \"b\"; run_dir = \"/t/x\"; [lane]; ",
        ];
        let block = daemon(&command.map(str::to_owned));
        let Some(Block::Text(out)) = block else {
            panic!("{block:?}")
        };
        assert!(
            out.contains("```toml\n[node]\nname = \"b\"\n[lane]\n```"),
            "{out}"
        );
        assert!(out.contains("`covalentd --config FILE`"), "{out}");
    }

    #[test]
    fn without_a_result_the_section_reports_that_and_removes_an_old_plot() {
        let place = tempfile::tempdir().expect("a directory");
        let page = place.path().join("performance.md");
        let plot = place.path().join("performance/rate.svg");
        example().write_to(place.path()).expect("written");
        let printed = section::<Run>(place.path(), &page).expect("a section");
        assert!(printed.contains("Mpps") && plot.exists());
        let nowhere = place.path().join("nothing/here");
        let printed = section::<Run>(&nowhere, &page).expect("a section");
        assert!(printed.contains("Not measured: `covalent-bench rate"));
        assert!(!plot.exists());
    }
}
