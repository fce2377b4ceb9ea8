//! Who gets how many connections, and how long a connection may keep its place without a word.

use std::time::Duration;

/// Most connections at a time.
const CLIENTS_MAX: usize = 256;
/// Of those, the ones that nobody but root and the daemon's own user gets: whoever fills the others up can still be found and ended.
const RESERVED: usize = 16;
/// Most connections of one user other than root and the daemon's own, those included that are being closed.
const PER_USER_MAX: usize = 64;
/// A connection that has not said hello by then is closed. Programs say it as soon as they are connected.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// The places taken, as they bear on one user that asks for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Connections of all users.
    pub taken: usize,
    /// Connections of this user, those included that are being closed.
    pub taken_by_user: usize,
}

impl Places {
    /// Whether the user `uid`, who is root or the daemon's own user if `commands`, may have another place.
    ///
    /// # Errors
    /// Which bound is reached, and what to do.
    pub fn admit(self, uid: u32, commands: bool) -> Result<(), String> {
        if !commands && self.taken_by_user >= PER_USER_MAX {
            return Err(format!(
                "user {uid} has {PER_USER_MAX} connections to this node or more, the most for one user: end some of the programs that hold them"
            ));
        }
        let most = if commands {
            CLIENTS_MAX
        } else {
            CLIENTS_MAX - RESERVED
        };
        if self.taken >= most {
            return Err(format!(
                "{} connections to this node are open and user {uid} may open another only below {most}: end some of the programs that \
                 hold them, or try again later",
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
    fn the_last_places_are_kept_for_those_who_command() {
        assert_eq!(places(239, 0).admit(1000, false), Ok(()));
        let reason = places(240, 0).admit(1000, false).unwrap_err();
        assert!(reason.contains("240"), "{reason}");
        assert_eq!(places(255, 0).admit(0, true), Ok(()));
        assert!(places(256, 0).admit(0, true).is_err());
    }
}
