//! One `covalent up`, `down` or `configure` at a time for each node.

use std::{
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};
use covalent_config::Config;
use covalent_ipc::lock_file::LockFile;

/// The file in the runtime directory that is locked, and there, as long as a command is at work.
const NAME: &str = "node.lock";

/// Longest time until the kernel releases the lock of a killed command. A child that the command
/// was starting shares its descriptors until it executes or exits too.
const LET_GO: Duration = Duration::from_secs(2);

/// Time between two attempts.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Lock for starting or stopping a node's processes and for preparing the machine. Two commands at
/// once would overwrite each other's records and logs. The kernel releases the lock however the
/// holder exits. An untrusted local user cannot hold it.
#[derive(Debug)]
pub struct NodeLock {
    _file: LockFile,
}

impl NodeLock {
    /// Takes the lock, in the node's runtime directory, which must exist.
    ///
    /// # Errors
    /// When another command keeps it, or the file cannot be made.
    pub fn take(config: &Config) -> Result<Self> {
        Self::take_at(&config.node.runtime_dir, &config.node.name)
    }

    fn take_at(directory: &Path, node: &str) -> Result<Self> {
        let path = directory.join(NAME);
        let deadline = Instant::now() + LET_GO;
        loop {
            let taken = LockFile::try_take(&path);
            if let Some(file) = taken.map_err(|error| cannot_lock(&path, &error))? {
                return Ok(Self { _file: file });
            }
            if Instant::now() >= deadline {
                bail!(
                    "another `covalent up`, `down` or `configure` is at work on node \
                     {node}\n  cure: wait until it is done"
                );
            }
            thread::sleep(RECHECK_INTERVAL);
        }
    }
}

fn cannot_lock(path: &Path, error: &io::Error) -> anyhow::Error {
    let cure = match error.kind() {
        io::ErrorKind::PermissionDenied => "\n  cure: run as root",
        _ => "",
    };
    anyhow!("cannot lock {}: {error}{cure}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_access_reads_to_run_as_root() {
        let has_cure = |error: io::Error| {
            let text = cannot_lock(Path::new("/run/covalent/node.lock"), &error).to_string();
            assert!(
                text.starts_with("cannot lock /run/covalent/node.lock: "),
                "{text}"
            );
            text.ends_with("cure: run as root")
        };
        assert!(has_cure(io::ErrorKind::PermissionDenied.into()));
        assert!(!has_cure(io::ErrorKind::StorageFull.into()));
    }

    #[test]
    fn a_second_holder_is_refused_and_the_lock_ends_with_its_holder() {
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
    fn a_lock_that_is_released_a_moment_later_is_waited_for() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let killed = NodeLock::take_at(directory.path(), "a").expect("free");
        let ending = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(killed);
        });
        NodeLock::take_at(directory.path(), "a").expect("it waits");
        ending.join().expect("no panic");
    }

    #[test]
    fn a_lock_on_the_directory_delays_no_one() {
        let directory = tempfile::tempdir().expect("temporary directory");
        // Every user may.
        let opened = std::fs::File::open(directory.path()).expect("a directory");
        opened.try_lock().expect("it is not locked");
        NodeLock::take_at(directory.path(), "a").expect("free");
        let left = std::fs::read_dir(directory.path()).expect("a directory");
        assert_eq!(left.count(), 0, "nothing is left");
    }
}
