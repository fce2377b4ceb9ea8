//! Whether somebody has a file open for writing.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
};

use nix::errno::Errno;

/// Which signal tells of a lease that is asked back (`asm-generic/fcntl.h`; the same on all that Linux runs on but for MIPS, PA-RISC and SPARC).
const F_SETSIG: libc::c_int = 10;

/// Whether `file`, which is open for reading alone, is open for writing anywhere, also where no process is left that has it: what a killed
/// daemon gave to `io_uring` is let go by the kernel a little later than its locks. Where the file system or our rights
/// do not let us find out, nobody has.
///
/// # Errors
/// The descriptor cannot be used at all.
pub(super) fn is_open_for_writing(file: &File) -> io::Result<bool> {
    let fd = file.as_raw_fd();
    // Who opens the file for writing in this instant has the kernel send us a signal. This one is ignored unless somebody asks for it; the usual one
    // would end the process.
    command(fd, F_SETSIG, libc::SIGURG)?;
    match command(fd, libc::F_SETLEASE, libc::F_RDLCK) {
        // A lease for reading is given only where nobody writes (fcntl(2)).
        Err(Errno::EAGAIN) => Ok(true),
        Err(_) => Ok(false),
        Ok(()) => {
            command(fd, libc::F_SETLEASE, libc::F_UNLCK)?;
            Ok(false)
        }
    }
}

fn command(fd: RawFd, command: libc::c_int, argument: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the commands used here take an integer and touch no memory of ours; a bad descriptor is answered by EBADF.
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
        // The lease was given back: nobody has to wait for us.
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert!(is_open_for_writing(&other).unwrap());
        drop(writer);
        assert!(!is_open_for_writing(&other).unwrap());
    }
}
