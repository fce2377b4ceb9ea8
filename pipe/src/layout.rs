//! The first word of shared memory: its kind and the version of its layout.

use crate::PipeError;

/// A kind of shared memory, with the version of its layout that this code writes and reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    what: &'static str,
    name: [u8; 7],
    version: u8,
}

impl Layout {
    /// Version 1 to 9 of the layout of `what`, whose first word begins with `name`.
    pub const fn new(what: &'static str, name: [u8; 7], version: u8) -> Self {
        assert!(
            1 <= version && version <= 9,
            "a version is one digit of the first word"
        );
        Self {
            what,
            name,
            version,
        }
    }

    /// The first word: the name and the version's digit, in the order of memory.
    pub const fn word(&self) -> u64 {
        let [a, b, c, d, e, f, g] = self.name;
        u64::from_le_bytes([a, b, c, d, e, f, g, b'0' + self.version])
    }

    /// Checks that memory that begins with `word` is of this kind and version.
    ///
    /// # Errors
    /// [`PipeError::Layout`] if the version differs. [`PipeError::Foreign`] if the memory is of
    /// another kind.
    pub fn check(&self, word: u64) -> Result<(), PipeError> {
        let [name @ .., digit] = word.to_le_bytes();
        if word == self.word() {
            return Ok(());
        }
        Err(if name == self.name && digit.is_ascii_digit() {
            PipeError::Layout {
                what: self.what,
                found: digit - b'0',
                known: self.version,
            }
        } else {
            PipeError::Foreign {
                what: self.what,
                problem: "it does not begin as such memory does",
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_layout_is_refused_with_both_versions_and_the_remedy() {
        let layout = |version| Layout::new("pipe control memory", *b"CVLPIPE", version);
        let known = layout(2);
        assert_eq!(known.word().to_le_bytes(), *b"CVLPIPE2");
        assert!(known.check(layout(2).word()).is_ok());
        for (version, restart) in [(1, "restart covalentd"), (3, "this program")] {
            let text = known
                .check(layout(version).word())
                .expect_err("another version")
                .to_string();
            for part in [&format!("layout {version}"), "layout 2", restart] {
                assert!(text.contains(part), "{text}");
            }
        }
        for word in [0, u64::from_le_bytes(*b"CVLSESS2"), known.word() ^ 1 << 63] {
            assert!(matches!(known.check(word), Err(PipeError::Foreign { .. })));
        }
    }
}
