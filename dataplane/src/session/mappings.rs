//! Limits the share of the process's memory mappings that the applications' memory may take.
//!
//! A process without a free mapping cannot admit a client or allocate memory. One user may
//! therefore take a quarter at most, and all users together three quarters. Root and the daemon's
//! own user may go up to seven eighths. The rest belongs to the daemon.

use std::fs;

/// Mappings of a pipe: its control memory, and its ring twice.
pub const PIPE_MAPPINGS: u32 = 3;
/// Mappings of a region.
pub const REGION_MAPPINGS: u32 = 1;
/// Mappings of a session: its rings.
pub const SESSION_MAPPINGS: u32 = 1;

/// The kernel's limit of mappings per process.
const SETTING: &str = "/proc/sys/vm/max_map_count";
/// The kernel's default limit.
const USUAL: u64 = 65_530;

/// The bounds; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappingBounds {
    /// The kernel's limit for this process.
    process: u64,
}

/// Mappings that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// By the sessions of the user that requests more.
    pub of_user: u64,
    /// By all sessions.
    pub of_all: u64,
}

impl MappingBounds {
    /// The bounds on this system.
    #[must_use]
    pub fn of_this_system() -> Self {
        let shown = fs::read_to_string(SETTING);
        Self {
            process: shown
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(USUAL),
        }
    }

    /// Most that all sessions may take together.
    #[must_use]
    pub const fn most(self) -> u64 {
        self.process / 8 * 7
    }

    /// Whether the user `uid` may take `wanted` more mappings. `commands`: the user is root or the
    /// daemon's own user.
    ///
    /// # Errors
    /// The limit that would be exceeded, and the remedy.
    pub fn admit(self, uid: u32, commands: bool, wanted: u32, taken: Taken) -> Result<(), String> {
        let Self { process } = self;
        let advice = format!(
            "close pipes, stop some of the programs that hold them, or raise `sysctl \
             vm.max_map_count`, which is {process}, and restart the daemon"
        );
        let of_user = taken.of_user + u64::from(wanted);
        let user_most = process / 4;
        if !commands && of_user > user_most {
            return Err(format!(
                "the sessions of user {uid} would take {of_user} of the daemon's memory mappings \
                 ({PIPE_MAPPINGS} for each pipe); one user may \
                 take {user_most}: {advice}"
            ));
        }
        let of_all = taken.of_all + u64::from(wanted);
        let most = if commands {
            self.most()
        } else {
            process / 4 * 3
        };
        if of_all > most {
            return Err(format!(
                "all sessions would take {of_all} of the daemon's memory mappings ({PIPE_MAPPINGS} \
                 for each pipe), and user {uid} may take \
                 more only up to {most}: {advice}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const BOUNDS: MappingBounds = MappingBounds { process: 800 };

    fn taken(of_user: u64, of_all: u64) -> Taken {
        Taken { of_user, of_all }
    }

    #[test]
    fn one_user_leaves_mappings_for_the_others() {
        assert_eq!(BOUNDS.admit(1000, false, 3, taken(197, 197)), Ok(()));
        let reason = BOUNDS.admit(1000, false, 3, taken(198, 198)).unwrap_err();
        for shown in [
            "user 1000",
            "201",
            "may take 200",
            "vm.max_map_count",
            "800",
        ] {
            assert!(reason.contains(shown), "{reason}");
        }
        assert_eq!(BOUNDS.admit(1001, false, 3, taken(0, 198)), Ok(()));
        assert_eq!(BOUNDS.admit(0, true, 3, taken(600, 600)), Ok(()));
    }

    #[test]
    fn the_last_mappings_are_reserved_for_the_daemon_and_operators() {
        assert_eq!(BOUNDS.admit(1000, false, 1, taken(0, 599)), Ok(()));
        let reason = BOUNDS.admit(1000, false, 1, taken(0, 600)).unwrap_err();
        assert!(reason.contains("up to 600"), "{reason}");
        assert_eq!(BOUNDS.admit(0, true, 1, taken(0, 699)), Ok(()));
        assert!(BOUNDS.admit(0, true, 1, taken(0, 700)).is_err());
        assert_eq!(BOUNDS.most(), 700);
    }

    #[test]
    fn the_bound_is_the_setting_of_the_system() {
        assert!(MappingBounds::of_this_system().most() > 1000);
    }
}
