//! Access control of the daemon's socket: root, the daemon's own user, and members of the
//! configured group are admitted.

use nix::{
    errno::Errno,
    unistd::{Group, Uid},
};

/// The rule, made once at start.
#[derive(Debug, Clone)]
pub struct Admission {
    own: Uid,
    group: Option<Group>,
}

/// Why the rule could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// The configured group does not exist.
    #[error(
        "group `{0}` (key `node.group`) does not exist: create it with `groupadd --system {0}` or \
         leave the key empty"
    )]
    NoSuchGroup(String),
    /// The group database could not be read.
    #[error("cannot look up group `{group}`: {source}")]
    Lookup {
        /// The configured group.
        group: String,
        /// The system's error.
        source: Errno,
    },
}

impl Admission {
    /// Admits root, this process's user, and members of `group` unless that is empty.
    ///
    /// # Errors
    /// [`AdmissionError`] if there is no such group.
    pub fn new(group: &str) -> Result<Self, AdmissionError> {
        let found = if group.is_empty() {
            None
        } else {
            let found = Group::from_name(group).map_err(|source| AdmissionError::Lookup {
                group: group.to_owned(),
                source,
            })?;
            Some(found.ok_or_else(|| AdmissionError::NoSuchGroup(group.to_owned()))?)
        };
        Ok(Self {
            own: Uid::effective(),
            group: found,
        })
    }

    /// Whether a peer with these credentials and supplementary groups, as the kernel reports them,
    /// is admitted. No user database is queried, because that may take long.
    #[must_use]
    pub fn admits(&self, uid: u32, gid: u32, groups: &[u32]) -> bool {
        self.commands(uid)
            || self
                .group()
                .is_some_and(|group| group == gid || groups.contains(&group))
    }

    /// Whether a peer with this user may also change ports.
    #[must_use]
    pub fn commands(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own.as_raw()
    }

    /// The group's number, if there is a group.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        self.group.as_ref().map(|group| group.gid.as_raw())
    }

    /// The remedy for a peer that was turned away.
    #[must_use]
    pub fn remedy(&self) -> String {
        match &self.group {
            Some(group) => format!(
                "run as root, as the daemon's user, or as a member of group `{}`",
                group.name
            ),
            None => {
                "run as root or as the daemon's user, or set `node.group` to one of your groups"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use nix::unistd::Gid;

    use super::*;

    #[test]
    fn users_outside_the_group_are_refused() {
        let own = Uid::effective().as_raw();
        let admission = Admission::new("").unwrap();
        assert!(admission.admits(0, 0, &[]) && admission.commands(0));
        assert!(admission.admits(own, 12_345, &[]));
        assert!(!admission.admits(own + 54_321, 54_321, &[0]));
    }

    #[test]
    fn the_group_admits_but_does_not_command() {
        let group = Group::from_gid(Gid::from_raw(0)).unwrap().unwrap();
        let admission = Admission::new(&group.name).unwrap();
        assert!(admission.admits(54_321, 0, &[]));
        assert!(admission.admits(54_321, 54_321, &[7, 0]));
        assert!(!admission.commands(54_321));
        assert!(!admission.admits(54_321, 54_321, &[7]));
        assert!(
            Admission::new("no-such-group-here")
                .unwrap_err()
                .to_string()
                .contains("groupadd")
        );
    }
}
