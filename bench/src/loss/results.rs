//! The figures and their section of the page.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{outage::Method, plot::tails};
use crate::{
    cell,
    latency::{Figures, Pacing},
    report::{Block, Entry, Goal, Report, Suite, Table},
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
    /// The sides that took part, and those that did not, with the reason.
    pub contestants: Vec<Entry>,
    /// Each side under each loss.
    pub losses: Vec<Lossy>,
    /// Each side when the cable is cut, in each way.
    pub cuts: Vec<Cuts>,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// When requests left.
    pub pacing: Pacing,
    /// Bytes of each request and answer.
    pub bytes: usize,
    /// Repeats under each loss.
    pub repeats: u32,
    /// Milliseconds of each.
    pub slice_ms: u64,
    /// How long a cut lasts, in milliseconds.
    pub cut_ms: u64,
    /// Core of the client.
    pub near_core: usize,
    /// Core of the server.
    pub far_core: usize,
}

/// The figures of one side on a cable that loses frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lossy {
    /// Configured losses per million frames, each way.
    pub parts_per_million: u32,
    /// Frames that it lost there and back meanwhile, as the kernel counted.
    pub lost_frames: [u64; 2],
    /// How long requests took.
    pub figures: Figures,
}

/// The figures of one side on a cable that is cut repeatedly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cuts {
    /// How it was cut.
    pub way: Method,
    /// Milliseconds from the mending to the first answer, for each cut.
    pub recovered_ms: Summary,
    /// Milliseconds of the longest wait of a request around each cut.
    pub longest_ms: Summary,
    /// Cuts after which no reply arrived in time. The figures above count them with the reply
    /// timeout.
    #[serde(default)]
    pub unrecovered: u32,
    /// How long requests took over the whole run.
    pub figures: Figures,
}

impl Lossy {
    /// The loss in percent, for people.
    pub fn percent(&self) -> String {
        percent(self.parts_per_million)
    }
}

/// Parts of a million in percent, for people.
pub fn percent(parts_per_million: u32) -> String {
    format!("{} %", f64::from(parts_per_million) / 1e4)
}

/// The plot.
const PLOT: &str = "loss.svg";

impl Suite for Run {
    const NAME: &'static str = "loss";
    const TITLE: &'static str = "When frames are lost";
    const MISSING: &'static str =
        "Not measured: `covalent-bench loss --results bench/results` does, as root.";
    const PLOTS: &'static [&'static str] = &[PLOT];

    /// The only goal is that our sides take part in everything.
    fn judge(&self) -> Vec<Goal> {
        Vec::new()
    }

    fn contestants(&self) -> &[Entry] {
        &self.contestants
    }

    fn plots(report: &Results) -> Result<Vec<(String, String)>> {
        let svg = tails(report)?;
        Ok(svg.map(|svg| (PLOT.to_owned(), svg)).into_iter().collect())
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let (setup, host) = (&report.setup, &report.host);
        let mut table = Table::new(&[
            "frames lost",
            "",
            ">p50 µs",
            ">p99",
            ">p99.9",
            ">p99.99",
            ">max",
            ">not answered",
            ">lost on the way",
        ]);
        let sides = report.sides();
        let parts = report.parts().into_iter();
        let each = parts.flat_map(|parts| sides.iter().map(move |side| (parts, *side)));
        for one in each.filter_map(|(parts, side)| report.lossy(side, parts)) {
            let (figures, [there, back]) = (&one.figures, one.lost_frames);
            let times = &figures.times_us;
            let tenth = |figure: f64| format!("{figure:.1}");
            table.row([
                one.percent(),
                format!(
                    "{}{}",
                    cell::side_name(&figures.side),
                    figures.behind(setup.pacing)
                ),
                tenth(times.typical),
                tenth(times.p99),
                tenth(times.p999),
                tenth(times.p9999),
                format!("{:.0}", times.max),
                figures.lost.to_string(),
                format!("{there} + {back}"),
            ]);
        }
        let mut blocks = vec![
            prose(report),
            Block::plot(Self::TITLE, PLOT),
            Block::Table(table),
        ];
        blocks.extend(cuts_blocks(setup.cut_ms, &report.cuts));
        if !report.cuts.is_empty() {
            blocks.push(Block::text(
                "What Covalent does with a second link is [above](#a-link-is-cut).",
            ));
        }
        blocks.extend([
            Block::contestants(
                &report.contestants,
                " took no part",
                |one| one.words("", "."),
                "repeats",
            ),
            Block::facts(
                [
                    (
                        "cores",
                        format!(
                            "requester on core {}, responder on core {}",
                            setup.near_core, setup.far_core
                        ),
                    ),
                    ("machine", host.words()),
                    ("measured", host.measured()),
                ],
                [],
            ),
        ]);
        blocks
    }
}

/// What is measured, and how.
fn prose(report: &Results) -> Block {
    let setup = &report.setup;
    Block::Text(format!(
        "A request of {} bytes and its reply use one cable that loses frames. nftables rules\n\
         between the two ends drop each frame with the same probability, regardless of its\n\
         content, and count the drops ([decision 32](decisions.md#32-who-loses-the-frames)).\n\
         TCP retransmits after a timeout, or when later segments were acknowledged. Covalent\n\
         detects the gap, resolves the open exchanges and continues. Requests are due at fixed\n\
         times: {}. {} repeats of {} ms.",
        setup.bytes, setup.pacing, setup.repeats, setup.slice_ms
    ))
}

