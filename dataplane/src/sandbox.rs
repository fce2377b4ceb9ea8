//! What the daemon asks of the kernel once its ports are open, beside what every program does.

use covalent_sandbox::Calls;
pub use covalent_sandbox::SandboxError;

/// What running takes, and what a reload or a port that heals takes, which opens ports anew.
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
        // Clients whose process ends are let go of (kernels that do not give it with the connection).
        libc::SYS_pidfd_open,
        // Threads of ports that are opened give up what only opening needs.
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
        // Drivers of DPDK ask about interfaces so.
        #[cfg(feature = "dpdk")]
        libc::AF_INET,
        #[cfg(feature = "dpdk")]
        libc::AF_INET6,
    ],
};

/// Closes the sandbox around the whole process, all of its threads and those to come, for good. Call it when the ports are open.
///
/// # Errors
/// [`SandboxError`] if the kernel does not take the filters.
pub fn install() -> Result<(), SandboxError> {
    covalent_sandbox::install(&CALLS)
}
