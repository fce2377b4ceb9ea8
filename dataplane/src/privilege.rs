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
    if privileges == Privileges::Keep {
        return Ok(());
    }
    let permitted = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = permitted
        .iter()
        .copied()
        .filter(|capability| KEPT.contains(capability))
        .collect();
    if kept == permitted {
        return Ok(());
    }
    caps::clear(None, CapSet::Ambient)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    caps::set(None, CapSet::Inheritable, &CapsHashSet::new())?;
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

    #[test]
    fn a_thread_that_gave_up_keeps_nothing_else() {
        // Capabilities belong to threads: this one's end with it.
        let left = thread::spawn(|| {
            apply(Privileges::Drop).unwrap();
            caps::read(None, CapSet::Effective).unwrap()
        });
        assert!(
            left.join()
                .unwrap()
                .iter()
                .all(|capability| KEPT.contains(capability))
        );
    }
}
