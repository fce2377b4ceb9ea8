//! Which processes `covalent up` started: one small file each in the runtime directory.

use std::{fs, io, path::PathBuf};

use anyhow::{Context, Result};
use covalent_config::Config;

use crate::identity::Identity;

/// The file that records which process runs `program` for this node.
#[derive(Debug, Clone)]
pub struct Record {
    path: PathBuf,
}

impl Record {
    /// The record of `program` for the node of `config`.
    pub fn of(config: &Config, program: &str) -> Self {
        Self {
            path: config.node.runtime_dir.join(format!("{program}.pid")),
        }
    }

    /// Notes that `identity` runs it now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, identity: Identity) -> Result<()> {
        fs::write(&self.path, format!("{identity}\n"))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Returns the recorded process, if it still runs. A record that is unreadable, or whose
    /// process is gone, counts as empty.
    pub fn running(&self) -> Option<Identity> {
        fs::read_to_string(&self.path)
            .ok()?
            .parse()
            .ok()
            .filter(|identity: &Identity| identity.is_alive())
    }

    /// Returns its path, if the file exists and its process does not run.
    pub fn stale(self) -> Option<PathBuf> {
        (self.path.exists() && self.running().is_none()).then_some(self.path)
    }

    /// Removes it, if it exists.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be removed.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_living_process_is_believed() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let record = Record {
            path: directory.path().join("covalentd.pid"),
        };
        assert_eq!(record.running(), None);
        let own = Identity::own().expect("procfs");
        record.write(own).expect("written");
        assert_eq!(record.running(), Some(own));
        assert_eq!(record.clone().stale(), None);
        for nonsense in [format!("{}-1", own.pid), "hello".to_owned(), String::new()] {
            fs::write(&record.path, nonsense).expect("written");
            assert_eq!(record.running(), None);
            assert_eq!(record.clone().stale().as_ref(), Some(&record.path));
        }
        record.remove().expect("removed");
        record.remove().expect("nothing to remove is no error");
    }
}
