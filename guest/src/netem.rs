//! What netem did to frames, and what became of links and books: the facts of the job of that name as a table.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::outcome::Outcome;

/// The fact that holds it.
const FACT: &str = "damages";

/// One damage.
#[derive(Debug, Deserialize)]
struct Damage {
    /// As netem was told.
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
             A bank works over two cables while netem harms the frames of both, each way. Its books were exact each time: nothing was lost, nothing was done \
             twice. A link fails by\nwhat it sees, under a name that its log tells; what was open on it goes on over the other, or over the same when it is up again.\n\n\
             | netem | additions | failures of links, at both ends |\n|---|---|---|",
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
