//! A lock that strangers cannot hold.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, open, statat, unlink},
    io::Errno,
};

/// Others may remove the file between two calls: tried again so often.
const ATTEMPTS: u32 = 100;

/// A locked file of mode 0600 that exists as long as this value. The kernel releases the lock
/// however its holder exits.
///
/// No other user can open the file, so no untrusted user can hold the lock. A directory would not
/// serve, because every user can open and lock it.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    // Held for the lock on it.
    _fd: OwnedFd,
}

impl LockFile {
    /// Makes and locks the file at `path`. Returns `None` if another process holds the lock.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS {
            let fd = open(
                path,
                OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::RUSR | Mode::WUSR,
            )?;
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                // The previous holder may have removed the file between the two calls. Then this
                // lock is on an unlinked file.
                Ok(()) if is_at(&fd, path)? => {
                    return Ok(Some(Self {
                        path: path.to_owned(),
                        _fd: fd,
                    }));
                }
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(None)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // The next holder makes the file again. A leftover file is harmless.
        let _ = unlink(&self.path);
    }
}

/// Whether the file of `fd` lies at `path`.
fn is_at(fd: &OwnedFd, path: &Path) -> io::Result<bool> {
    let ours = fstat(fd)?;
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_process_holds_it_and_no_other_can_open_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = LockFile::try_take(&path).unwrap().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(LockFile::try_take(&path).unwrap().is_none());
        drop(held);
        assert!(!path.exists(), "nothing is left");
        assert!(LockFile::try_take(&path).unwrap().is_some());
    }
}
