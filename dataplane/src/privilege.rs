//! Drops the privileges that are not needed once the ports are open.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{info, warn};

/// Capabilities that a daemon keeps when it drops privileges:
/// - `CAP_BPF` and `CAP_NET_ADMIN` change steering rules at run time. The maps belong to the
///   daemon, but a hardened kernel requires the capability for each change.
/// - `CAP_NET_RAW` opens AF_XDP sockets, and `CAP_IPC_LOCK` covers their memory, when a port is
///   bound again.
const KEPT: [Capability; 4] = [
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_IPC_LOCK,
];

/// Additional capability to open an AF_XDP port later: opening loads and verifies the port's XDP
/// program. One thread has it.
const OF_OPENER: Capability = Capability::CAP_PERFMON;

/// With fewer bytes of lockable memory than this, the kernel is likely to refuse packet memory to a
/// process without `CAP_IPC_LOCK`.
const MEMLOCK_BYTES_WANTED: u64 = 64 << 20;

/// Treatment of the process's capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privileges {
    /// Keeps them: for tests and programs that embed a daemon.
    Keep,
    /// All but the few that running needs are given up for good.
    Drop,
}

/// Capabilities could not be read or given up.
#[derive(Debug, thiserror::Error)]
#[error("cannot give up capabilities: {0}")]
pub struct PrivilegeError(#[from] caps::errors::CapsError);

/// Applies `privileges` to the calling thread and to the threads that it starts from now on.
///
/// # Errors
/// [`PrivilegeError`] if the kernel refuses.
pub fn apply(privileges: Privileges) -> Result<(), PrivilegeError> {
    keep_only(privileges, |capability| KEPT.contains(capability))
}

/// As [`apply`], for the thread that opens ports while the node runs. The threads that it starts
/// drop what they do not need with [`forgo_opening`].
///
/// # Errors
/// As [`apply`].
pub fn apply_to_opener(privileges: Privileges) -> Result<(), PrivilegeError> {
    keep_only(privileges, |capability| {
        KEPT.contains(capability) || *capability == OF_OPENER
    })
}

/// Drops, for the calling thread, the capability that only the opener needs.
pub fn forgo_opening() {
    // A thread without the capability has nothing to drop, and the kernel refuses it to none.
    for set in [CapSet::Effective, CapSet::Permitted] {
        let _ = caps::drop(None, set, OF_OPENER);
    }
}

fn keep_only(
    privileges: Privileges,
    is_kept: impl Fn(&Capability) -> bool,
) -> Result<(), PrivilegeError> {
    if privileges == Privileges::Keep {
        return Ok(());
    }
    let permitted = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = permitted.iter().copied().filter(is_kept).collect();
    // A unit gives capabilities to a user other than root as ambient ones, which every executed
    // program would inherit.
    caps::clear(None, CapSet::Ambient)?;
    caps::set(None, CapSet::Inheritable, &CapsHashSet::new())?;
    if kept == permitted {
        return Ok(());
    }
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    info!(
        ?kept,
        given_up = permitted.len() - kept.len(),
        "capabilities given up"
    );
    Ok(())
}

/// Warns where the memlock limit will be in the way of AF_XDP's packet memory.
pub fn warn_of_memlock() {
    let exempt = caps::has_cap(None, CapSet::Effective, Capability::CAP_IPC_LOCK).unwrap_or(false);
    let Ok((limit_bytes, _)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
        return;
    };
    if !exempt && limit_bytes < MEMLOCK_BYTES_WANTED {
        warn!(
            limit_bytes,
            wanted_bytes = MEMLOCK_BYTES_WANTED,
            "the memlock limit is low and CAP_IPC_LOCK is missing: set `LimitMEMLOCK=infinity` in \
             the unit or `ulimit -l unlimited`"
        );
    }
}

/// Raises the descriptor limit to the most that this process may have: each application needs some,
/// and the usual limit of 1024 is soon reached.
pub fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        warn!(%error, "the limit of open descriptors cannot be raised (see `ulimit -n`)");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use super::*;

    /// Returns the capabilities that remain to a thread that runs `does`. Capabilities belong to
    /// threads: those of this thread end with it.
    fn left(does: impl FnOnce() + Send + 'static) -> CapsHashSet {
        let thread = thread::spawn(|| {
            does();
            caps::read(None, CapSet::Permitted).unwrap()
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_thread_that_gave_up_keeps_nothing_else() {
        let left = left(|| apply(Privileges::Drop).unwrap());
        assert!(left.iter().all(|capability| KEPT.contains(capability)));
    }

    #[test]
    fn the_opener_keeps_one_more_and_those_that_it_starts_do_not() {
        let before = caps::read(None, CapSet::Permitted).unwrap();
        let opener = left(|| apply_to_opener(Privileges::Drop).unwrap());
        assert!(
            opener
                .iter()
                .all(|it| KEPT.contains(it) || *it == OF_OPENER)
        );
        assert_eq!(opener.contains(&OF_OPENER), before.contains(&OF_OPENER));
        let started = left(|| {
            apply_to_opener(Privileges::Drop).unwrap();
            forgo_opening();
        });
        assert!(started.iter().all(|capability| KEPT.contains(capability)));
    }
}
