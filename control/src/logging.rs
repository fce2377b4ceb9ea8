//! Log lines on standard error: terse for people, JSON for machines.

use std::io::IsTerminal;

use covalent_api::arguments::LogFormat;
use tracing_subscriber::{EnvFilter, util::SubscriberInitExt};

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not one.
    #[error(
        "log level `{level}`: {problem}; expected error, warn, info, debug or trace, or directives such as `info,covalent_control=debug`"
    )]
    Level {
        /// What was given.
        level: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Somebody else logs already.
    #[error("logging was set up already")]
    Twice,
}

/// Starts logging for the whole process.
///
/// # Errors
/// [`LogError`].
pub fn start(format: LogFormat, level: &str) -> Result<(), LogError> {
    let filter = EnvFilter::builder()
        .parse(level)
        .map_err(|problem| LogError::Level {
            level: level.to_owned(),
            problem: problem.to_string(),
        })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => lines
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal())
            .finish()
            .try_init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .finish()
            .try_init(),
    };
    started.map_err(|_| LogError::Twice)
}
