//! System calls that a daemon may make after it has started.
//!
//! Three filters apply to every thread of the process, including threads started later, until the
//! process exits:
//!
//! | filter | effect |
//! |---|---|
//! | `hostile` | calls that only an intruder would make kill the process (`SIGSYS`) |
//! | `newer` | calls whose arguments a filter cannot see fail with `ENOSYS` |
//! | `allowed` | of the others only those on the list are allowed, the rest fail with `EPERM` |
//!
//! On `ENOSYS`, libraries use the older calls. The kernel caches which calls are allowed for any
//! arguments: such a call costs the test of one bit. The calls of a lane therefore have no
//! condition on their arguments.
//!
//! Nothing here needs a privilege, and nothing can be undone.

mod allowed;
mod condition;
mod hostile;
mod newer;

use seccompiler::{BackendError, BpfProgram, apply_filter_all_threads};

pub use self::allowed::Calls;

/// The sandbox could not be installed. Filters installed before stay in force.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The filter could not be made.
    #[error("the system-call filter could not be created: {0}")]
    Made(#[from] BackendError),
    /// The kernel did not take it.
    #[error(
        "the kernel did not accept the system-call filter: {0}; a kernel without \
         CONFIG_SECCOMP_FILTER needs `node.sandbox = false`"
    )]
    Installed(#[from] seccompiler::Error),
}

/// Installs the sandbox for the whole process. From now on it may make only `calls` and the calls
/// of every program.
///
/// # Errors
/// [`SandboxError`].
pub fn install(calls: &Calls) -> Result<(), SandboxError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    let filters: [BpfProgram; 3] = [
        hostile::filter(architecture)?.try_into()?,
        newer::filter(architecture)?.try_into()?,
        // Last: it prevents the installation of further filters.
        allowed::filter(calls, architecture)?.try_into()?,
    ];
    for filter in &filters {
        apply_filter_all_threads(filter)?;
    }
    Ok(())
}
