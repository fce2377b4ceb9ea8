//! The identity of this node: a GUID drawn once and stored, and an incarnation drawn at each start.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
};

use covalent_api::guid::Guid;

use crate::{
    lock::lock_when_free,
    secret::{Secret, SecretError},
    state_dir::{FileError, Files, StateDir, System, failed},
};

/// File in the state directory that holds the GUID as text.
const GUID_FILE: &str = "guid";
/// File in the state directory that a running daemon holds locked.
const LOCK_FILE: &str = "lock";

/// The node's identity. This process holds it exclusively until the value is dropped.
#[derive(Debug)]
pub struct Identity {
    /// The kept identifier.
    pub guid: Guid,
    /// Random bits of this start. A peer that sees a different value knows that this node lost its
    /// latches.
    pub incarnation: u64,
    /// Secret random bits of this start. The first epochs of links derive from them.
    pub epoch_seed: u64,
    /// The secret of this node.
    pub secret: Secret,
    _lock: File,
}

/// Why the identity cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Another daemon runs on the same state directory.
    #[error(
        "state directory {directory} is in use by another daemon{}: two nodes must not share an \
         identity; give each node its own `node.state_dir`",
        of_process(*holder)
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process id of that daemon, if its lock file contains it.
        holder: Option<u32>,
    },
    /// The GUID file was written by something else.
    #[error("{path} does not hold a GUID ({problem}): remove the file to generate a new identity")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem with its text.
        problem: String,
    },
    /// The secret cannot be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Identity {
    /// Takes the identity stored in `state_dir`. Creates the directory if it is missing, and draws
    /// an identity at the first start.
    ///
    /// # Errors
    /// [`IdentityError`] names the file and the remedy.
    pub fn take(state_dir: &Path) -> Result<Self, IdentityError> {
        Self::take_with(System, state_dir)
    }

    fn take_with(files: impl Files, state_dir: &Path) -> Result<Self, IdentityError> {
        let directory = StateDir::make_with(files, state_dir, 0o755)
            .map_err(failed("create the state directory", state_dir))?;
        let lock = lock(state_dir)?;
        let path = state_dir.join(GUID_FILE);
        let guid = match fs::read_to_string(&path) {
            Ok(text) => text
                .trim()
                .parse()
                .map_err(
                    |error: covalent_api::guid::BadGuid| IdentityError::Damaged {
                        path: path.clone(),
                        problem: error.to_string(),
                    },
                )?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => draw_guid(&directory, &path)?,
            Err(source) => return Err(failed("read", &path)(source).into()),
        };
        Ok(Self {
            guid,
            incarnation: random_bits()?,
            epoch_seed: random_bits()?,
            secret: Secret::take(&directory, state_dir)?,
            _lock: lock,
        })
    }
}

fn lock(state_dir: &Path) -> Result<File, IdentityError> {
    let path = state_dir.join(LOCK_FILE);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed("open the lock file", &path))?;
    // A user that can open the file can lock it. Earlier versions allowed this to all users.
    file.set_permissions(fs::Permissions::from_mode(0o600))
        .map_err(failed("restrict the permissions of the lock file", &path))?;
    match lock_when_free(&file, &path) {
        Ok(()) => {
            // For people only: a full disk does not prevent the start.
            let _ = file
                .set_len(0)
                .and_then(|()| file.write_all_at(format!("{}\n", process::id()).as_bytes(), 0));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(IdentityError::InUse {
            directory: state_dir.to_owned(),
            holder: holder(&file),
        }),
        Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source).into()),
    }
}

/// The process id in a lock file, which its holder wrote.
fn holder(lock: &File) -> Option<u32> {
    let mut text = [0; 16];
    let len = lock.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..len)?)
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// The holder of something, for an error: empty if it is not known.
pub fn of_process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(", process {pid}"))
}

