//! The key of the receive-side scaling hash.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

use super::table::Table;

/// Length of the key in bytes: enough for two IPv6 addresses and two ports.
pub const RSS_KEY_BYTES: usize = 40;

/// Key of the Toeplitz hash. The text form has 80 hexadecimal digits, optionally with a colon
/// between bytes (as `ethtool -x` prints it).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RssKey([u8; RSS_KEY_BYTES]);

/// Why a text is no [`RssKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRssKey {
    /// It is not 40 bytes of hexadecimal digits.
    #[error("expected 40 bytes in hexadecimal: 80 digits, or 40 pairs with a colon between")]
    NotHexadecimal,
    /// Every flow has hash 0 under it.
    #[error(
        "a key of zeros gives every flow the same hash; expected 40 bytes of which some are not 0"
    )]
    Zero,
}

impl RssKey {
    /// The key of Microsoft's verification suite ("Verifying the RSS hash calculation"). Most NICs
    /// use it by default.
    pub const MICROSOFT: Self = Self([
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ]);

    /// 0x6d5a repeated twenty times (Woo and Park, 2012): both directions of a connection have the
    /// same hash. Only 16 bits of the hash are significant.
    pub const SYMMETRIC: Self = {
        let mut key = [0x6d; RSS_KEY_BYTES];
        let mut at = 1;
        while at < RSS_KEY_BYTES {
            key[at] = 0x5a;
            at += 2;
        }
        Self(key)
    };

    /// The key with these bytes.
    ///
    /// # Errors
    /// [`BadRssKey::Zero`].
    pub fn new(bytes: [u8; RSS_KEY_BYTES]) -> Result<Self, BadRssKey> {
        if bytes == [0; RSS_KEY_BYTES] {
            return Err(BadRssKey::Zero);
        }
        Ok(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; RSS_KEY_BYTES] {
        &self.0
    }

    /// Reads the key `name` of a table. `table` records an invalid value.
    pub(super) fn read(table: &mut Table<'_, '_>, name: &'static str) -> Option<Self> {
        let text = table.text(name, "40 bytes in hexadecimal")?;
        text.parse()
            .map_err(|error: BadRssKey| table.refuse(name, error.to_string()))
            .ok()
    }
}

impl FromStr for RssKey {
    type Err = BadRssKey;

    fn from_str(text: &str) -> Result<Self, BadRssKey> {
        let pair_chars = match text.len() {
            80 => 2,
            119 => 3,
            _ => return Err(BadRssKey::NotHexadecimal),
        };
        let mut bytes = [0; RSS_KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(pair_chars)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            let separated = pair.get(2).is_none_or(|&between| between == b':');
            *byte = match (digit(0), digit(1), separated) {
                (Some(high), Some(low), true) => (high << 4 | low) as u8,
                _ => return Err(BadRssKey::NotHexadecimal),
            };
        }
        Self::new(bytes)
    }
}

impl fmt::Display for RssKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RssKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RssKey({self})")
    }
}

impl Serialize for RssKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read_and_nothing_else_is() {
        let plain = RssKey::MICROSOFT.to_string();
        let pairs: Vec<&str> = (0..40).map(|at| &plain[2 * at..2 * at + 2]).collect();
        assert_eq!(plain.parse(), Ok(RssKey::MICROSOFT));
        assert_eq!(
            pairs.join(":").to_uppercase().parse(),
            Ok(RssKey::MICROSOFT)
        );
        assert_eq!("6d5a".repeat(20).parse(), Ok(RssKey::SYMMETRIC));
        for bad in [
            String::new(),
            plain[..78].to_owned(),
            plain.clone() + "0",
            plain.replacen('6', "+", 1),
            plain.replacen("6d", "é", 1),
            pairs.join("-"),
            plain.clone() + &plain[..39],
        ] {
            assert_eq!(
                bad.parse::<RssKey>(),
                Err(BadRssKey::NotHexadecimal),
                "{bad}"
            );
        }
        assert_eq!("00".repeat(40).parse::<RssKey>(), Err(BadRssKey::Zero));
    }
}
