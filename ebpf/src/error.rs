//! Errors, with the remedy in their messages.

use std::{error::Error, io};

use crate::{key::KeyError, layout::QUEUES_MAX, owner::AttachedProgram, privilege::Refusal};

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EbpfError {
    /// The kernel forbids it.
    #[error("{action} is not permitted: {refusal}")]
    NotPermitted {
        /// Attempted operation.
        action: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// The interface already has an XDP program.
    #[error(
        "{interface} already has an XDP program{}",
        describe_owner(.owner.as_ref(), .interface),
    )]
    Busy {
        /// The interface's name.
        interface: String,
        /// The other program. `None` if it was gone when queried.
        owner: Option<AttachedProgram>,
    },
    /// There is no such interface, or no longer.
    #[error(
        "there is no interface {interface} (index {ifindex}) in this network namespace: it was \
         removed or moved to \
         another one; `ip link` lists those that are here"
    )]
    NoSuchInterface {
        /// The interface's name, empty if not known.
        interface: String,
        /// Its index.
        ifindex: u32,
    },
    /// The index belongs to another interface meanwhile.
    #[error(
        "index {ifindex} is the interface {found} and not {interface}: it was renamed, or removed \
         and created again"
    )]
    OtherInterface {
        /// The name given.
        interface: String,
        /// The index given.
        ifindex: u32,
        /// The name that it has.
        found: String,
    },
    /// The driver does not run the program.
    #[error("{}", describe_native_refusal(.interface, *.mtu_bytes, .source))]
    NativeRefused {
        /// The interface's name.
        interface: String,
        /// Its MTU.
        mtu_bytes: u32,
        /// Error that the kernel returned.
        source: io::Error,
    },
    /// The steering is on an interface already.
    #[error("this program is attached to {interface} already: load one for each interface")]
    AlreadyAttached {
        /// The interface's name.
        interface: String,
    },
    /// The kernel attached the program but does not list it.
    #[error(
        "the program was attached to {interface}, but the kernel does not list it there: another \
         process detached it"
    )]
    Vanished {
        /// The interface's name.
        interface: String,
    },
    /// The queue cannot have a socket.
    #[error(
        "queue {queue} of {}: the program serves queues 0 to {}; reduce them with `ethtool -L`",
        QUEUES_MAX,
        QUEUES_MAX - 1,
    )]
    NoSuchQueue {
        /// The queue's index.
        queue: u32,
    },
    /// The kernel cannot redirect to the descriptor.
    #[error(
        "the socket for queue {queue} is not an AF_XDP socket with a UMEM, a fill ring and an RX \
         ring"
    )]
    NotASocket {
        /// The queue's index.
        queue: u32,
        /// Error that the kernel returned.
        source: io::Error,
    },
    /// The number is not an EtherType.
    #[error(
        "link EtherType {0:#06x}: below 0x0600 the field is the length of an LLC frame; 0 turns \
         link frames off"
    )]
    LinkEtherType(u16),
    /// The key cannot be a rule.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The table is full.
    #[error(
        "no room for another {kind} rule: {capacity} are there; a prefix rule may stand for many \
         of them"
    )]
    TableFull {
        /// Kind of rule.
        kind: &'static str,
        /// How many fit.
        capacity: u32,
    },
    /// The kernel has no memory for it.
    #[error(
        "{action}: the kernel has no memory for it; a container's or unit's memory limit counts \
         maps too"
    )]
    NoMemory {
        /// Attempted operation.
        action: &'static str,
        /// Error that the kernel returned.
        source: io::Error,
    },
    /// The embedded object does not match this loader.
    #[error("the embedded XDP program does not fit its loader: {0}")]
    Object(String),
    /// The kernel refuses the program.
    #[error("the kernel refused the XDP program (is it older than Linux 5.9?): {0}")]
    Rejected(#[source] Box<dyn Error + Send + Sync>),
    /// A call failed that has no reason to.
    #[error("{action} failed: {source}")]
    Kernel {
        /// Attempted operation.
        action: &'static str,
        /// Error that the kernel returned.
        source: io::Error,
    },
}

