//! Seals of regions' keys: what shows that a key of an earlier daemon belongs to who brings it along.

use std::fmt;

use covalent_api::hex64::Hex64;
use siphasher::sip::SipHasher24;

use crate::secret::Secret;

/// Seals keys, and tells whether a seal is one of its own.
///
/// A seal is a `SipHash`-2-4 of key, user and name under the node's secret: 64 bits that nobody else can make, and that cannot be tried out, for each try is a request.
pub struct RegionSeals {
    hasher: SipHasher24,
    is_fresh: bool,
}

impl fmt::Debug for RegionSeals {
    /// The hasher would show the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionSeals")
            .field("is_fresh", &self.is_fresh)
            .finish_non_exhaustive()
    }
}

impl RegionSeals {
    /// Seals under this secret.
    #[must_use]
    pub fn new(secret: &Secret) -> Self {
        Self {
            hasher: SipHasher24::new_with_key(&secret.key),
            is_fresh: secret.is_fresh,
        }
    }

    /// The seal of the key `rkey` of a region `name` of user `uid`.
    pub fn seal(&self, rkey: u32, uid: u32, name: &str) -> Hex64 {
        let mut sealed = Vec::with_capacity(2 * size_of::<u32>() + name.len());
        sealed.extend(rkey.to_le_bytes());
        sealed.extend(uid.to_le_bytes());
        sealed.extend(name.as_bytes());
        Hex64(self.hasher.hash(&sealed))
    }

    /// Whether `seal` is that of this key.
    ///
    /// # Errors
    /// It is not: what happened, and what to do.
    pub fn check(&self, seal: Hex64, rkey: u32, uid: u32, name: &str) -> Result<(), String> {
        if seal == self.seal(rkey, uid, name) {
            return Ok(());
        }
        let why = if self.is_fresh {
            "this daemon found no file `secret` in `node.state_dir` and drew a new one, so it knows no keys of earlier daemons"
        } else {
            "this node gave that key to another region or to another user, or the file `secret` in `node.state_dir` was drawn anew since"
        };
        Err(format!(
            "the seal that came with the key {rkey:#x} is not that of region `{name}` of user {uid}: {why}; register the region without the key, and \
             have peers look its name up again"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seals(key: u8, is_fresh: bool) -> Secret {
        Secret {
            key: [key; 16],
            is_fresh,
        }
    }

    #[test]
    fn a_seal_is_good_for_its_key_its_user_and_its_name_alone() {
        let given = RegionSeals::new(&seals(1, true)).seal(7, 1000, "bank");
        let next = RegionSeals::new(&seals(1, false));
        assert_eq!(next.check(given, 7, 1000, "bank"), Ok(()));
        for (rkey, uid, name) in [(8, 1000, "bank"), (7, 1001, "bank"), (7, 1000, "bang")] {
            let why = next
                .check(given, rkey, uid, name)
                .expect_err("another's seal");
            assert!(why.contains("to another user"), "{why}");
        }
        let why = next.check(Hex64(0), 7, 1000, "bank").expect_err("made up");
        assert!(why.contains("0x7") && why.contains("`bank`"), "{why}");
    }

    #[test]
    fn a_secret_that_was_lost_is_said() {
        let given = RegionSeals::new(&seals(1, false)).seal(7, 1000, "bank");
        let why = RegionSeals::new(&seals(2, true))
            .check(given, 7, 1000, "bank")
            .expect_err("another secret");
        assert!(why.contains("drew a new one"), "{why}");
    }
}
