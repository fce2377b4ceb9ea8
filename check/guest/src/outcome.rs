//! The outcome of a job: read from the files in its folder, stored as one JSON file.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{machine::Ending, nic::Nic, stock::Line};

/// Status of a job that found out that it cannot be run here.
const SKIPPED: &str = "77";

/// The stored result of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The job's name.
    pub job: String,
    /// The script that it ran.
    pub script: String,
    /// The source of the kernel.
    pub line: Line,
    /// Output of `uname -r`.
    pub kernel: String,
    /// The NIC's model.
    pub nic: Option<Nic>,
    /// How it ended.
    pub verdict: Verdict,
    /// The facts that it reported, by name.
    pub facts: BTreeMap<String, Value>,
    /// How long it took, the boot included, in seconds of an emulated machine.
    pub seconds: u64,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything held.
    Passed,
    /// It cannot run on this kernel or NIC. A fact states the reason.
    Skipped,
    /// Something did not hold.
    Failed,
    /// It was not done at its deadline.
    Overdue,
}

/// Reads the verdict and the facts of a job from `folder`.
pub fn read(folder: &Path, ending: Ending) -> (Verdict, BTreeMap<String, Value>) {
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    let verdict = match (ending, status.trim()) {
        (Ending::Overdue, _) => Verdict::Overdue,
        (Ending::Off, "0") => Verdict::Passed,
        (Ending::Off, SKIPPED) => Verdict::Skipped,
        // Without a status, the guest did not reach the end of the job.
        (Ending::Off, _) => Verdict::Failed,
    };
    let facts = fs::read_to_string(folder.join("facts")).unwrap_or_default();
    (verdict, parse_facts(&facts))
}

/// Parses lines `NAME VALUE`. A value that is a JSON number, list or object is kept as such. The
/// last value of a name counts.
fn parse_facts(text: &str) -> BTreeMap<String, Value> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, value)| {
            let value = match serde_json::from_str(value) {
                Ok(known @ (Value::Number(_) | Value::Array(_) | Value::Object(_))) => known,
                _ => Value::String(value.to_owned()),
            };
            (name.to_owned(), value)
        })
        .collect()
}

impl Outcome {
    /// Writes it into the folder of results, in place of the one of before.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&self, results: &Path) -> Result<()> {
        fs::create_dir_all(results)
            .with_context(|| format!("cannot make {}", results.display()))?;
        let file = results.join(format!("{}.json", self.job));
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Returns whether a fact does not fit on a line. Such a fact is shown only on the page.
    pub fn is_table(&self, name: &str) -> bool {
        matches!(
            self.facts.get(name),
            Some(Value::Array(_) | Value::Object(_))
        )
    }

    /// Returns a fact as text. Empty if the job reported none of that name.
    pub fn fact(&self, name: &str) -> String {
        match self.facts.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }
}

/// All results that are kept, by name.
///
/// # Errors
/// When one cannot be read.
pub fn kept(results: &Path) -> Result<Vec<Outcome>> {
    let entries =
        fs::read_dir(results).with_context(|| format!("cannot read {}", results.display()))?;
    let mut outcomes = Vec::new();
    for entry in entries {
        let file = entry?.path();
        if file.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let outcome: Outcome = serde_json::from_str(&text)
            .with_context(|| format!("{} is no result", file.display()))?;
        outcomes.push(outcome);
    }
    outcomes.sort_by(|one, other| one.job.cmp(&other.job));
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_passes_only_with_its_own_word() {
        let folder = tempfile::tempdir().expect("a folder");
        let verdict = |status: Option<&str>, ending| {
            let file = folder.path().join("status");
            match status {
                Some(status) => fs::write(&file, status).expect("written"),
                None => drop(fs::remove_file(&file)),
            }
            read(folder.path(), ending).0
        };
        assert_eq!(verdict(Some("0\n"), Ending::Off), Verdict::Passed);
        assert_eq!(verdict(Some("77\n"), Ending::Off), Verdict::Skipped);
        assert_eq!(verdict(Some("1\n"), Ending::Off), Verdict::Failed);
        assert_eq!(verdict(Some("0\n"), Ending::Overdue), Verdict::Overdue);
        assert_eq!(verdict(None, Ending::Off), Verdict::Failed, "it crashed");
    }

    #[test]
    fn numeric_facts_are_stored_as_numbers() {
        let facts = parse_facts(
            "mode zero-copy\nframes 100000\np50_us 1.25\nframes 7\nodd\nlist [1, {}]\ntrue true\n",
        );
        assert_eq!(facts.len(), 5);
        assert_eq!(facts["list"], serde_json::json!([1, {}]));
        assert_eq!(facts["true"], "true");
        assert_eq!(facts["frames"], 7);
        assert_eq!(facts["p50_us"], 1.25);
        assert_eq!(facts["mode"], "zero-copy");
    }
}
