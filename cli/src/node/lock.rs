//! One `covalent up`, `down` or `configure` at a time for each node.

use std::{fs::File, path::Path};

use anyhow::{Context, Result, anyhow, bail};
use covalent_api::config::Config;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

/// Held while processes of the node are started or ended, or the machine is made ready for it: two at once would overwrite each other's records and logs. The kernel
/// takes it back however the holder ends.
#[derive(Debug)]
pub struct NodeLock {
    _directory: Flock<File>,
}

impl NodeLock {
    /// Takes the lock: the node's runtime directory, which must exist.
    ///
    /// # Errors
    /// When somebody else has it, or the directory cannot be opened.
    pub fn take(config: &Config) -> Result<Self> {
        Self::take_at(&config.node.runtime_dir, &config.node.name)
    }

    fn take_at(directory: &Path, node: &str) -> Result<Self> {
        // The directory itself: so no file of ours is left in it.
        let file = File::open(directory)
            .with_context(|| format!("cannot open {}", directory.display()))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(directory) => Ok(Self {
                _directory: directory,
            }),
            Err((_, Errno::EWOULDBLOCK)) => bail!(
                "another `covalent up`, `down` or `configure` is at work on node {node}\n  cure: wait until it is done"
            ),
            Err((_, errno)) => {
                Err(anyhow!(errno).context(format!("cannot lock {}", directory.display())))
            }
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
}
