//! The result of one run, for programs and for people.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use covalent_verbs::status::PortMode;
use serde::Serialize;
use serde_json::Value;

use crate::host::Host;

/// What was measured.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `rx` or `idle`.
    pub name: &'static str,
    /// The same: the goal that it is about.
    pub goal: &'static str,
    /// The goal in words.
    pub target: &'static str,
    /// The bare peer's figure; 0 where there is no peer.
    pub bare: f64,
    /// What the peer is, in a word.
    pub peer_name: &'static str,
    /// Covalent's figure.
    pub covalent: f64,
    /// Of both figures.
    pub unit: &'static str,
    /// Covalent's figure divided by the peer's, or by its limit where there is no peer.
    pub ratio: f64,
    /// How many times better than the goal asks: 1 is just at the goal, less is missed.
    pub margin: f64,
    /// Whether the goal is met.
    pub met: bool,
    /// Everything about Covalent's side.
    pub ours: Value,
    /// Everything about the peer's side; null where there is none.
    pub peer: Value,
    /// How both sides were set up.
    pub setup: Setup,
    /// Where it was measured.
    pub host: Host,
}

/// How one goal was met.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The goal.
    pub name: String,
    /// How many times better than it asks: 1 is just at the goal, less is missed.
    pub margin: f64,
    /// Whether it is met.
    pub met: bool,
}

/// How both sides were set up.
#[derive(Debug, Serialize)]
pub struct Setup {
    /// Descriptors in each ring.
    pub ring_slots: u32,
    /// Frames moved at a time.
    pub burst: u32,
    /// Bytes of each frame, without FCS.
    pub frame_bytes: usize,
    /// Idle policy of the lanes.
    pub idle: &'static str,
    /// The mode of Covalent's port as it read it back. The peer is bound with the same flags to the same interface.
    pub mode: Option<PortMode>,
    /// Seconds of each slice.
    pub slice_seconds: f64,
    /// What runs on which core.
    pub cores: String,
    /// The daemons' command lines.
    pub daemons: Vec<Vec<String>>,
}

impl Report {
    /// How its goal was met.
    pub fn standing(&self) -> Standing {
        Standing {
            name: self.goal.to_owned(),
            margin: self.margin,
            met: self.met,
        }
    }

    /// The whole report on one line of JSON.
    pub fn line(&self) -> Result<String> {
        serde_json::to_string(self).context("writing JSON")
    }

    /// Writes the report to a new file in `folder`.
    pub fn write_to(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let path = folder.join(format!("{}-{}.json", self.name, now.as_millis()));
        let text = serde_json::to_string_pretty(self).context("writing JSON")?;
        fs::write(&path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }

    /// The report for people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let verdict = if self.met { "met" } else { "NOT MET" };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}: {}", self.name, self.target);
        let _ = writeln!(
            out,
            "  covalent  {:>12.3} {}  {}",
            self.covalent,
            self.unit,
            brief(&self.ours)
        );
        if !self.peer.is_null() {
            let _ = writeln!(
                out,
                "  {:<10}{:>12.3} {}  {}",
                self.peer_name,
                self.bare,
                self.unit,
                brief(&self.peer)
            );
        }
        let _ = writeln!(out, "  ratio     {:>12.3}  goal {verdict}", self.ratio);
        if let Some(mode) = &self.setup.mode {
            let copy = if mode.zero_copy { "zero-copy" } else { "copy" };
            let _ = writeln!(
                out,
                "  {} XDP, {copy}, need_wakeup {}, {} queue(s), pages of {} bytes, rings of {}, bursts of {}",
                mode.xdp,
                mode.need_wakeup,
                mode.queues,
                mode.page_bytes,
                self.setup.ring_slots,
                self.setup.burst
            );
        }
        let _ = writeln!(out, "  lanes {}; {}", self.setup.idle, self.setup.cores);
        let _ = writeln!(out, "  {}", self.host.words());
        out
    }
}

/// What several goals come to: how many are met, and which came off worst.
pub fn verdict(standings: &[Standing]) -> String {
    let met = standings.iter().filter(|standing| standing.met).count();
    let worst = standings
        .iter()
        .min_by(|one, other| one.margin.total_cmp(&other.margin));
    let worst = worst.map_or_else(String::new, |worst| {
        format!(
            "; the worst is {} at {:.2} of its goal",
            worst.name, worst.margin
        )
    });
    format!("{met} of {} goals met{worst}", standings.len())
}

/// The plain figures of one side on one line.
fn brief(side: &Value) -> String {
    let Value::Object(fields) = side else {
        return String::new();
    };
    let plain = fields.iter().filter_map(|(name, value)| match value {
        Value::Number(number) => Some(format!("{name} {number}")),
        Value::Object(summary) => match (summary.get("min"), summary.get("max")) {
            (Some(Value::Number(min)), Some(Value::Number(max))) => Some(format!(
                "{name} {:.3} to {:.3}",
                min.as_f64()?,
                max.as_f64()?
            )),
            _ => None,
        },
        _ => None,
    });
    plain.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            name: "rx",
            goal: "rx",
            target: "at least 0.90",
            bare: 1.0,
            peer_name: "bare",
            covalent: 0.95,
            unit: "Mpps",
            ratio: 0.95,
            margin: 0.95 / 0.9,
            met: true,
            ours: serde_json::json!({"lost": 3, "rate": {"min": 0.9, "max": 1.0}}),
            peer: Value::Null,
            setup: Setup {
                ring_slots: 2048,
                burst: 64,
                frame_bytes: 64,
                idle: "poll",
                mode: None,
                slice_seconds: 1.0,
                cores: String::new(),
                daemons: Vec::new(),
            },
            host: Host::look(),
        }
    }

    #[test]
    fn the_stable_names_are_there() {
        let line = report().line().expect("JSON");
        assert!(!line.contains('\n'));
        let value: Value = serde_json::from_str(&line).expect("JSON");
        for name in [
            "name", "goal", "bare", "covalent", "unit", "ratio", "met", "ours", "peer", "setup",
            "host",
        ] {
            assert!(value.get(name).is_some(), "{name}");
        }
        assert_eq!(value["met"], true);
    }

    #[test]
    fn people_see_the_verdict_and_the_spread() {
        let table = Report {
            met: false,
            ..report()
        }
        .table();
        assert!(
            table.contains("goal NOT MET") && table.contains("lost 3, rate 0.900 to 1.000"),
            "{table}"
        );
        assert!(!table.contains("bare"), "{table}");
    }

    #[test]
    fn the_worst_is_the_one_with_the_least_margin() {
        let good = report().standing();
        let bad = Standing {
            name: "idle".to_owned(),
            margin: 0.8,
            met: false,
        };
        assert_eq!(
            verdict(&[good, bad]),
            "1 of 2 goals met; the worst is idle at 0.80 of its goal"
        );
    }

    #[test]
    fn raw_results_go_to_a_folder_that_is_made() {
        let place = tempfile::tempdir().expect("a directory");
        let folder = place.path().join("a/b");
        report().write_to(&folder).expect("written");
        let file = fs::read_dir(folder)
            .expect("a folder")
            .next()
            .expect("a file")
            .expect("readable");
        let value: Value =
            serde_json::from_slice(&fs::read(file.path()).expect("readable")).expect("JSON");
        assert_eq!(value["name"], "rx");
    }
}
