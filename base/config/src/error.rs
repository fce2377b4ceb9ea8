//! Why a configuration was refused.

use std::{fmt, ops::Range};

/// Everything that is wrong with a configuration, in the order of the file. Nothing was changed.
///
/// Displays one problem per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or the name that the caller gave to the text.
    pub file: String,
    /// Line and column, both 1-based, the column in characters. `None` if the file could not be
    /// read at all.
    pub at: Option<(usize, usize)>,
    /// The key's path, for example `port[1].ring_slots`; empty if the text is not TOML.
    pub key: String,
    /// The found value, the expected values and, if one is similar, a suggestion.
    pub message: String,
}

impl ConfigError {
    /// At least one problem.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The file cannot be read.
    pub(super) fn unreadable(file: &str, message: String) -> Self {
        Self {
            problems: vec![Problem {
                file: file.to_owned(),
                at: None,
                key: String::new(),
                message,
            }],
        }
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": `{}`", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// How the message about a missing key begins.
pub(super) const MISSING: &str = "missing; ";

/// Problems of one text, while it is read.
pub(super) struct Problems<'t> {
    file: &'t str,
    text: &'t str,
    found: Vec<(usize, Problem)>,
    /// Paths of tables with an unknown key.
    unknown_in: Vec<String>,
}

/// A broken file gets so many messages and no more: the rest is usually their echo.
const PROBLEMS_MAX: usize = 32;

impl<'t> Problems<'t> {
    pub(super) const fn new(file: &'t str, text: &'t str) -> Self {
        Self {
            file,
            text,
            found: Vec::new(),
            unknown_in: Vec::new(),
        }
    }

    /// The text that is being read.
    pub(super) const fn text(&self) -> &'t str {
        self.text
    }

    /// Whether nothing is wrong so far.
    pub(super) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Notes that the key at `span` is wrong.
    pub(super) fn add(&mut self, key: &str, span: Range<usize>, message: impl Into<String>) {
        if self.found.len() < PROBLEMS_MAX {
            let at = Some(line_and_column(self.text, span.start));
            let problem = Problem {
                file: self.file.to_owned(),
                at,
                key: key.to_owned(),
                message: message.into(),
            };
            self.found.push((span.start, problem));
        }
    }

    /// Notes that the table `path` has an unknown key. It may be a misspelled one that is missing
    /// under its name, `meant`: the report of that is withdrawn.
    pub(super) fn note_unknown(&mut self, path: &str, meant: Option<&str>) {
        self.unknown_in.push(path.to_owned());
        self.found.retain(|(_, problem)| {
            meant != Some(problem.key.as_str()) || !problem.message.starts_with(MISSING)
        });
    }

    /// Whether one of the tables `paths` has an unknown key.
    pub(super) fn has_unknown_in(&self, paths: &[&str]) -> bool {
        self.unknown_in
            .iter()
            .any(|path| paths.contains(&path.as_str()))
    }

    /// The error, in the order of the file.
    pub(super) fn into_error(mut self) -> ConfigError {
        self.found.sort_by_key(|(start, _)| *start);
        ConfigError {
            problems: self.found.into_iter().map(|(_, problem)| problem).collect(),
        }
    }
}

/// Line and column of a byte of `text`, both from 1.
pub(super) fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_and_columns_in_characters() {
        assert_eq!(line_and_column("ab", 0), (1, 1));
        assert_eq!(line_and_column("a\nß=1", 4), (2, 2));
        assert_eq!(line_and_column("a\n", 2), (2, 1));
        assert_eq!(line_and_column("a", 99), (1, 2));
    }
}
