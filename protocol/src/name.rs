//! A node's name for people.

use core::fmt;

/// A node's name: 1 to 32 bytes of ASCII letters, digits, `-`, `_` and `.`.
///
/// Names arrive from peers and are written to logs and metrics, so no other bytes are accepted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name {
    bytes: [u8; Name::BYTES_MAX],
    len: u8,
    mark: u16,
}

/// The text is no name: empty, longer than [`Name::BYTES_MAX`] bytes, or with a byte that is not
/// allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadName;

impl Name {
    /// Longest name, in bytes.
    pub const BYTES_MAX: usize = 32;

    /// Checks `text`.
    ///
    /// # Errors
    /// [`BadName`] describes a valid name.
    pub fn new(text: &str) -> Result<Self, BadName> {
        Self::from_bytes(text.as_bytes())
    }

    pub(crate) fn from_bytes(text: &[u8]) -> Result<Self, BadName> {
        let allowed =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if text.is_empty() || text.len() > Self::BYTES_MAX || !text.iter().all(allowed) {
            return Err(BadName);
        }
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text);
        Ok(Self {
            bytes,
            len: u8::try_from(text.len()).map_err(|_| BadName)?,
            mark: crate::wire::crc::of(text) as u16,
        })
    }

    /// Short hash of the name where the name itself does not fit: one in 65,536 collides.
    pub(crate) const fn mark(&self) -> u16 {
        self.mark
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a name has 1 to {} bytes of ASCII letters, digits, `-`, `_` and `.`",
            Name::BYTES_MAX
        )
    }
}

impl core::error::Error for BadName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_short_text_is_a_name() {
        assert_eq!(Name::new("rack-1.node_b").map(|name| name.len), Ok(13));
        for bad in ["", "a b", "a\n", "é", &"x".repeat(33)] {
            assert_eq!(Name::new(bad), Err(BadName), "{bad:?}");
        }
    }
}
