//! The file as it is offered, and what is wrong with it.

use std::path::Path;

use covalent_api::{
    agreement::Objection,
    config::{Config, ConfigError, place},
};
use covalent_protocol::agreement::digest;

/// A configuration with its canonical text.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// What it says.
    pub(super) config: Config,
    /// [`Config::to_toml`].
    pub(super) text: String,
    /// Of the text.
    pub(super) digest: u64,
}

/// Where a draft comes from, for whoever speaks of it later.
pub(super) enum Source {
    /// A file that was read.
    File {
        /// Its path.
        file: String,
        /// What it said.
        text: String,
    },
    /// What is in force, with other steering rules.
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

    /// What a text of the daemon's says; `None` if it is none, which no daemon of this release sends.
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
    // Read twice: as the text of which lines are told, and with the bounds that every configuration has. If somebody writes
    // it in between, the lines are those of the second.
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

    /// What is in force now, for the log.
    pub(super) const fn in_force(&self) -> &'static str {
        match self {
            Self::File { .. } => "the file is in force",
            Self::Rules => {
                "other steering rules are in force, until the file is put in force again"
            }
        }
    }

    /// What to do when somebody else came first.
    pub(super) const fn again(&self) -> &'static str {
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
    fn an_objection_is_told_with_its_place() {
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
    fn what_is_offered_is_what_the_daemon_would_tell() {
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
