//! The medium that connects the two nodes, decided before anything is created.

use std::fmt;

use nix::unistd::geteuid;
use serde::Serialize;

use super::args::PortChoice;
use super::namespace::Namespace;

/// The medium that connects the two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// AF_XDP sockets on veth pairs between two network namespaces.
    AfXdp,
    /// Cables in shared memory.
    Cable,
    /// DPDK's `net_memif` devices, in shared memory too.
    Dpdk,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AfXdp => "AF_XDP",
            Self::Cable => "cable",
            Self::Dpdk => "DPDK",
        })
    }
}

/// The medium, and the first line of output, which explains it.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// The medium.
    pub medium: Medium,
    /// Why it is this one.
    pub explanation: String,
}

/// The privilege of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Privilege {
    /// It can make network namespaces.
    Full,
    /// It is not root.
    NotRoot,
    /// It is root, but the kernel refuses a network namespace (a container, mostly).
    Confined,
}

impl Privilege {
    /// Tries it out.
    pub fn of_this_process() -> Self {
        if !geteuid().is_root() {
            return Self::NotRoot;
        }
        match Namespace::create() {
            Ok(_) => Self::Full,
            Err(_) => Self::Confined,
        }
    }
}

/// Selects the medium. `has_interfaces` is whether interfaces were named; these support only
/// AF_XDP. An explicit request for AF_XDP is tried with any privilege, so that its own error
/// reports the missing one.
pub fn choose(wanted: PortChoice, has_interfaces: bool, privilege: &Privilege) -> Choice {
    const AF_XDP: &str = "Covalent on this machine: nodes a and b in two network namespaces, \
        joined by two veth pairs, over AF_XDP.";
    const CABLE: &str = "nodes a and b are joined by two in-memory cables instead of AF_XDP";
    const NAMED_INTERFACES: &str = "Covalent on this machine: nodes a and b in two network \
        namespaces, joined by the cables of the interfaces that were named, over AF_XDP.";
    match (wanted, privilege) {
        _ if has_interfaces => Choice {
            medium: Medium::AfXdp,
            explanation: NAMED_INTERFACES.to_owned(),
        },
        (PortChoice::AfXdp, _) | (PortChoice::Auto, Privilege::Full) => Choice {
            medium: Medium::AfXdp,
            explanation: AF_XDP.to_owned(),
        },
        (PortChoice::Cable, _) => Choice {
            medium: Medium::Cable,
            explanation: format!("As requested (--port cable), {CABLE}."),
        },
        (PortChoice::Dpdk, _) => Choice {
            medium: Medium::Dpdk,
            explanation:
                "As requested (--port dpdk), nodes a and b are joined by two memif devices of \
                   DPDK instead of AF_XDP."
                    .to_owned(),
        },
        (PortChoice::Auto, Privilege::NotRoot) => Choice {
            medium: Medium::Cable,
            explanation: format!(
                "Not root, so {CABLE}; `sudo covalent demo` shows the real ports."
            ),
        },
        (PortChoice::Auto, Privilege::Confined) => Choice {
            medium: Medium::Cable,
            explanation: format!(
                "Root, but without the right to make network namespaces (CAP_SYS_ADMIN), so \
                 {CABLE}."
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_what_is_missing_and_its_replacement() {
        assert_eq!(
            choose(PortChoice::Auto, false, &Privilege::Full).medium,
            Medium::AfXdp
        );
        assert_eq!(
            choose(PortChoice::AfXdp, false, &Privilege::NotRoot).medium,
            Medium::AfXdp
        );
        assert_eq!(
            choose(PortChoice::Cable, false, &Privilege::Full).medium,
            Medium::Cable
        );
        let has_interfaces = choose(PortChoice::Auto, true, &Privilege::NotRoot);
        assert_eq!(
            has_interfaces.medium,
            Medium::AfXdp,
            "named interfaces are meant"
        );
        assert_eq!(
            choose(PortChoice::Dpdk, false, &Privilege::NotRoot).medium,
            Medium::Dpdk
        );
        for (privilege, wanted) in [
            (Privilege::NotRoot, "Not root"),
            (Privilege::Confined, "CAP_SYS_ADMIN"),
        ] {
            let choice = choose(PortChoice::Auto, false, &privilege);
            assert_eq!(choice.medium, Medium::Cable);
            assert!(
                choice.explanation.contains(wanted)
                    && choice.explanation.contains("in-memory cables"),
                "{}",
                choice.explanation
            );
        }
    }
}
