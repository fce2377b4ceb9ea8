//! Giving up what is not needed once the ports are open.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{info, warn};

/// Kept by a daemon that gives up privileges:
/// - `CAP_BPF` and `CAP_NET_ADMIN` change steering rules while running; the maps belong to the daemon, but a hardened kernel
///   asks for the capability at each change.
/// - `CAP_NET_RAW` opens AF_XDP sockets, and `CAP_IPC_LOCK` pays for their memory, when a port is bound again.
const KEPT: [Capability; 4] = [
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_IPC_LOCK,
];

/// What opening an AF_XDP port later needs beside those that are kept: its XDP program is loaded and verified with it. One thread has it.
const OF_OPENER: Capability = Capability::CAP_PERFMON;

/// Packet memory below this many bytes of lockable memory is likely to be refused to a process without `CAP_IPC_LOCK`.
const MEMLOCK_BYTES_WANTED: u64 = 64 << 20;

/// What becomes of the process's capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privileges {
    /// They stay: for tests and programs that hold a daemon inside.
    Keep,
    /// All but the few that running needs are given up for good.
    Drop,
}

/// Capabilities could not be read or given up.
#[derive(Debug, thiserror::Error)]
#[error("cannot give up capabilities: {0}")]
pub struct PrivilegeError(#[from] caps::errors::CapsError);

/// Does what `privileges` says, for the calling thread and the threads that it starts from now on.
///
/// # Errors
/// [`PrivilegeError`] if the kernel refused.
pub fn apply(privileges: Privileges) -> Result<(), PrivilegeError> {
    keep_only(privileges, |capability| KEPT.contains(capability))
}

/// As [`apply`], for the thread that opens ports while the node runs. The threads that it starts give up by [`forgo_opening`] what they do not need.
///
/// # Errors
/// As [`apply`].
pub fn apply_to_opener(privileges: Privileges) -> Result<(), PrivilegeError> {
    keep_only(privileges, |capability| {
        KEPT.contains(capability) || *capability == OF_OPENER
    })
}

/// Gives up, for the calling thread, what only the opener needs.
pub fn forgo_opening() {
    // Whoever does not have it has nothing to give up; nobody is refused to.
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
    // What a unit gives to another user than root is ambient, and would be handed on to every program.
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
            "the memlock limit is low and CAP_IPC_LOCK is missing: set `LimitMEMLOCK=infinity` in the unit or `ulimit -l unlimited`"
        );
    }
}

/// Takes all the descriptors that this process may have: each application needs some, and the usual limit of 1024 is soon reached.
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

    /// What a thread has left that does this. Capabilities belong to threads: this one's end with it.
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
