//! Unix socket options that no library provides: `SO_PASSRIGHTS` (Linux 6.16) and `SO_PEERGROUPS`
//! (Linux 4.13).

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use nix::libc;

/// The option's number in `asm-generic/socket.h`, which x86-64, AArch64 and RISC-V use.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Number of groups for which the first attempt has space.
const GROUPS_USUAL: usize = 64;

/// Requests the kernel to refuse descriptors sent to `socket`. For a listening socket this applies
/// to connections accepted from now on. Returns `false` if the kernel does not support it.
///
/// # Errors
/// The error of the system call, unless the kernel does not know the option.
pub fn refuse_descriptors(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let off: libc::c_int = 0;
    // SAFETY: the kernel reads `off` and no more than its size. `off` exists throughout the call.
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

/// Returns the supplementary groups of the process at the other end when it connected.
///
/// # Errors
/// The error of the system call.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<libc::gid_t>> {
    let mut groups: Vec<libc::gid_t> = vec![0; GROUPS_USUAL];
    loop {
        let room = size_of_val(groups.as_slice());
        let mut bytes = room as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes to `groups`, which has as many, and the
        // number of bytes to `bytes`. Both exist throughout the call. Any bit pattern is a `gid_t`.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // The kernel returns the required size. It never changes, so the second attempt succeeds.
        if error.raw_os_error() != Some(libc::ERANGE) || bytes as usize <= room {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}