impl EbpfError {
    /// Sorts a failed call by its error number.
    pub(crate) fn from_io(action: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted {
                action,
                refusal: Refusal::diagnose(),
            },
            Some(libc::ENOMEM) => Self::NoMemory { action, source },
            _ => Self::Kernel { action, source },
        }
    }

    /// Sorts a failed load by the error number that is somewhere in aya's chain.
    pub(crate) fn from_load(
        action: &'static str,
        error: impl Error + Send + Sync + 'static,
    ) -> Self {
        match os_error(&error) {
            // The verifier returns EACCES both for an invalid program and for one that needs
            // CAP_PERFMON.
            Some(libc::EACCES) => match Refusal::diagnose() {
                Refusal::Policy => Self::Rejected(Box::new(error)),
                refusal => Self::NotPermitted { action, refusal },
            },
            Some(errno @ (libc::EPERM | libc::ENOMEM)) => {
                Self::from_io(action, io::Error::from_raw_os_error(errno))
            }
            _ => Self::Rejected(Box::new(error)),
        }
    }
}

/// The error number behind a chain of causes.
pub(crate) fn os_error(error: &(dyn Error + 'static)) -> Option<i32> {
    chain(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .find_map(io::Error::raw_os_error)
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

fn describe_owner(owner: Option<&AttachedProgram>, interface: &str) -> String {
    match owner {
        Some(owner) => format!(": {owner}; {}", owner.how_to_detach(interface)),
        None => ", which was removed a moment later: try again".to_owned(),
    }
}

fn describe_native_refusal(interface: &str, mtu_bytes: u32, source: &io::Error) -> String {
    let why = match source.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "its driver has no native XDP".to_owned(),
        Some(libc::ERANGE | libc::EINVAL | libc::E2BIG) => format!(
            "its driver refuses native XDP with the interface's settings. A frame must fit one \
             receive buffer, which limits the MTU to about 3,500 bytes on veth and to a page on \
             most cards (it is {mtu_bytes} here, and on a veth the peer's counts); LRO must be off \
             (`ethtool -K {interface} lro off`)"
        ),
        Some(libc::ENOSPC | libc::ENOMEM | libc::EBUSY) => {
            "its driver lacks queues or memory for native XDP: try fewer \
             queues (`ethtool -L`)"
                .to_owned()
        }
        _ => "its driver refuses native XDP".to_owned(),
    };
    format!("{interface}: {why} ({source}). Generic mode works everywhere, slower")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::AttachPoint;

    #[test]
    fn busy_names_the_owner_and_the_remedy() {
        let mut owner = AttachedProgram {
            id: 7,
            name: Some("xdp_filter".into()),
            at: AttachPoint::Native,
            link_ids: vec![12],
        };
        let busy = |owner: &AttachedProgram| {
            EbpfError::Busy {
                interface: "eth0".into(),
                owner: Some(owner.clone()),
            }
            .to_string()
        };
        let text = busy(&owner);
        assert!(
            text.starts_with(
                "eth0 already has an XDP program: `xdp_filter` (program id 7, native mode); "
            ),
            "{text}"
        );
        assert!(text.contains("bpftool link detach id 12"), "{text}");
        owner.link_ids.clear();
        assert!(
            busy(&owner).contains("`ip link set dev eth0 xdpdrv off`"),
            "{}",
            busy(&owner)
        );
    }

    #[test]
    fn a_large_mtu_is_named() {
        let source = io::Error::from_raw_os_error(libc::ERANGE);
        let error = EbpfError::NativeRefused {
            interface: "veth0".into(),
            mtu_bytes: 9000,
            source,
        };
        assert!(error.to_string().contains("it is 9000 here"), "{error}");
    }

    #[test]
    fn the_error_number_is_found_behind_other_errors() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);
        assert_eq!(
            os_error(&Outer(io::Error::from_raw_os_error(libc::ENOMEM))),
            Some(libc::ENOMEM)
        );
        assert!(matches!(
            EbpfError::from_load("loading", Outer(io::Error::from_raw_os_error(libc::EINVAL))),
            EbpfError::Rejected(_)
        ));
    }
}
