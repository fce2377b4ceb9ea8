//! The programs that a guest runs, built on the host by cargo.

use std::{path::PathBuf, process::Command};

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::{command::output, job::Tests, place::Place};

/// Builds a test program and returns its path.
///
/// # Errors
/// The compiler's messages.
pub fn tests(place: &Place, tests: Tests) -> Result<PathBuf> {
    built(
        place,
        &["test", "--no-run", "--test"],
        tests.name,
        tests.feature,
    )
}

/// Builds the daemon with a feature that the workspace's default build omits, and returns its path.
///
/// # Errors
/// The compiler's messages.
pub fn daemon(place: &Place, feature: &str) -> Result<PathBuf> {
    built(place, &["build", "--bin"], "covalentd", Some(feature))
}

fn built(place: &Place, what: &[&str], name: &str, feature: Option<&str>) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let messages = output(
        Command::new(cargo)
            .args(what)
            .arg(name)
            // Build the whole workspace as `make test` does. Otherwise cargo builds its
            // dependencies a second time.
            .args(["--workspace", "--locked"])
            .args(["--message-format", "json-render-diagnostics"])
            .args(feature.map(|feature| format!("--features={feature}")))
            .current_dir(place.repository()),
    )?;
    executable(&messages, name).ok_or_else(|| anyhow!("cargo built no program `{name}`"))
}

/// Finds the executable of the target `name` in cargo's messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_that_of_the_target() {
        let messages = "not json\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"other\"},\"executable\":\"/a\"}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"ports\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"ports\"},\"executable\":\"/b\"}\n";
        assert_eq!(executable(messages, "ports"), Some("/b".into()));
        assert_eq!(executable(messages, "none"), None);
    }
}
