//! System calls that the daemon makes once its ports are open, besides those of every program.

use covalent_sandbox::Calls;
pub use covalent_sandbox::SandboxError;

/// Calls for normal operation, and for a reload or a healing port, which open ports again.
const CALLS: Calls = Calls {
    calls: &[
        // Steering rules, and the programs of ports that are opened.
        libc::SYS_bpf,
        // Memory of pipes, regions and sessions: made, filled, sealed.
        libc::SYS_memfd_create,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        // The journal. Its ring is made at the start.
        libc::SYS_io_uring_enter,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        // Releases clients whose process exits, on kernels that do not provide a pidfd with the
        // connection.
        libc::SYS_pidfd_open,
        // Threads of opened ports drop the capabilities that only opening needs.
        libc::SYS_capset,
        // Where DPDK's memory lies.
        libc::SYS_mbind,
        libc::SYS_get_mempolicy,
        libc::SYS_set_mempolicy,
    ],
    sockets: &[
        // Looking up a group, and asking about interfaces.
        libc::AF_UNIX,
        libc::AF_NETLINK,
        libc::AF_XDP,
        // DPDK drivers query interfaces through these families.
        #[cfg(feature = "dpdk")]
        libc::AF_INET,
        #[cfg(feature = "dpdk")]
        libc::AF_INET6,
    ],
};

/// Installs the sandbox for the whole process: all current and future threads, irrevocably. Call it
/// when the ports are open.
///
/// # Errors
/// [`SandboxError`] if the kernel does not accept the filters.
pub fn install() -> Result<(), SandboxError> {
    covalent_sandbox::install(&CALLS)
}
