//! The effects of netem on frames, links and books: the facts of the job `netem` as a table.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::outcome::Outcome;

/// The fact that holds it.
const FACT: &str = "damages";

/// One damage.
#[derive(Debug, Deserialize)]
struct Damage {
    /// The netem setting.
    damage: String,
    /// Additions that were made meanwhile.
    additions: u64,
    /// Why links failed, with counts.
    failures: String,
}

/// A section of the page for each outcome that has such a fact.
///
/// # Errors
/// When it cannot be read.
pub fn section(outcomes: &[Outcome]) -> Result<String> {
    let mut out = String::new();
    for outcome in outcomes {
        let Some(fact) = outcome.facts.get(FACT) else {
            continue;
        };
        let damages: Vec<Damage> = serde_json::from_value(fact.clone())
            .with_context(|| format!("damages of {}", outcome.job))?;
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            out,
            "\n## netem in the path, kernel {}\n\n\
             A bank works over two cables while netem damages the frames of both, each way.\n\
             Its books were exact each time: nothing was lost, and nothing was executed twice.\n\
             A link fails by the evidence that it has, under the name in its log. Its open\n\
             exchanges continue over the other link, or over the same one when it is up again.\n\n\
             | netem | additions | failures of links, at both ends |\n\
             |---|---|---|",
            outcome.kernel
        );
        for damage in &damages {
            let failures = if damage.failures.is_empty() {
                "none"
            } else {
                &damage.failures
            };
            let _ = writeln!(
                out,
                "| {} | {} | {failures} |",
                damage.damage, damage.additions
            );
        }
    }
    Ok(out)
}
