//! The private directory of one demonstration, and the removal of directories whose demonstration
//! is gone.
//!
//! All files of a demonstration are in one directory. Its name identifies the owner by process id
//! and start time, so that a reused process id is not mistaken for a running owner.

use std::{
    env, fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;

use crate::identity::Identity;

/// How the directories' names begin.
const PREFIX: &str = "covalent-demo-";

/// Longest path of a Unix socket, in bytes, without the closing zero (`sockaddr_un`).
const SOCKET_PATH_MAX: usize = 107;

/// Longest socket path below the directory, in bytes: that of a daemon of `covalent-bench`, in its
/// own temporary directory. Those of the nodes, as `/a/run/covalentd.sock`, are shorter.
const SOCKET_BELOW_MAX: usize = "/.tmpXXXXXX/run/covalentd.sock".len();

/// A directory that is removed, with all that is in it, when this is dropped.
#[derive(Debug)]
pub struct Workplace {
    path: PathBuf,
}

impl Workplace {
    /// Makes the directory of this process below the directory for temporary files.
    ///
    /// # Errors
    /// When it exists already or cannot be made, or when its name is too long for sockets.
    pub fn create() -> Result<Self> {
        Self::create_below(&env::temp_dir())
    }

    fn create_below(base: &Path) -> Result<Self> {
        let path = base.join(format!("{PREFIX}{}", Identity::own()?));
        if path.as_os_str().len() + SOCKET_BELOW_MAX > SOCKET_PATH_MAX {
            bail!(
                "{} is too long for the path of a Unix socket (at most {SOCKET_PATH_MAX} \
                 bytes)\n  cure: TMPDIR=/tmp covalent demo",
                path.display()
            );
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // There is no caller to report to. The next demonstration sweeps the leftovers.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of this user's demonstrations whose process is gone. Returns the removed
/// ones.
///
/// # Errors
/// Fails if such a directory cannot be removed.
pub fn sweep() -> Result<Vec<PathBuf>> {
    sweep_below(&env::temp_dir())
}

fn sweep_below(base: &Path) -> Result<Vec<PathBuf>> {
    let mut swept = Vec::new();
    let entries = fs::read_dir(base).with_context(|| format!("cannot list {}", base.display()))?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let Some(owner) = owner(&path) else { continue };
        if owner.is_alive() || !is_own_directory(&path) {
            continue;
        }
        match fs::remove_dir_all(&path) {
            Ok(()) => swept.push(path),
            // Another demonstration swept it at the same moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
        }
    }
    Ok(swept)
}

/// Returns the process that owns a directory, if its name is that of a demonstration.
fn owner(path: &Path) -> Option<Identity> {
    path.file_name()?
        .to_str()?
        .strip_prefix(PREFIX)?
        .parse()
        .ok()
}

/// Directories for temporary files are shared: only a true directory of this very user is touched.
fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_dead_owners_alone_are_swept() {
        let base = tempfile::tempdir().expect("temporary directory");
        let own = Workplace::create_below(base.path()).expect("made");
        // The same process id with another start time: the number was re-used.
        let reused = base.path().join(format!(
            "{PREFIX}{}-1",
            Identity::own().expect("procfs").pid
        ));
        let gone = base.path().join(format!("{PREFIX}{}-5", i32::MAX));
        let foreign = base.path().join(format!("{PREFIX}notes"));
        for directory in [&reused, &gone, &foreign] {
            fs::create_dir(directory).expect("made");
            fs::write(directory.join("covalentd.sock"), "").expect("written");
        }
        let link = base.path().join(format!("{PREFIX}{}-6", i32::MAX));
        std::os::unix::fs::symlink(&foreign, &link).expect("linked");

        let mut swept = sweep_below(base.path()).expect("swept");
        swept.sort();
        let mut expected = vec![reused, gone];
        expected.sort();
        assert_eq!(swept, expected);
        assert!(
            own.path().exists() && foreign.join("covalentd.sock").exists() && link.is_symlink()
        );

        let path = own.path().to_owned();
        drop(own);
        assert!(!path.exists());
    }

    #[test]
    fn a_base_too_long_for_sockets_is_refused_with_the_cure() {
        let base = PathBuf::from(format!("/tmp/{}", "x".repeat(80)));
        let error = Workplace::create_below(&base)
            .expect_err("too long")
            .to_string();
        assert!(error.contains("TMPDIR=/tmp"), "{error}");
    }
}