/// Draws a GUID and stores it. A crash leaves either no file or a complete one.
fn draw_guid(directory: &StateDir<impl Files>, path: &Path) -> Result<Guid, FileError> {
    let guid = loop {
        // The lanes use the addresses that follow, which differ in the last two digits.
        let drawn = Guid::new(random_bits()?);
        if let Some(guid) = drawn.and_then(|drawn| Guid::new(drawn.node_bits())) {
            break guid;
        }
    };
    directory
        .write(GUID_FILE, format!("{guid}\n").as_bytes(), 0o644)
        .map_err(failed("write", path))?;
    Ok(guid)
}

fn random_bits() -> Result<u64, FileError> {
    let path = Path::new("/dev/urandom");
    let mut bits = [0; 8];
    File::open(path)
        .and_then(|mut source| source.read_exact(&mut bits))
        .map_err(failed("read random bytes from", path))?;
    Ok(u64::from_ne_bytes(bits))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{cell::RefCell, collections::BTreeSet};

    use super::*;

    /// The system, and the files that got their names on disk.
    #[derive(Debug, Default)]
    struct Seen {
        synced: RefCell<BTreeSet<PathBuf>>,
        renamed: RefCell<BTreeSet<PathBuf>>,
        on_disk: RefCell<BTreeSet<PathBuf>>,
    }

    impl Files for &Seen {
        fn exists(&self, path: &Path) -> bool {
            System.exists(path)
        }

        fn make_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
            System.make_directory(path, mode)
        }

        fn write_new(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
            System.write_new(path, bytes, mode)
        }

        fn sync_file(&self, path: &Path, file: &File) -> io::Result<()> {
            self.synced.borrow_mut().insert(path.to_owned());
            System.sync_file(path, file)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            if self.synced.borrow_mut().remove(from) {
                self.renamed.borrow_mut().insert(to.to_owned());
            }
            System.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            System.remove(path)
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            let mut renamed = self.renamed.borrow_mut();
            self.on_disk.borrow_mut().append(&mut renamed);
            System.sync_directory(path)
        }
    }

    #[test]
    fn all_that_an_identity_keeps_is_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let seen = Seen::default();
        let _identity = Identity::take_with(&seen, dir.path()).unwrap();
        let files = fs::read_dir(dir.path()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        // Of the lock file only its lock counts.
        let kept: BTreeSet<PathBuf> = files.filter(|it| !it.ends_with(LOCK_FILE)).collect();
        let names = [GUID_FILE, "secret"].map(|name| dir.path().join(name));
        assert_eq!(kept, names.into());
        assert_eq!(seen.on_disk.into_inner(), kept);
    }

    #[test]
    fn a_guid_is_drawn_once_and_incarnations_differ() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("deep/state");
        let first = Identity::take(&state).unwrap();
        let (guid, incarnation) = (first.guid, first.incarnation);
        let error = Identity::take(&state).unwrap_err();
        assert!(matches!(error, IdentityError::InUse { .. }), "{error}");
        let holder = format!("another daemon, process {}:", process::id());
        assert!(error.to_string().contains(&holder), "{error}");
        drop(first);
        let second = Identity::take(&state).unwrap();
        assert_eq!(second.guid, guid);
        assert_ne!(second.incarnation, incarnation);
        assert_eq!(
            guid.bits(),
            guid.node_bits(),
            "room for the addresses of lanes"
        );
    }

    #[test]
    fn no_other_user_can_lock_the_state() {
        let dir = tempfile::tempdir().unwrap();
        // As earlier versions left it.
        let path = dir.path().join(LOCK_FILE);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let identity = Identity::take(dir.path()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(identity);
        fs::remove_file(&path).unwrap();
        let _identity = Identity::take(dir.path()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("guid"), "nonsense").unwrap();
        let error = Identity::take(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("guid") && error.contains("remove the file"),
            "{error}"
        );
        assert_eq!(
            fs::read_to_string(dir.path().join("guid")).unwrap(),
            "nonsense"
        );
    }
}
