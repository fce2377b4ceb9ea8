//! The message versions that a program supports, and the version that two programs use.
//!
//! A release supports its own version and the previous one. A node can therefore be upgraded one
//! program at a time.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Version of the messages in this crate: the newest that this release speaks.
pub const API_VERSION: u32 = 6;

/// A range of versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl Versions {
    /// The versions that this release supports.
    pub const SUPPORTED: Self = Self {
        oldest: API_VERSION - 1,
        newest: API_VERSION,
    };

    /// One version alone, as a program of before version 6 speaks it.
    #[must_use]
    pub const fn only(version: u32) -> Self {
        Self {
            oldest: version,
            newest: version,
        }
    }

    /// Whether `version` is among them.
    #[must_use]
    pub const fn has(self, version: u32) -> bool {
        self.oldest <= version && version <= self.newest
    }

    /// The newest version that both support, if any. A range with swapped ends has none.
    #[must_use]
    pub const fn common(self, other: Self) -> Option<u32> {
        let newest = if self.newest < other.newest {
            self.newest
        } else {
            other.newest
        };
        if self.has(newest) && other.has(newest) {
            Some(newest)
        } else {
            None
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            write!(f, "version {}", self.newest)
        } else {
            write!(f, "versions {} to {}", self.oldest, self.newest)
        }
    }
}

/// Two programs of one node that speak no common version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCommonVersion {
    /// The program that answers: `covalentd` or `covalent-control`.
    pub server: &'static str,
    /// The versions that the server supports.
    pub server_versions: Versions,
    /// Description of the requesting program: `this program`.
    pub client: &'static str,
    /// The versions that the client supports.
    pub client_versions: Versions,
}

impl std::error::Error for NoCommonVersion {}

impl fmt::Display for NoCommonVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            server_versions,
            client,
            client_versions,
        } = self;
        let (older, cure) = if server_versions.newest < client_versions.newest {
            (
                server,
                "restart it (`systemctl restart covalentd covalent-control`); if it is the same \
                 then, install a newer release first",
            )
        } else {
            (
                client,
                "start it again; if it is the same then, install a newer release first",
            )
        };
        write!(
            f,
            "{server} speaks {server_versions} of the messages and {client} speaks \
             {client_versions}; {older} is the older one: {cure}"
        )
    }
}

/// Whether `reason` is the refusal by which a daemon of version 5 answers a greeting with a version
/// range. Such a daemon accepts the greeting of version 5, on another connection.
#[must_use]
pub fn is_refusal_of_version_5(reason: &str) -> bool {
    reason.contains("unknown field `oldest`") && reason.ends_with("covalent-api, version 5")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn versions(oldest: u32, newest: u32) -> Versions {
        Versions { oldest, newest }
    }

    #[test]
    fn the_newest_common_version_is_used_from_either_side() {
        for (here, there, common) in [
            (versions(5, 6), versions(5, 6), Some(6)),
            (versions(5, 6), versions(6, 7), Some(6)),
            (versions(5, 6), versions(4, 5), Some(5)),
            (versions(5, 6), Versions::only(5), Some(5)),
            (versions(5, 6), versions(7, 8), None),
            (versions(5, 6), versions(3, 4), None),
            (versions(5, 6), versions(0, u32::MAX), Some(6)),
            (versions(5, 6), versions(6, 5), None),
            (versions(5, 6), versions(9, 5), None),
        ] {
            assert_eq!(here.common(there), common, "{here} and {there}");
            assert_eq!(there.common(here), common, "{there} and {here}");
        }
    }

    #[test]
    fn the_previous_release_is_supported() {
        assert_eq!(
            Versions::SUPPORTED.common(Versions::only(API_VERSION - 1)),
            Some(API_VERSION - 1)
        );
        assert!(!Versions::SUPPORTED.has(API_VERSION - 2));
        assert!(!Versions::SUPPORTED.has(API_VERSION + 1));
    }

    #[test]
    fn without_a_common_version_both_ranges_and_the_older_are_named() {
        let apart = |server_versions, client_versions| {
            NoCommonVersion {
                server: "covalentd",
                server_versions,
                client: "this program",
                client_versions,
            }
            .to_string()
        };
        let text = apart(versions(5, 6), versions(7, 8));
        for part in [
            "versions 5 to 6",
            "versions 7 to 8",
            "covalentd is the older",
            "restart",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let text = apart(versions(7, 8), Versions::only(5));
        for part in ["versions 7 to 8", "version 5;", "this program is the older"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
