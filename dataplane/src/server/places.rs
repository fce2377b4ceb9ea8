//! Connection quotas: the number of connections per user, and the time that a connection may stay
//! without a hello.

use std::time::Duration;

/// Most connections at a time.
const CLIENTS_MAX: usize = 256;
/// Slots among these that are reserved for root and the daemon's own user. They can then find and
/// end a user that fills the others.
const RESERVED: usize = 16;
/// Maximum connections of one user other than root and the daemon's own, including those that are
/// being closed.
const PER_USER_MAX: usize = 64;
/// A connection without a hello after this time is closed. Programs send it as soon as they are
/// connected.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// The slots in use that matter to one user that requests another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Connections of all users.
    pub taken: usize,
    /// Connections of this user, those included that are being closed.
    pub taken_by_user: usize,
}

impl Places {
    /// Whether the user `uid` may have another slot. `commands`: the user is root or the daemon's
    /// own user.
    ///
    /// # Errors
    /// The limit that is reached, and the remedy.
    pub fn admit(self, uid: u32, commands: bool) -> Result<(), String> {
        if !commands && self.taken_by_user >= PER_USER_MAX {
            return Err(format!(
                "user {uid} has {PER_USER_MAX} connections to this node or more, the maximum for \
                 one user: stop some of the programs that hold them"
            ));
        }
        let most = if commands {
            CLIENTS_MAX
        } else {
            CLIENTS_MAX - RESERVED
        };
        if self.taken >= most {
            return Err(format!(
                "{} connections to this node are open and user {uid} may open another only below \
                 {most}: stop some of the programs that hold them, or try again later",
                self.taken
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn places(taken: usize, taken_by_user: usize) -> Places {
        Places {
            taken,
            taken_by_user,
        }
    }

    #[test]
    fn one_user_fills_his_own_places_and_no_others() {
        assert_eq!(places(63, 63).admit(1000, false), Ok(()));
        let reason = places(64, 64).admit(1000, false).unwrap_err();
        assert!(reason.contains("user 1000 has 64 connections"), "{reason}");
        assert_eq!(places(64, 0).admit(1001, false), Ok(()));
        assert_eq!(places(200, 200).admit(0, true), Ok(()));
    }

    #[test]
    fn the_last_slots_are_reserved_for_operators() {
        assert_eq!(places(239, 0).admit(1000, false), Ok(()));
        let reason = places(240, 0).admit(1000, false).unwrap_err();
        assert!(reason.contains("240"), "{reason}");
        assert_eq!(places(255, 0).admit(0, true), Ok(()));
        assert!(places(256, 0).admit(0, true).is_err());
    }
}
