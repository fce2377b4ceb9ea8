//! `covalent up --name NAME --interfaces A,B`: writes the shortest possible configuration before
//! the start.

use std::{collections::BTreeSet, fs, io, path::Path};

use anyhow::{Context, Result, bail};
use covalent_config::{Config, DEFAULT_TOML, PortKind};

/// Writes a configuration with only a name (`None`: the host's) and interfaces to `file`, unless
/// the file has these already, with any other keys. Returns whether it wrote.
///
/// # Errors
/// Fails if the values are not valid for a node, or if the file exists with another name or other
/// interfaces.
/// The installed example counts as no configuration.
pub fn write(file: &Path, name: Option<&str>, interfaces: &[String]) -> Result<bool> {
    wanted(name, interfaces)?;
    let text = text(name, interfaces);
    match fs::read_to_string(file) {
        Ok(found) if found == DEFAULT_TOML => {}
        Ok(found) => {
            let config = Config::parse(&found, &file.display().to_string())?;
            let Some(difference) = difference(&config, name, interfaces) else {
                return Ok(false);
            };
            bail!(
                "{} exists, and {difference}\n  \
                 cure: leave out --name and --interfaces and change the file, or write another \
                 one: --config FILE",
                file.display()
            );
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", file.display()));
        }
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

/// Returns whether `file` has this name, if one is given, and these interfaces already.
pub fn agrees(file: &Path, name: Option<&str>, interfaces: &[String]) -> bool {
    let text = fs::read_to_string(file).ok();
    text.filter(|text| text != DEFAULT_TOML)
        .and_then(|text| Config::parse(&text, "").ok())
        .is_some_and(|config| difference(&config, name, interfaces).is_none())
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

/// Returns the configuration that [`write()`] writes.
///
/// # Errors
/// Fails if the values are not valid for a node.
pub fn wanted(name: Option<&str>, interfaces: &[String]) -> Result<Config> {
    Ok(Config::parse(
        &text(name, interfaces),
        "--name and --interfaces",
    )?)
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
        assert!(write(&file, Some("a"), &two).expect("written"));
        let config = Config::load(&file).expect("valid");
        assert_eq!(config.node.name, "a");
        let names: Vec<_> = config.port.iter().map(|port| port.name.clone()).collect();
        assert_eq!(names, two);
        assert!(!write(&file, Some("a"), &two).expect("it succeeds"));

        let before = fs::read_to_string(&file).expect("it is there");
        let error = write(&file, Some("b"), &two).expect_err("another name");
        assert!(error.to_string().contains("cure: "), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), before);

        assert!(
            error.to_string().contains(r#"is "a", but --name is "b""#),
            "{error}"
        );

        // Other keys are no difference.
        fs::write(&file, format!("{before}\n[dataplane]\nidle = \"poll\"\n")).expect("written");
        assert!(!write(&file, Some("a"), &two).expect("it agrees"));
        assert!(!write(&file, None, &two).expect("it agrees"));
        let error = write(&file, Some("a"), &two[..1]).expect_err("other interfaces");
        let wanted = "its interfaces are `eth1,eth2`, but --interfaces is `eth1`";
        assert!(error.to_string().contains(wanted), "{error}");

        fs::write(&file, DEFAULT_TOML).expect("written");
        assert!(write(&file, Some("a"), &two).expect("the example may be replaced"));
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
            assert!(write(&file, Some(name), &[interface.to_owned()]).is_err());
        }
        assert!(!file.parent().expect("a directory").exists());
    }
}
