//! Logging of a node's two processes: terse text for people, JSON for machines, fields for
//! journald. Repeated lines are counted.
//!
//! Both processes call [`start`] once and write with `tracing` from then on. A lane first calls
//! [`mark_thread_as_lane`]; another thread writes its lines. Lines that repeat within some seconds
//! are counted, and the count is written afterwards. A process without that thread calls
//! [`write_due`].

mod counted;
mod event;
mod journald;
mod lanes;
mod repeats;

use std::{
    env,
    ffi::OsStr,
    io::{self, IsTerminal},
};

use covalent_config::arguments::LogFormat;
use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt, util::SubscriberInitExt};

pub use self::{
    counted::{Counted, write_due},
    event::log_event,
    journald::{Journald, SOCKET as JOURNALD_SOCKET},
    lanes::{Lanes, Waiting, Writing, mark_thread_as_lane},
    repeats::WINDOW,
};

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not one.
    #[error(
        "log level `{level}`: {problem}; expected error, warn, info, debug or trace, or directives \
         such as `info,covalent_control=debug`"
    )]
    Level {
        /// The given value.
        level: String,
        /// The problem with it.
        problem: String,
    },
    /// The journald format was requested, and journald does not listen.
    #[error(
        "journald does not listen at {JOURNALD_SOCKET}: {problem}; choose another log format, or \
         none"
    )]
    Journald {
        /// The error of the operating system.
        problem: io::Error,
    },
    /// Logging was set up before.
    #[error("logging was set up already")]
    Twice,
}

/// Starts logging for the whole process, of the severities that `level` selects and worse. A
/// process with lanes passes the layer that takes their lines.
///
/// # Errors
/// [`LogError`].
pub fn start(format: LogFormat, level: &str, lanes: Option<Lanes>) -> Result<(), LogError> {
    let filter = EnvFilter::builder()
        .parse(level)
        .map_err(|problem| LogError::Level {
            level: level.to_owned(),
            problem: problem.to_string(),
        })?;
    let counted = lanes.as_ref().map_or_else(Counted::alone, Counted::before);
    // The last layer is called first: a line of a lane goes no further than the layer that takes
    // it.
    let registry = Registry::default().with(filter).with(counted).with(lanes);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let started = match chosen(format)? {
        Chosen::Journald(journald) => registry.with(journald).try_init(),
        Chosen::Text => registry
            .with(lines.with_target(false).with_ansi(is_colored(
                io::stderr().is_terminal(),
                env::var_os("NO_COLOR").as_deref(),
            )))
            .try_init(),
        Chosen::Json => registry
            .with(
                lines
                    .json()
                    .flatten_event(true)
                    .with_current_span(false)
                    .with_thread_names(true),
            )
            .try_init(),
    };
    started.map_err(|_| LogError::Twice)
}

enum Chosen {
    Journald(Journald),
    Text,
    Json,
}

fn chosen(format: LogFormat) -> Result<Chosen, LogError> {
    let journald = || Journald::connect(JOURNALD_SOCKET.as_ref());
    match format {
        LogFormat::Text => Ok(Chosen::Text),
        LogFormat::Json => Ok(Chosen::Json),
        LogFormat::Journald => journald()
            .map(Chosen::Journald)
            .map_err(|problem| LogError::Journald { problem }),
        LogFormat::Auto if journald::has_standard_error() => {
            // It takes lines of standard error too.
            Ok(journald().map_or(Chosen::Text, Chosen::Journald))
        }
        LogFormat::Auto => Ok(Chosen::Text),
    }
}

/// Whether human-readable lines have colors: on a terminal, unless `NO_COLOR` is set
/// (<https://no-color.org>).
fn is_colored(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_colored_on_terminals_unless_no_color_is_set() {
        assert!(is_colored(true, None));
        assert!(is_colored(true, Some(OsStr::new(""))));
        assert!(!is_colored(true, Some(OsStr::new("1"))));
        assert!(!is_colored(false, None));
    }
}
