//! The file as an offer, and its problems.

use std::path::Path;

use covalent_api::agreement::Objection;
use covalent_config::{Config, ConfigError, place};
use covalent_protocol::agreement::digest;

/// A configuration with its canonical text.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The parsed text.
    pub(super) config: Config,
    /// [`Config::to_toml`].
    pub(super) text: String,
    /// Of the text.
    pub(super) digest: u64,
}

/// Origin of a draft, for later messages about it.
pub(super) enum Source {
    /// A file that was read.
    File {
        /// Its path.
        file: String,
        /// Its contents.
        text: String,
    },
    /// The configuration in force, with other steering rules.
    Rules,
}

impl Draft {
    /// # Errors
    /// A path in it is not UTF-8.
    pub(super) fn new(config: Config) -> Result<Self, ConfigError> {
        let text = config.to_toml()?;
        Ok(Self {
            digest: digest(text.as_bytes()),
            config,
            text,
        })
    }

    /// Parses a text from the daemon. `None` if it is invalid, which no daemon of this release
    /// sends.
    pub(super) fn agreed(text: String) -> Option<Self> {
        let config = Config::parse(&text, "covalentd").ok()?;
        Some(Self {
            digest: digest(text.as_bytes()),
            config,
            text,
        })
    }
}

/// Reads the file.
///
/// # Errors
/// Each problem with file, line, column and key.
pub(super) fn read(path: &Path) -> Result<(Draft, Source), Vec<String>> {
    let each = |error: ConfigError| {
        error
            .problems()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    // The file is read twice: as a bounded configuration, and as text for line numbers. After a
    // concurrent write the line numbers are those of the second read.
    let config = Config::load(path).map_err(each)?;
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let draft = Draft::new(config).map_err(each)?;
    let source = Source::File {
        file: path.display().to_string(),
        text,
    };
    Ok((draft, source))
}

impl Source {
    /// An objection, with the place of its key in the file.
    pub(super) fn problem(&self, objection: &Objection) -> String {
        let Objection { key, message } = objection;
        match self {
            Self::File { file, .. } if key.is_empty() => format!("{file}: {message}"),
            Self::File { file, text } => {
                let at = place(text, key)
                    .map_or_else(String::new, |(line, column)| format!(":{line}:{column}"));
                format!("{file}{at}: `{key}`: {message}")
            }
            Self::Rules if key.is_empty() => message.clone(),
            Self::Rules => format!("`{key}`: {message}"),
        }
    }

    /// Log message after the draft is in force.
    pub(super) const fn in_force(&self) -> &'static str {
        match self {
            Self::File { .. } => "the file is in force",
            Self::Rules => {
                "other steering rules are in force, until the file is put in force again"
            }
        }
    }

    /// Advice to the user if another client was first.
    pub(super) const fn retry_advice(&self) -> &'static str {
        match self {
            Self::File { .. } => "reload again",
            Self::Rules => "try again",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_objection_is_reported_with_its_place() {
        let source = Source::File {
            file: "/x.toml".to_owned(),
            text: "[link]\nslots = 8\n".to_owned(),
        };
        let problem = |key: &str| {
            source.problem(&Objection {
                key: key.to_owned(),
                message: "no".to_owned(),
            })
        };
        assert_eq!(problem("link.slots"), "/x.toml:2:9: `link.slots`: no");
        assert_eq!(problem("node.group"), "/x.toml: `node.group`: no");
        assert_eq!(problem(""), "/x.toml: no");
    }

    #[test]
    fn the_proposed_text_is_the_one_that_the_daemon_would_report() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.toml");
        let text = "# mine\n[[port]]\nkind = \"pcap\"\nname = \"p\"\n[node]\nname = \"a\"\n";
        std::fs::write(&path, text).unwrap();
        let (draft, _) = read(&path).unwrap();
        let agreed = Draft::agreed(draft.text.clone()).unwrap();
        assert_eq!(
            (agreed.digest, &agreed.config),
            (draft.digest, &draft.config)
        );
        std::fs::write(&path, "[node]\nnaem = 3\n").unwrap();
        let problems = read(&path).err().unwrap();
        let is_it =
            |problem: &&String| problem.contains("node.toml:2:") && problem.contains("`node.naem`");
        assert_eq!(problems.iter().filter(is_it).count(), 1, "{problems:?}");
    }
}
