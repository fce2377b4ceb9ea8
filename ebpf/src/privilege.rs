//! Reasons for `EPERM` from the kernel, which the error number alone does not show.

use std::fmt;

use aya::util::KernelVersion;
use caps::{CapSet, Capability};
use nix::sys::resource::{Resource, getrlimit};

/// The reason of a refusal, as far as it can be known from within the process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The process lacks these capabilities.
    Capabilities(Vec<Capability>),
    /// Before Linux 5.11 the memory of maps counts against this limit of locked memory, in bytes.
    LockedMemory(u64),
    /// The capabilities are there, so something else forbids it.
    Policy,
}

impl Refusal {
    /// Finds the reason for the calling thread.
    pub(crate) fn diagnose() -> Self {
        let missing = missing(|capability| {
            caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false)
        });
        if !missing.is_empty() {
            return Self::Capabilities(missing);
        }
        let kernel_counts =
            KernelVersion::current().is_ok_and(|version| version < KernelVersion::new(5, 11, 0));
        match getrlimit(Resource::RLIMIT_MEMLOCK) {
            Ok((limit_bytes, _)) if kernel_counts && limit_bytes != nix::libc::RLIM_INFINITY => {
                Self::LockedMemory(limit_bytes)
            }
            _ => Self::Policy,
        }
    }
}

/// In order: load programs, add a run-time value such as a header length to a packet's address, and
/// use programs as XDP programs.
const NEEDED: [Capability; 3] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_NET_ADMIN,
];

/// Returns the required capabilities that are missing. CAP_SYS_ADMIN includes CAP_BPF and
/// CAP_PERFMON.
fn missing(has: impl Fn(Capability) -> bool) -> Vec<Capability> {
    let contained =
        |capability| capability != Capability::CAP_NET_ADMIN && has(Capability::CAP_SYS_ADMIN);
    NEEDED
        .into_iter()
        .filter(|&capability| !has(capability) && !contained(capability))
        .collect()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities(missing) => {
                let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "it needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and this process lacks {}: \
                     run it as root, or with \
                     AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_NET_ADMIN in its systemd unit",
                    names.join(", ")
                )
            }
            Self::LockedMemory(limit_bytes) => write!(
                f,
                "before Linux 5.11 the memory of maps counts as locked, and this process may lock \
                 {limit_bytes} bytes: \
                 raise it with `ulimit -l unlimited`, or LimitMEMLOCK=infinity in its systemd unit"
            ),
            Self::Policy => f.write_str(
                "the process has CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, so something else forbids \
                 bpf(2): a container's seccomp \
                 filter or security module, a kernel in lockdown, or a user namespace, whose \
                 capabilities do not count",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_capabilities_are_wanted_and_sys_admin_contains_two() {
        assert_eq!(missing(|_| false), NEEDED);
        assert_eq!(
            missing(|have| have == Capability::CAP_SYS_ADMIN),
            [Capability::CAP_NET_ADMIN]
        );
        assert_eq!(
            missing(|have| have == Capability::CAP_NET_ADMIN),
            [Capability::CAP_BPF, Capability::CAP_PERFMON]
        );
        assert!(missing(|have| have != Capability::CAP_SYS_ADMIN).is_empty());
    }

    #[test]
    fn the_message_names_the_remedy() {
        let text = Refusal::Capabilities(vec![Capability::CAP_BPF]).to_string();
        assert!(
            text.contains("lacks CAP_BPF:") && text.contains("run it as root"),
            "{text}"
        );
        let text = Refusal::LockedMemory(65_536).to_string();
        assert!(
            text.contains("65536 bytes") && text.contains("LimitMEMLOCK"),
            "{text}"
        );
    }
}
