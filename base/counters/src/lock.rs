//! The lock by which readers see that the process that made a counters' file is running. The kernel
//! releases it however that process exits.
//!
//! It is a write lock of the open file. A reader, who cannot write, can neither take such a lock
//! nor delay its release.

use std::{fs::File, io};

use nix::{
    fcntl::{FcntlArg, fcntl},
    libc::{self, flock},
};

/// The lock of this kind on the whole file.
const fn whole(kind: i32) -> flock {
    flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Takes the lock for as long as `file` or a copy of its descriptor is open.
///
/// # Errors
/// The error of the system call; `WouldBlock` if another process has it.
pub(super) fn hold(file: &File) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&whole(libc::F_WRLCK)))?;
    Ok(())
}

/// Whether a process holds it.
///
/// # Errors
/// The error of the system call.
pub(super) fn is_held(file: &File) -> io::Result<bool> {
    let mut found = whole(libc::F_RDLCK);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}
