//! What joins the two nodes: decided before anything is made.

use std::fmt;

use nix::unistd::geteuid;
use serde::Serialize;

use super::namespace::Namespace;
use crate::args::PortChoice;

/// What joins the two nodes.
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

/// The medium, and the first line that tells it.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// The medium.
    pub medium: Medium,
    /// Why it is this one.
    pub told: String,
}

/// What this process may do.
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

/// Decides; `given` tells whether interfaces were named, over which only AF_XDP goes. AF_XDP that was asked for by name is tried whatever the privilege, so that its own error tells what is missing.
pub fn choose(wanted: PortChoice, given: bool, privilege: &Privilege) -> Choice {
    const AF_XDP: &str = "Covalent on this machine: nodes a and b in two network namespaces, joined by two veth pairs, over AF_XDP.";
    const CABLE: &str = "nodes a and b are joined by two in-memory cables instead of AF_XDP";
    const GIVEN: &str = "Covalent on this machine: nodes a and b in two network namespaces, joined by the cables of the interfaces that were named, over AF_XDP.";
    match (wanted, privilege) {
        _ if given => Choice {
            medium: Medium::AfXdp,
            told: GIVEN.to_owned(),
        },
        (PortChoice::AfXdp, _) | (PortChoice::Auto, Privilege::Full) => Choice {
            medium: Medium::AfXdp,
            told: AF_XDP.to_owned(),
        },
        (PortChoice::Cable, _) => Choice {
            medium: Medium::Cable,
            told: format!("As asked (--port cable), {CABLE}."),
        },
        (PortChoice::Dpdk, _) => Choice {
            medium: Medium::Dpdk,
            told: "As asked (--port dpdk), nodes a and b are joined by two memif devices of DPDK instead of AF_XDP."
                .to_owned(),
        },
        (PortChoice::Auto, Privilege::NotRoot) => Choice {
            medium: Medium::Cable,
            told: format!("Not root, so {CABLE}; `sudo covalent demo` shows the real ports."),
        },
        (PortChoice::Auto, Privilege::Confined) => Choice {
            medium: Medium::Cable,
            told: format!(
                "Root, but without the right to make network namespaces (CAP_SYS_ADMIN), so {CABLE}."
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_what_is_missing_and_what_is_shown_instead() {
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
        let given = choose(PortChoice::Auto, true, &Privilege::NotRoot);
        assert_eq!(given.medium, Medium::AfXdp, "named interfaces are meant");
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
                choice.told.contains(wanted) && choice.told.contains("in-memory cables"),
                "{}",
                choice.told
            );
        }
    }
}
