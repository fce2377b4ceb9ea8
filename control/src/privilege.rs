//! Drops privileges that control does not need once it serves.

use std::{fs::File, path::Path};

use caps::{CapSet, Capability, CapsHashSet, errors::CapsError};
use tracing::info;

/// Setting interfaces up, also those that a reload brings.
const KEPT: Capability = Capability::CAP_NET_ADMIN;

/// To read a configuration in a directory that only its owner may enter, such as a home directory.
const OF_FILE: Capability = Capability::CAP_DAC_READ_SEARCH;

/// Capabilities could not be read or given up.
#[derive(Debug, thiserror::Error)]
#[error("cannot give up capabilities: {0}")]
pub struct PrivilegeError(#[from] CapsError);

/// Drops all capabilities that control does not need at run time or to read `file` again at a
/// reload. Applies to the calling thread and to threads that it starts later.
///
/// # Errors
/// [`PrivilegeError`] if the kernel refused.
pub fn drop_all_but_needed(file: &Path) -> Result<(), PrivilegeError> {
    let permitted = caps::read(None, CapSet::Permitted)?;
    let mut kept: CapsHashSet = permitted.iter().copied().filter(|it| *it == KEPT).collect();
    // A unit that runs as another user than root grants ambient capabilities. Every executed
    // program would inherit them.
    caps::clear(None, CapSet::Ambient)?;
    caps::set(None, CapSet::Inheritable, &CapsHashSet::new())?;
    if kept == permitted {
        return Ok(());
    }
    caps::set(None, CapSet::Effective, &kept)?;
    // As the reload will find it.
    if File::open(file).is_err() && permitted.contains(&OF_FILE) {
        kept.insert(OF_FILE);
        caps::set(None, CapSet::Effective, &kept)?;
    }
    caps::set(None, CapSet::Permitted, &kept)?;
    info!(
        ?kept,
        given_up = permitted.len() - kept.len(),
        "capabilities given up"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown},
        path::PathBuf,
        thread,
    };

    use super::*;

    /// The capabilities left to a thread that calls this. Capabilities are per thread, so this
    /// thread's end with it.
    fn left(file: PathBuf) -> CapsHashSet {
        let thread = thread::spawn(move || {
            drop_all_but_needed(&file).expect("given up");
            caps::read(None, CapSet::Permitted).expect("read")
        });
        thread.join().expect("it ends")
    }

    #[test]
    fn only_the_capability_to_set_interfaces_up_is_left() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let left = left(file.path().to_owned());
        assert!(left.iter().all(|it| *it == KEPT), "{left:?}");
    }

    #[test]
    fn a_private_file_can_be_read_again() {
        let has = |it| caps::has_cap(None, CapSet::Effective, it).expect("read");
        if !has(OF_FILE) || !has(Capability::CAP_CHOWN) {
            eprintln!("skipped: root is needed for a file of another user");
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let home = directory.path().join("home");
        fs::create_dir(&home).expect("made");
        let file = home.join("covalent.toml");
        fs::write(&file, "").expect("written");
        chown(&home, Some(1000), Some(1000)).expect("given away");
        fs::set_permissions(&home, Permissions::from_mode(0o700)).expect("set");
        assert!(left(file).contains(&OF_FILE));
    }
}
