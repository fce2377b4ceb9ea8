//! The measured results. Other programs read them, and the table, the plot and a section of the
//! page are made from them.

use serde::{Deserialize, Serialize};

use super::{outage::Method, table};
use crate::{
    host::Host,
    kept::Kept,
    latency::{Figures, Pacing},
    streams::Entry,
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

impl Kept for Results {
    const NAME: &'static str = "loss";

    fn began_unix_ms(&self) -> u64 {
        self.began_unix_ms
    }

    fn table(&self) -> String {
        table::table(self)
    }
}

impl Results {
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
        Results {
            name: Results::NAME.to_owned(),
            began_unix_ms: 1,
            host: latency.host,
            setup: Setup {
                pacing: latency.setup.pacing,
                bytes: 8,
                repeats: 3,
                slice_ms: 1000,
                cut_ms: 100,
                near_core: 0,
                far_core: 1,
            },
            contestants: latency.contestants,
            losses: vec![
                lossy(0, "covalent-message", 1.0),
                lossy(0, "tcp", 1.0),
                lossy(10_000, "covalent-message", 2.0),
                lossy(10_000, "tcp", 1000.0),
            ],
            cuts: vec![cuts("covalent-message", 10.0), cuts("tcp", 200.0)],
        }
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
        assert_eq!(
            (read.setup, read.losses.len(), read.cuts.len()),
            (results.setup.clone(), 4, 2)
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
}
