//! `covalent up --name NAME --interfaces A,B`: writes the shortest possible configuration before
//! the start.

use std::{collections::BTreeSet, fs, io, path::Path};

use anyhow::{Context, Result, bail};
use covalent_config::{Config, DEFAULT_TOML, PortKind};

/// Writes a configuration with only a name (`None`: the host's) and interfaces to `file`, unless
/// the file has these already, with any other keys. Returns whether it wrote. Otherwise `check`
/// examines this configuration first. A file that has them may name other directories, so `check`
/// does not concern it.
///
/// # Errors
/// Fails if the values are not valid for a node, `check` fails, or the file exists with another
/// name or other interfaces. The installed example counts as no configuration.
pub fn write(
    file: &Path,
    name: Option<&str>,
    interfaces: &[String],
    check: impl FnOnce(&Config) -> Result<()>,
) -> Result<bool> {
    let text = text(name, interfaces);
    let wanted = Config::parse(&text, "--name and --interfaces")?;
    let found = Found::read(file, name, interfaces);
    if matches!(found, Ok(Found::Same)) {
        return Ok(false);
    }
    check(&wanted)?;
    if let Found::Other(difference) = found? {
        bail!(
            "{} exists, and {difference}\n  \
             cure: leave out --name and --interfaces and change the file, or write another one: \
             --config FILE",
            file.display()
        );
    }
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    // Whole or not at all.
    let fresh = file.with_extension("toml.new");
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, file))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(true)
}

/// The configuration that a file has already.
enum Found {
    /// None.
    Nothing,
    /// The wanted name and interfaces.
    Same,
    /// Another name or other interfaces.
    Other(String),
}

impl Found {
    fn read(file: &Path, name: Option<&str>, interfaces: &[String]) -> Result<Self> {
        match fs::read_to_string(file) {
            Ok(text) if text == DEFAULT_TOML => Ok(Self::Nothing),
            Ok(text) => {
                let config = Config::parse(&text, &file.display().to_string())?;
                let difference = difference(&config, name, interfaces);
                Ok(difference.map_or(Self::Same, Self::Other))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Nothing),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }
}

/// Describes the first key that differs, with both values.
fn difference(config: &Config, name: Option<&str>, interfaces: &[String]) -> Option<String> {
    if let Some(name) = name.filter(|name| *name != config.node.name) {
        return Some(format!(
            "its `node.name` is {:?}, but --name is {name:?}",
            config.node.name
        ));
    }
    let ports = config.port.iter();
    let held: BTreeSet<&str> = ports
        .filter_map(|port| match &port.kind {
            PortKind::AfXdp { interface, .. } => Some(interface.as_str()),
            _ => None,
        })
        .collect();
    let given: BTreeSet<&str> = interfaces.iter().map(String::as_str).collect();
    let list = |of: &BTreeSet<&str>| of.iter().copied().collect::<Vec<_>>().join(",");
    (held != given).then(|| {
        format!(
            "its interfaces are `{}`, but --interfaces is `{}`",
            list(&held),
            list(&given)
        )
    })
}

fn text(name: Option<&str>, interfaces: &[String]) -> String {
    // The parser rejects names that need escaping.
    let name = name.map_or_else(String::new, |name| format!("name = {name:?}\n"));
    format!(
        "# `covalent config print-default` explains every key that may stand \
         here.\n[node]\n{name}interfaces = {interfaces:?}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_never_over_foreign_text() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("etc/covalent.toml");
        let two = ["eth1", "eth2"].map(str::to_owned);
        assert!(write(&file, Some("a"), &two, |_| Ok(())).expect("written"));
        let config = Config::load(&file).expect("valid");
        assert_eq!(config.node.name, "a");
        let names: Vec<_> = config.port.iter().map(|port| port.name.clone()).collect();
        assert_eq!(names, two);
        assert!(!write(&file, Some("a"), &two, |_| Ok(())).expect("it succeeds"));

        let before = fs::read_to_string(&file).expect("it is there");
        let error = write(&file, Some("b"), &two, |_| Ok(())).expect_err("another name");
        assert!(error.to_string().contains("cure: "), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), before);

        assert!(
            error.to_string().contains(r#"is "a", but --name is "b""#),
            "{error}"
        );

        // Other keys are no difference.
        fs::write(&file, format!("{before}\n[dataplane]\nidle = \"poll\"\n")).expect("written");
        assert!(!write(&file, Some("a"), &two, |_| Ok(())).expect("it agrees"));
        assert!(!write(&file, None, &two, |_| Ok(())).expect("it agrees"));
        let error = write(&file, Some("a"), &two[..1], |_| Ok(())).expect_err("other interfaces");
        let wanted = "its interfaces are `eth1,eth2`, but --interfaces is `eth1`";
        assert!(error.to_string().contains(wanted), "{error}");

        fs::write(&file, DEFAULT_TOML).expect("written");
        assert!(write(&file, Some("a"), &two, |_| Ok(())).expect("the example may be replaced"));
        assert_eq!(fs::read_to_string(&file).expect("it is there"), before);
        let left = fs::read_dir(directory.path().join("etc")).expect("a directory");
        assert_eq!(left.count(), 1);
    }

    #[test]
    fn an_invalid_node_is_refused_before_anything_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("etc/covalent.toml");
        for (name, interface) in [
            ("a b", "eth1"),
            ("a\"\n", "eth1"),
            ("a", "eth 1"),
            ("a", ""),
        ] {
            assert!(write(&file, Some(name), &[interface.to_owned()], |_| Ok(())).is_err());
        }
        assert!(!file.parent().expect("a directory").exists());
    }

    #[test]
    fn only_a_file_that_is_to_change_is_checked_and_a_failed_check_writes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("covalent.toml");
        let one = ["eth1".to_owned()];
        let refuse = |wanted: &Config| -> Result<()> { bail!("no {}", wanted.node.name) };
        let error = write(&file, Some("a"), &one, refuse).expect_err("it is checked");
        assert_eq!(error.to_string(), "no a");
        assert!(!file.exists());
        assert!(write(&file, Some("a"), &one, |_| Ok(())).expect("written"));
        assert!(!write(&file, Some("a"), &one, refuse).expect("it agrees"));
        // Another node at the place is reported before the file.
        for text in [None, Some("[nod"), Some(DEFAULT_TOML)] {
            if let Some(text) = text {
                fs::write(&file, text).expect("written");
            }
            let error = write(&file, Some("b"), &one, refuse).expect_err("it is checked");
            assert_eq!(error.to_string(), "no b");
        }
    }
}
