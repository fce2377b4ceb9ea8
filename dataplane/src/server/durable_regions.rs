//! The durable regions of this node, as the host thread knows them: their owners and lanes.
//!
//! A lane keeps their contents. Names belong to the node, so this module decides which user may
//! register or delete one, before any memory is allocated.

use std::collections::BTreeMap;

use covalent_api::status::DurableRegionStatus;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableRegion {
    /// The user that owns the region.
    pub uid: u32,
    /// The lane that it belongs to.
    pub lane: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether it is being deleted.
    pub deletion: Deletion,
}

/// How far the deletion of a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deletion {
    /// No deletion is requested.
    #[default]
    None,
    /// Its lane was ordered to delete it and has not replied.
    Begun,
    /// Its lane no longer has it, and its journal has failed. The next start shows whether it is
    /// deleted.
    InDoubt,
}

/// A request for a region: the user and the region.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// The user.
    pub uid: u32,
    /// The lane of the session.
    pub lane: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether it is to be durable.
    pub durable: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct DurableRegions(BTreeMap<String, DurableRegion>);

impl DurableRegions {
    /// Adds a region that a journal held at the start. Returns its name if another lane has a
    /// region of that name.
    pub fn add_recovered(
        &mut self,
        name: String,
        region: DurableRegion,
    ) -> Result<(), (String, DurableRegion)> {
        match self.0.get(&name) {
            Some(&other) => Err((name, other)),
            None => {
                self.0.insert(name, region);
                Ok(())
            }
        }
    }

    /// Whether a region may be registered.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, wanted: Wanted<'_>) -> Result<(), String> {
        let name = wanted.name;
        let Some(known) = self.0.get(name) else {
            return Ok(());
        };
        if known.uid != wanted.uid {
            return Err(format!(
                "region `{name}` is a durable region of user {}: choose another name",
                known.uid
            ));
        }
        known.deletion.check(name)?;
        if !wanted.durable {
            return Err(format!(
                "region `{name}` is a durable region: register it as one, choose another name, or \
                 delete it first"
            ));
        }
        if known.lane != wanted.lane {
            return Err(format!(
                "the durable region `{name}` belongs to lane {0}, on which it was registered \
                 first, and this session is on lane {1}: open a session on lane {0}",
                known.lane, wanted.lane
            ));
        }
        if known.size_bytes != wanted.size_bytes {
            return Err(format!(
                "the durable region `{name}` has {} bytes, not {}: register it with its own size, \
                 or delete it first",
                known.size_bytes, wanted.size_bytes
            ));
        }
        Ok(())
    }

    /// A lane serves this one.
    pub fn served(&mut self, wanted: Wanted<'_>) {
        if wanted.durable {
            self.0
                .entry(wanted.name.to_owned())
                .or_insert(DurableRegion {
                    uid: wanted.uid,
                    lane: wanted.lane,
                    size_bytes: wanted.size_bytes,
                    deletion: Deletion::None,
                });
        }
    }

    /// Begins to delete a region if `uid` may do so. `commands`: the user is root or the daemon's
    /// own user. Returns the lane that is to delete it.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn begin_delete(&mut self, name: &str, uid: u32, commands: bool) -> Result<u32, String> {
        let Some(known) = self.0.get_mut(name) else {
            return Err(format!(
                "there is no durable region `{name}` on this node: `covalent status` lists the \
                 existing ones"
            ));
        };
        if known.uid != uid && !commands {
            return Err(format!(
                "the durable region `{name}` is of user {}, and you are user {uid}: only its own \
                 user, root and the daemon's user may delete it",
                known.uid
            ));
        }
        known.deletion.check(name)?;
        known.deletion = Deletion::Begun;
        Ok(known.lane)
    }

    /// Its lane has deleted it, or could not.
    pub fn end_delete(&mut self, name: &str, is_deleted: bool) {
        if is_deleted {
            self.0.remove(name);
        } else if let Some(known) = self.0.get_mut(name) {
            known.deletion = Deletion::None;
        }
    }

    /// Its lane no longer has it, and it is unknown whether its journal does. The name stays taken
    /// until the next start.
    pub fn doubt_delete(&mut self, name: &str) {
        if let Some(known) = self.0.get_mut(name) {
            known.deletion = Deletion::InDoubt;
        }
    }

    /// The status of all regions. `session_of` returns the session that has a region registered.
    pub fn status(&self, session_of: impl Fn(&str) -> Option<u64>) -> Vec<DurableRegionStatus> {
        self.0
            .iter()
            .map(|(name, region)| DurableRegionStatus {
                name: name.clone(),
                uid: region.uid,
                lane: region.lane,
                size_bytes: region.size_bytes,
                session: session_of(name),
            })
            .collect()
    }
}

