//! `SO_PASSRIGHTS`: a socket that takes no descriptors (Linux 6.16).

use std::{io, os::fd::AsRawFd, os::fd::BorrowedFd};

use nix::libc;

/// The option's number in `asm-generic/socket.h`, which x86-64, AArch64 and RISC-V use.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Has the kernel refuse descriptors that others send to `socket`, and to those that a listening one accepts from now on.
/// `false`: this kernel cannot.
///
/// # Errors
/// What the system said, other than that it does not know the option.
pub(crate) fn refuse(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let off: libc::c_int = 0;
    // SAFETY: the kernel reads `off`, which lives through the call, and no more than its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            size_of_val(&off) as libc::socklen_t,
        )
    };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOPROTOOPT) {
        Ok(false)
    } else {
        Err(error)
    }
}
