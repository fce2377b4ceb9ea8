//! MACs of region keys: proof that a key of an earlier daemon belongs to the client that presents
//! it.

use std::fmt;

use covalent_api::hex64::Hex64;
use siphasher::sip::SipHasher24;

use crate::secret::Secret;

/// Computes and verifies MACs of keys.
///
/// A MAC is a `SipHash`-2-4 of key, user and name under the node's secret. Only this node can
/// compute its 64 bits. Guessing is impractical, because each try is a request.
pub struct RegionTokens {
    hasher: SipHasher24,
    is_fresh: bool,
}

impl fmt::Debug for RegionTokens {
    /// The hasher would show the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionTokens")
            .field("is_fresh", &self.is_fresh)
            .finish_non_exhaustive()
    }
}

impl RegionTokens {
    /// Uses this secret.
    #[must_use]
    pub fn new(secret: &Secret) -> Self {
        Self {
            hasher: SipHasher24::new_with_key(&secret.key),
            is_fresh: secret.is_fresh,
        }
    }

    /// Returns the MAC of the key `rkey` of a region `name` of user `uid`.
    pub fn seal(&self, rkey: u32, uid: u32, name: &str) -> Hex64 {
        let mut mac_input = Vec::with_capacity(2 * size_of::<u32>() + name.len());
        mac_input.extend(rkey.to_le_bytes());
        mac_input.extend(uid.to_le_bytes());
        mac_input.extend(name.as_bytes());
        Hex64(self.hasher.hash(&mac_input))
    }

    /// Whether `seal` is the MAC of this key.
    ///
    /// # Errors
    /// The MAC does not match: the problem and the remedy.
    pub fn check(&self, seal: Hex64, rkey: u32, uid: u32, name: &str) -> Result<(), String> {
        if seal == self.seal(rkey, uid, name) {
            return Ok(());
        }
        let why = if self.is_fresh {
            "this daemon found no file `secret` in `node.state_dir` and generated a new one, so it \
             knows no keys of earlier daemons"
        } else {
            "this node gave that key to another region or to another user, or the file `secret` in \
             `node.state_dir` was generated again since"
        };
        Err(format!(
            "the token of the key {rkey:#x} is not that of region `{name}` of user {uid}: {why}; \
             register the region without the key, and have peers look up its name again"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secret_with(key: u8, is_fresh: bool) -> Secret {
        Secret {
            key: [key; 16],
            is_fresh,
        }
    }

    #[test]
    fn a_token_is_valid_for_its_key_user_and_name_alone() {
        let token = RegionTokens::new(&secret_with(1, true)).seal(7, 1000, "bank");
        let next = RegionTokens::new(&secret_with(1, false));
        assert_eq!(next.check(token, 7, 1000, "bank"), Ok(()));
        for (rkey, uid, name) in [(8, 1000, "bank"), (7, 1001, "bank"), (7, 1000, "bang")] {
            let why = next
                .check(token, rkey, uid, name)
                .expect_err("another's seal");
            assert!(why.contains("to another user"), "{why}");
        }
        let why = next.check(Hex64(0), 7, 1000, "bank").expect_err("made up");
        assert!(why.contains("0x7") && why.contains("`bank`"), "{why}");
    }

    #[test]
    fn a_lost_secret_is_reported() {
        let token = RegionTokens::new(&secret_with(1, false)).seal(7, 1000, "bank");
        let why = RegionTokens::new(&secret_with(2, true))
            .check(token, 7, 1000, "bank")
            .expect_err("another secret");
        assert!(why.contains("generated a new one"), "{why}");
    }
}
