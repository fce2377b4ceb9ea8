//! Checks whether a process has a file open for writing.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
};

use nix::errno::Errno;

/// Selects the signal for a lease break (`asm-generic/fcntl.h`). The value is the same on all Linux
/// architectures except MIPS, PA-RISC and SPARC.
const F_SETSIG: libc::c_int = 10;

/// Whether `file`, which is open for reading only, is open for writing anywhere. This includes
/// files without a process: the kernel releases the `io_uring` files of a killed daemon a little
/// later than its locks. Returns `false` if the file system or missing permissions prevent the
/// check.
///
/// # Errors
/// The descriptor is unusable.
pub(super) fn is_open_for_writing(file: &File) -> io::Result<bool> {
    let fd = file.as_raw_fd();
    // A concurrent open for writing makes the kernel send a signal. SIGURG is ignored by default;
    // the usual signal would end the process.
    command(fd, F_SETSIG, libc::SIGURG)?;
    match command(fd, libc::F_SETLEASE, libc::F_RDLCK) {
        // The kernel grants a read lease only if the file has no writer (fcntl(2)).
        Err(Errno::EAGAIN) => Ok(true),
        Err(_) => Ok(false),
        Ok(()) => {
            command(fd, libc::F_SETLEASE, libc::F_UNLCK)?;
            Ok(false)
        }
    }
}

fn command(fd: RawFd, command: libc::c_int, argument: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the commands used here take an integer and touch no memory of this process. A bad
    // descriptor returns EBADF.
    Errno::result(unsafe { libc::fcntl(fd, command, argument) }).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_writer_is_seen_and_a_reader_is_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (writer, path) = file.into_parts();
        let reader = File::open(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert!(is_open_for_writing(&reader).unwrap());
        drop(writer);
        assert!(!is_open_for_writing(&reader).unwrap());
        // The lease was released: no opener has to wait.
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert!(is_open_for_writing(&other).unwrap());
        drop(writer);
        assert!(!is_open_for_writing(&other).unwrap());
    }
}
