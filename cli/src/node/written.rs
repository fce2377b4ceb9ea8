//! `covalent up --name NAME --interfaces A,B`: writes the shortest possible configuration before
//! the start.

use std::{fs, io, path::Path};

use anyhow::{Context, Result, bail};
use covalent_config::{Config, DEFAULT_TOML};

/// Writes a configuration with only a name (`None`: the host's) and interfaces to `file`, unless
/// the file has this configuration already. Returns whether it wrote.
///
/// # Errors
/// Fails if the values are not valid for a node, or if the file exists with another configuration.
/// The installed example counts as no configuration.
pub fn write(file: &Path, name: Option<&str>, interfaces: &[String]) -> Result<bool> {
    let wanted = wanted(name, interfaces)?;
    let text = text(name, interfaces);
    match fs::read_to_string(file) {
        Ok(found) if found == DEFAULT_TOML => {}
        Ok(found) => {
            if Config::parse(&found, "").is_ok_and(|config| config == wanted) {
                return Ok(false);
            }
            bail!(
                "{0} exists and differs from --name and --interfaces\n  \
                 cure: leave them out and change the file, or write another one: --config FILE",
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
