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

/// A file that was read, for whoever speaks of its lines later.
pub(super) struct Source {
    file: String,
    text: String,
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
    let source = Source {
        file: path.display().to_string(),
        text,
    };
    Ok((draft, source))
}

impl Source {
    /// An objection, with the place of its key in this file.
    pub(super) fn problem(&self, objection: &Objection) -> String {
        let Objection { key, message } = objection;
        if key.is_empty() {
            return format!("{}: {message}", self.file);
        }
        let at = place(&self.text, key)
            .map_or_else(String::new, |(line, column)| format!(":{line}:{column}"));
        format!("{}{at}: `{key}`: {message}", self.file)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_objection_is_told_with_its_place() {
        let source = Source {
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