impl Deletion {
    fn check(self, name: &str) -> Result<(), String> {
        match self {
            Self::None => Ok(()),
            Self::Begun => Err(format!(
                "the durable region `{name}` is being deleted: try again in a moment"
            )),
            Self::InDoubt => Err(format!(
                "the journal failed while the durable region `{name}` was being deleted, and \
                 whether it is deleted is known only when the daemon is restarted"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEDGER: Wanted<'_> = Wanted {
        name: "ledger",
        uid: 7,
        lane: 1,
        size_bytes: 64,
        durable: true,
    };

    fn with_ledger() -> DurableRegions {
        let mut regions = DurableRegions::default();
        regions.served(LEDGER);
        regions
    }

    #[test]
    fn a_durable_region_is_registered_again_only_as_it_was() {
        let regions = with_ledger();
        assert_eq!(regions.check(LEDGER), Ok(()));
        let other = Wanted {
            name: "other",
            ..LEDGER
        };
        assert_eq!(regions.check(other), Ok(()));
        for (wanted, why) in [
            (Wanted { uid: 8, ..LEDGER }, "of user 7"),
            (
                Wanted {
                    durable: false,
                    ..LEDGER
                },
                "register it as one",
            ),
            (Wanted { lane: 0, ..LEDGER }, "open a session on lane 1"),
            (
                Wanted {
                    size_bytes: 72,
                    ..LEDGER
                },
                "has 64 bytes, not 72",
            ),
        ] {
            let refused = regions.check(wanted).expect_err(why);
            assert!(
                refused.contains(why) && refused.contains("`ledger`"),
                "{refused}"
            );
        }
    }

    #[test]
    fn only_its_user_and_operators_delete_a_durable_region() {
        for (uid, commands) in [(7, false), (0, true)] {
            let mut regions = with_ledger();
            let why = regions
                .begin_delete("ledger", 8, false)
                .expect_err("not his");
            assert!(why.contains("of user 7"), "{why}");
            let why = regions.begin_delete("other", 7, true).expect_err("none");
            assert!(why.contains("no durable region `other`"), "{why}");
            assert_eq!(regions.begin_delete("ledger", uid, commands), Ok(1));
            let why = regions.check(LEDGER).expect_err("it goes");
            assert!(why.contains("being deleted"), "{why}");
            assert!(regions.begin_delete("ledger", uid, commands).is_err());
            regions.end_delete("ledger", false);
            assert_eq!(regions.check(LEDGER), Ok(()));
            assert_eq!(regions.begin_delete("ledger", uid, commands), Ok(1));
            regions.end_delete("ledger", true);
            assert_eq!(regions.check(Wanted { uid: 8, ..LEDGER }), Ok(()));
            assert!(regions.status(|_| None).is_empty());
        }
    }

    #[test]
    fn the_name_of_a_region_with_an_in_doubt_deletion_stays_taken() {
        let mut regions = with_ledger();
        assert_eq!(regions.begin_delete("ledger", 7, false), Ok(1));
        regions.doubt_delete("ledger");
        for why in [
            regions.check(LEDGER).expect_err("in doubt"),
            regions
                .begin_delete("ledger", 0, true)
                .expect_err("in doubt"),
        ] {
            assert!(
                why.contains("`ledger`") && why.contains("is restarted"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_name_held_by_two_lanes_is_reported_for_the_second() {
        let mut regions = with_ledger();
        let region = DurableRegion {
            uid: 7,
            lane: 2,
            size_bytes: 8,
            deletion: Deletion::None,
        };
        let (name, other) = regions
            .add_recovered("ledger".into(), region)
            .expect_err("there are two");
        assert_eq!((name.as_str(), other.lane), ("ledger", 1));
        assert_eq!(regions.add_recovered("spare".into(), region), Ok(()));
        assert_eq!(regions.begin_delete("spare", 7, false), Ok(2));
    }
}
