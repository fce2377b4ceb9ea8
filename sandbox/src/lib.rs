//! What a daemon may ask of the kernel once it has started.
//!
//! Three filters hold for every thread of the process, and for those that it starts later, until it ends:
//!
//! | filter | says |
//! |---|---|
//! | `hostile` | what only an intruder would ask for ends the process (`SIGSYS`) |
//! | `newer` | calls whose arguments a filter cannot see are unknown (`ENOSYS`), so that libraries use the older ones |
//! | `allowed` | of the others only those of the list are made; the rest fail with `EPERM` |
//!
//! The kernel remembers for each call that is allowed whatever its arguments are that it is: such a call costs a bit that is looked at. So what a
//! lane asks for has no condition on its arguments.
//!
//! Nothing here needs a privilege, and nothing can be taken back.

mod allowed;
mod condition;
mod hostile;
mod newer;

use seccompiler::{BackendError, BpfProgram, apply_filter_all_threads};

pub use self::allowed::Calls;

/// The sandbox could not be closed. What was installed before stays.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The filter could not be made.
    #[error("the system-call filter could not be made: {0}")]
    Made(#[from] BackendError),
    /// The kernel did not take it.
    #[error(
        "the kernel did not take the system-call filter: {0}; a kernel without CONFIG_SECCOMP_FILTER needs `node.sandbox = false`"
    )]
    Installed(#[from] seccompiler::Error),
}

/// Closes the sandbox around the whole process: from now on it makes only `calls` beside those that every program makes.
///
/// # Errors
/// [`SandboxError`].
pub fn install(calls: &Calls) -> Result<(), SandboxError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    let filters: [BpfProgram; 3] = [
        hostile::filter(architecture)?.try_into()?,
        newer::filter(architecture)?.try_into()?,
        // The last one: it does not let another one be installed.
        allowed::filter(calls, architecture)?.try_into()?,
    ];
    for filter in &filters {
        apply_filter_all_threads(filter)?;
    }
    Ok(())
}
