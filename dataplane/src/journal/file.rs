//! The directory of a journal, its lock and its two files.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use nix::fcntl::{FallocateFlags, fallocate};

use super::{error::OpenError, lease::is_open_for_writing, sector::BLOCK_BYTES};
use crate::{lock::lock_when_free, state_dir::StateDir};

/// The files; a generation is in the one with its number's last bit.
pub(super) const FILES: [&str; 2] = ["journal.0", "journal.1"];
/// A file that is being made.
pub(super) const FRESH: &str = "journal.new";
/// Locked while a process has the journal open.
pub(super) const LOCK: &str = "lock";

/// How long the files of a killed daemon may stay open: the kernel tears down its `io_uring`
/// asynchronously.
pub(super) const LET_GO: Duration = Duration::from_secs(5);

/// Time between two looks whether they still are.
const RECHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Bytes of zeros written at a time.
const FILL_BYTES: usize = 1 << 20;

/// A journal's directory. This process holds it exclusively until the value is dropped.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

/// Which of the two files has this generation.
pub(super) const fn file_of(generation: u64) -> usize {
    (generation % 2) as usize
}

/// Path of one of the two files.
pub(super) fn file_path(directory: &Path, file: usize) -> PathBuf {
    directory.join(FILES[file % 2])
}

/// Waits until no process has `path` open for writing.
fn wait_for_writers(path: &Path, deadline: Instant) -> Result<(), OpenError> {
    match File::open(path) {
        Ok(file) => wait_for_writers_of(&file, path, deadline),
        // The later read reports any other problem with the file.
        Err(_) => Ok(()),
    }
}

/// Waits until no process has `file` open for writing. `file` is open for reading and is at `path`.
pub(super) fn wait_for_writers_of(
    file: &File,
    path: &Path,
    deadline: Instant,
) -> Result<(), OpenError> {
    while is_open_for_writing(file).map_err(failed("look for writers of", path))? {
        if Instant::now() >= deadline {
            return Err(OpenError::Written(path.to_owned()));
        }
        sleep(RECHECK_INTERVAL);
    }
    Ok(())
}

impl Directory {
    /// Creates the directory, accessible to its owner only, if it is missing, and locks it. Waits
    /// until no process has the files open for writing: a write of a killed daemon could otherwise
    /// land on our data.
    pub fn take(path: &Path) -> Result<Self, OpenError> {
        StateDir::make(path, 0o700).map_err(failed("create the journal's directory", path))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(failed("open the lock file", &lock_path))?;
        match lock_when_free(&lock, &lock_path) {
            Ok(()) => {
                let deadline = Instant::now() + LET_GO;
                for file in 0..FILES.len() {
                    wait_for_writers(&file_path(path, file), deadline)?;
                }
                Ok(Self {
                    path: path.to_owned(),
                    _lock: lock,
                })
            }
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(failed("lock", &lock_path)(source)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the fresh file: `bytes` zeros, a multiple of [`BLOCK_BYTES`]. It is written in full,
    /// not only allocated. A write into an unwritten extent also changes file system metadata, and
    /// each sync would wait for it.
    pub fn make(&self, bytes: u64) -> io::Result<File> {
        let path = self.path.join(FRESH);
        let filled = open_fresh(&path).and_then(|file| {
            fallocate(
                &file,
                FallocateFlags::empty(),
                0,
                i64::try_from(bytes).unwrap_or(i64::MAX),
            )?;
            fill(&file, bytes)?;
            Ok(file)
        });
        filled.inspect_err(|_| {
            // The partial allocation may be the space that the disk lacks.
            let _ = fs::remove_file(&path);
        })
    }
}

/// Uses direct I/O if the file system supports it. Writes are then not copied, and a sync waits
/// only for them.
fn open_fresh(path: &Path) -> io::Result<File> {
    let open = |flags| {
        OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(path)
    };
    match open(libc::O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(0),
        opened => opened,
    }
}

fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; FILL_BYTES + BLOCK_BYTES];
    let skew = zeros.as_ptr().align_offset(BLOCK_BYTES);
    let mut at = 0;
    while at < bytes {
        let count = (bytes - at).min(FILL_BYTES as u64);
        file.write_all_at(&zeros[skew..skew + count as usize], at)?;
        at += count;
    }
    Ok(())
}

pub(super) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io {
        doing,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use super::*;

    #[test]
    fn files_still_being_written_are_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let path = file_path(home.path(), 0);
        let writer = File::create(&path).unwrap();
        let refused = wait_for_writers(&path, Instant::now());
        assert!(matches!(refused, Err(OpenError::Written(_))), "{refused:?}");
        thread::scope(|scope| {
            scope.spawn(move || {
                sleep(10 * RECHECK_INTERVAL);
                drop(writer);
            });
            Directory::take(home.path()).unwrap();
        });
        wait_for_writers(&path, Instant::now()).unwrap();
    }
}