/// The figures for a cable that is cut. Empty if it was not cut.
pub fn cuts_blocks(cut_ms: u64, cuts: &[Cuts]) -> Vec<Block> {
    if cuts.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[
        "cut",
        "",
        ">cuts",
        ">never",
        ">to recover, ms",
        ">longest wait, ms",
        ">p50 µs",
        ">p99",
        ">p99.9",
        ">max",
        ">lost",
    ]);
    for cut in cuts {
        let times = &cut.figures.times_us;
        let whole = |figure: f64| format!("{figure:.0}");
        table.row([
            cut.way.words().to_owned(),
            cell::side_name(&cut.figures.side),
            cut.recovered_ms.repeats.len().to_string(),
            cut.unrecovered.to_string(),
            cell::range(&cut.recovered_ms, 1),
            cell::range(&cut.longest_ms, 1),
            format!("{:.1}", times.typical),
            whole(times.p99),
            whole(times.p999),
            whole(times.max),
            cut.figures.lost.to_string(),
        ]);
    }
    vec![
        Block::Text(format!(
            "The same cable is cut for {cut_ms} ms, repeatedly, and there is no other link. *To\n\
             recover* is the time from the request to repair the cable until the first reply;\n\
             it includes the time that the repair itself takes. *Longest wait* is that of a\n\
             request around a cut. *Never* counts the cuts after which no reply arrived in\n\
             time; such a cut counts as the longest permitted wait for a reply. *Lost* counts\n\
             the requests without a reply in time."
        )),
        Block::Table(table),
    ]
}

impl Run {
    /// The losses, the smallest first.
    pub fn parts(&self) -> Vec<u32> {
        let mut parts: Vec<u32> = self
            .losses
            .iter()
            .map(|one| one.parts_per_million)
            .collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// The sides under losses, in the order of the run.
    pub fn sides(&self) -> Vec<&str> {
        let mut sides = Vec::new();
        for one in &self.losses {
            if !sides.contains(&one.figures.side.as_str()) {
                sides.push(one.figures.side.as_str());
            }
        }
        sides
    }

    /// One side under one loss.
    pub fn lossy(&self, side: &str, parts: u32) -> Option<&Lossy> {
        self.losses
            .iter()
            .find(|one| one.figures.side == side && one.parts_per_million == parts)
    }
}

#[cfg(test)]
pub mod example {
    use super::*;
    use crate::latency;

    /// Ours and TCP under two losses, and cut silently.
    pub fn results() -> Results {
        let latency = latency::example_results();
        let figures = |side: &str, factor: f64| {
            let mut figures = latency.figures[0].clone();
            figures.side = side.to_owned();
            figures.times_us.p999 *= factor;
            figures.times_us.max *= factor;
            figures
        };
        let lossy = |parts_per_million, side: &str, factor| Lossy {
            parts_per_million,
            lost_frames: [
                u64::from(parts_per_million) / 100,
                u64::from(parts_per_million) / 50,
            ],
            figures: figures(side, factor),
        };
        let cuts = |side: &str, ms: f64| Cuts {
            way: Method::Silent,
            recovered_ms: Summary::of(vec![ms, ms * 2.0, ms * 3.0]).expect("figures"),
            longest_ms: Summary::of(vec![100.0 + ms; 3]).expect("figures"),
            unrecovered: 1,
            figures: figures(side, 1.0),
        };
        let run = Run {
            setup: Setup {
                pacing: latency.setup.pacing,
                bytes: 8,
                repeats: 3,
                slice_ms: 1000,
                cut_ms: 100,
                near_core: 0,
                far_core: 1,
            },
            contestants: latency.contestants.clone(),
            losses: vec![
                lossy(0, "covalent-message", 1.0),
                lossy(0, "tcp", 1.0),
                lossy(10_000, "covalent-message", 2.0),
                lossy(10_000, "tcp", 1000.0),
            ],
            cuts: vec![cuts("covalent-message", 10.0), cuts("tcp", 200.0)],
        };
        Results::new(1, latency.host.clone(), run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kept::Kept as _, report::section};

    #[test]
    fn kept_results_are_read_back() {
        let place = tempfile::tempdir().expect("a directory");
        let results = example::results();
        results.write_to(place.path()).expect("written");
        let read = Results::read_from(place.path())
            .expect("readable")
            .expect("there");
        assert_eq!(
            (&read.setup, read.losses.len(), read.cuts.len()),
            (&results.setup, 4, 2)
        );
        assert_eq!(results.parts(), [0, 10_000]);
        assert_eq!(results.sides(), ["covalent-message", "tcp"]);
    }

    #[test]
    fn losses_are_shown_in_percent() {
        assert_eq!(
            [0, 100, 1000, 10_000].map(percent),
            ["0 %", "0.01 %", "0.1 %", "1 %"]
        );
    }

    #[test]
    fn the_section_has_tails_and_recoveries_side_by_side() {
        let section = example::results().section("performance", &[PLOT]);
        for words in [
            "\n## When frames are lost\n",
            "![When frames are lost](performance/loss.svg)",
            "| 1 % | **covalent-message** |",
            "| 0 | 100 + 200 |",
            "| silent | tcp | 3 | 1 | 400.0 (200.0–600.0) | 300.0 (300.0–300.0) |",
        ] {
            assert!(section.contains(words), "{words:?} is not in\n{section}");
        }
    }

    #[test]
    fn the_plot_of_an_earlier_result_is_removed_with_it() {
        let place = tempfile::tempdir().expect("a directory");
        let page = place.path().join("performance.md");
        example::results().write_to(place.path()).expect("written");
        section::<Run>(place.path(), &page).expect("made");
        let plot = place.path().join("performance/loss.svg");
        assert!(plot.exists());
        let empty = tempfile::tempdir().expect("a directory");
        let text = section::<Run>(empty.path(), &page).expect("made");
        assert!(text.contains("Not measured: `covalent-bench loss") && !plot.exists());
    }
}
