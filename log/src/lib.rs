//! Log lines of a node's two processes: terse for people, JSON for machines, fields for journald; and repeated ones counted.
//!
//! Both processes call [`start`] once and write with `tracing` from then on. Lanes say so first ([`this_is_a_lane`]), and what is said on one is written by another thread.
//! What comes again within some seconds is counted, and its count is written then: a process without that thread calls [`write_due`].

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

use covalent_api::arguments::LogFormat;
use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt, util::SubscriberInitExt};

pub use self::{
    counted::{Counted, write_due},
    event::tell,
    journald::{Journald, SOCKET as JOURNALD_SOCKET},
    lanes::{Lanes, Waiting, Writing, this_is_a_lane},
    repeats::WINDOW,
};

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
    /// Journald was asked for, and does not listen.
    #[error(
        "journald does not listen at {JOURNALD_SOCKET}: {problem}; choose another log format, or none"
    )]
    Journald {
        /// What the system said.
        problem: io::Error,
    },
    /// Somebody else logs already.
    #[error("logging was set up already")]
    Twice,
}

/// Starts logging for the whole process, of what `level` names and worse. A process that has lanes gives what takes their lines.
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
    // The last is asked first: what a lane says gets no further than to who takes it.
    let registry = Registry::default().with(filter).with(counted).with(lanes);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let started = match chosen(format)? {
        Chosen::Journald(journald) => registry.with(journald).try_init(),
        Chosen::Text => registry
            .with(lines.with_target(false).with_ansi(is_coloured(
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

/// Whether lines for people have colours: on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
fn is_coloured(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_user_does_not_refuse_them() {
        assert!(is_coloured(true, None));
        assert!(is_coloured(true, Some(OsStr::new(""))));
        assert!(!is_coloured(true, Some(OsStr::new("1"))));
        assert!(!is_coloured(false, None));
    }
}
