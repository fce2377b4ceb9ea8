//! One `covalent up`, `down` or `configure` at a time for each node.

use std::path::Path;

use anyhow::{Context, Result, bail};
use covalent_api::config::Config;
use covalent_pipe::lock_file::LockFile;

/// The file in the runtime directory that is locked, and there, as long as a command is at work.
const NAME: &str = "node.lock";

/// Held while processes of the node are started or ended, or the machine is made ready for it: two at once would overwrite each other's records and logs. The kernel
/// takes it back however the holder ends. No stranger can hold it.
#[derive(Debug)]
pub struct NodeLock {
    _file: LockFile,
}

impl NodeLock {
    /// Takes the lock, in the node's runtime directory, which must exist.
    ///
    /// # Errors
    /// When somebody else has it, or the file cannot be made.
    pub fn take(config: &Config) -> Result<Self> {
        Self::take_at(&config.node.runtime_dir, &config.node.name)
    }

    fn take_at(directory: &Path, node: &str) -> Result<Self> {
        let path = directory.join(NAME);
        let taken = LockFile::try_take(&path);
        match taken.with_context(|| format!("cannot lock {}", path.display()))? {
            Some(file) => Ok(Self { _file: file }),
            None => bail!(
                "another `covalent up`, `down` or `configure` is at work on node {node}\n  cure: wait until it is done"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_and_the_lock_ends_with_its_holder() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let first = NodeLock::take_at(directory.path(), "a").expect("free");
        let error = NodeLock::take_at(directory.path(), "a")
            .expect_err("taken")
            .to_string();
        assert!(error.contains("node a"), "{error}");
        drop(first);
        NodeLock::take_at(directory.path(), "a").expect("free again");
    }

    #[test]
    fn who_locks_the_directory_holds_nobody_up() {
        let directory = tempfile::tempdir().expect("temporary directory");
        // Every user may.
        let opened = std::fs::File::open(directory.path()).expect("a directory");
        opened.try_lock().expect("nobody has it");
        NodeLock::take_at(directory.path(), "a").expect("free");
        let left = std::fs::read_dir(directory.path()).expect("a directory");
        assert_eq!(left.count(), 0, "nothing is left");
    }
}
