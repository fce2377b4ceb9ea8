//! Tokens authenticate the incarnation that an envelope names.
//!
//! The node of a sender is known, but its application is not. Each envelope therefore carries a
//! token. Its receiver drew the token and sent it only to the sender's queue. Only the owner of a
//! queue reads it, and no key is assigned twice.

use core::fmt;

use siphasher::sip::SipHasher24;

/// The key of an incarnation's tokens: unpredictable, new for each incarnation, and known to no
/// other process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

/// 64 bits that prove the ownership of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Token(
    /// 0 for none.
    pub u64,
);

impl Token {
    /// No token.
    pub const NONE: Self = Self(0);

    /// Whether there is none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl Secret {
    /// The token of the owner of the queue `rkey` on the node `guid`: a `SipHash`-2-4, never
    /// [`Token::NONE`].
    #[must_use]
    pub fn token_for(&self, guid: u64, rkey: u32) -> Token {
        let mut queue = [0; 12];
        queue[..8].copy_from_slice(&guid.to_le_bytes());
        queue[8..].copy_from_slice(&rkey.to_le_bytes());
        Token(SipHasher24::new_with_key(&self.0).hash(&queue).max(1))
    }
}

impl fmt::Debug for Secret {
    /// Nothing of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for Token {
    /// Nothing of it but whether there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() {
            "Token(none)"
        } else {
            "Token(..)"
        })
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn a_token_is_of_one_secret_one_node_and_one_queue() {
        let token = Secret([7; 16]).token_for(1, 2);
        assert_eq!(token, Secret([7; 16]).token_for(1, 2));
        assert_ne!(token, Secret([8; 16]).token_for(1, 2));
        assert_ne!(token, Secret([7; 16]).token_for(2, 2));
        assert_ne!(token, Secret([7; 16]).token_for(1, 3));
        assert!(!token.is_none());
    }

    #[test]
    fn nothing_of_a_secret_or_a_token_is_printed() {
        let secret = Secret([0xab; 16]);
        let printed = format!("{secret:?} {:?}", secret.token_for(1, 2));
        assert_eq!(printed, "Secret(..) Token(..)");
    }
}
