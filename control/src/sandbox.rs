//! System calls that control needs once it serves, in addition to those of every program.

use covalent_sandbox::Calls;
pub use covalent_sandbox::SandboxError;

const CALLS: Calls = Calls {
    calls: &[
        // A pidfd of the daemon, which reports its end.
        libc::SYS_pidfd_open,
    ],
    sockets: &[
        // The daemon, the CLI, interfaces and their drivers, /metrics.
        libc::AF_UNIX,
        libc::AF_NETLINK,
        libc::AF_INET,
        libc::AF_INET6,
    ],
};

/// Closes the sandbox around the whole process, for good. Call it when control serves.
///
/// # Errors
/// [`SandboxError`] if the kernel does not take the filters.
pub fn install() -> Result<(), SandboxError> {
    covalent_sandbox::install(&CALLS)
}
