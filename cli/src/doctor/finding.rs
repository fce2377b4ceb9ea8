//! A finding of the doctor about one object.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Fine,
    /// It works, but not as well as it could.
    Warning,
    /// The node will not start, or not as configured.
    Failed,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fine => "ok",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
        })
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The examined object, for example `port p0: queues`.
    pub check: String,
    /// How bad it is.
    pub level: Level,
    /// The finding, and why it matters if it is not fine.
    pub found: String,
    /// The remedy; empty if none is needed.
    pub cure: String,
}

impl Finding {
    /// All is well.
    pub fn fine(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            level: Level::Fine,
            found: found.into(),
            cure: String::new(),
        }
    }

    /// It works, but could be better.
    pub fn warning(
        check: impl Into<String>,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self {
            check: check.into(),
            level: Level::Warning,
            found: found.into(),
            cure: cure.into(),
        }
    }

    /// Returns a failed finding: the node does not start, does not work as configured, or loses
    /// frames.
    pub fn failed(
        check: impl Into<String>,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self {
            check: check.into(),
            level: Level::Failed,
            found: found.into(),
            cure: cure.into(),
        }
    }
}
