//! The share of each user in a lane's journal.
//!
//! A region outlives its session, so the quota of a session does not limit how many regions a user
//! leaves behind.

use rustc_hash::FxHashMap;

use crate::journal::snapshot_bytes;

/// Most durable regions of one user on one lane.
pub const REGIONS_PER_USER_MAX: u64 = 4096;

/// The shares of the users of durable regions.
#[derive(Debug, Default)]
pub struct Shares(FxHashMap<u32, Share>);

#[derive(Debug, Clone, Copy, Default)]
struct Share {
    regions: u64,
    /// Most bytes that its regions take in a snapshot.
    bytes: u64,
}

impl Shares {
    /// Checks whether `uid` may have one more region, of `size_bytes`, if all regions together may
    /// take `all_bytes_max` in a snapshot.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn check(&self, uid: u32, size_bytes: u64, all_bytes_max: u64) -> Result<(), String> {
        let share = self.0.get(&uid).copied().unwrap_or_default();
        if share.regions >= REGIONS_PER_USER_MAX {
            return Err(format!(
                "user {uid} has {} durable regions on this lane, and no user may have more than \
                 {REGIONS_PER_USER_MAX}: delete some first",
                share.regions
            ));
        }
        let most_bytes = all_bytes_max / 2;
        let bytes = share.bytes + snapshot_bytes(size_bytes);
        if bytes > most_bytes {
            return Err(format!(
                "the {} durable regions of user {uid} on this lane would take {bytes} bytes of its \
                 journal with this one, and a user may have {most_bytes}: delete some first, or \
                 raise `journal.file_mib`",
                share.regions + 1
            ));
        }
        Ok(())
    }

    /// `uid` has one more.
    pub fn take(&mut self, uid: u32, size_bytes: u64) {
        let share = self.0.entry(uid).or_default();
        share.regions += 1;
        share.bytes += snapshot_bytes(size_bytes);
    }

    /// `uid` has one less.
    pub fn give(&mut self, uid: u32, size_bytes: u64) {
        if let Some(share) = self.0.get_mut(&uid) {
            share.regions -= 1;
            share.bytes -= snapshot_bytes(size_bytes);
            if share.regions == 0 {
                self.0.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_journal_space_for_others() {
        let all_bytes_max = 64 << 10;
        let mut shares = Shares::default();
        let mut count = 0;
        while shares.check(7, 8, all_bytes_max).is_ok() {
            shares.take(7, 8);
            count += 1;
        }
        assert_eq!(count, (32 << 10) / snapshot_bytes(8));
        let why = shares.check(7, 8, all_bytes_max).expect_err("no more");
        assert!(
            why.contains("user 7") && why.contains("may have 32768"),
            "{why}"
        );
        assert_eq!(shares.check(8, 8, all_bytes_max), Ok(()));
        shares.give(7, 8);
        assert_eq!(shares.check(7, 8, all_bytes_max), Ok(()));
        assert!(shares.check(7, 16 << 10, all_bytes_max).is_err());
        (1..count).for_each(|_| shares.give(7, 8));
        assert!(shares.0.is_empty());
    }

    #[test]
    fn a_user_has_a_bounded_number_of_regions_even_with_free_space() {
        let mut shares = Shares::default();
        for _ in 0..REGIONS_PER_USER_MAX {
            assert_eq!(shares.check(7, 8, u64::MAX), Ok(()));
            shares.take(7, 8);
        }
        let why = shares.check(7, 8, u64::MAX).expect_err("no more");
        assert!(why.contains("4096: delete some"), "{why}");
        assert_eq!(shares.check(8, 8, u64::MAX), Ok(()));
    }
}
