//! Which verbs there are.

/// Which verb a request is. The numbers are those on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum VerbKind {
    /// Answers bytes.
    Read = 1,
    /// Writes bytes.
    Write = 2,
    /// Writes a word.
    Swap = 3,
    /// Writes a word that is as expected.
    CompareAndSwap = 4,
    /// Adds to a word.
    FetchAdd = 5,
    /// Ands a word.
    FetchAnd = 6,
    /// Ors a word.
    FetchOr = 7,
    /// Exclusive-ors a word.
    FetchXor = 8,
    /// Writes words that all are as expected.
    MultiCommit = 9,
    /// Returns the region that is registered under a name.
    Lookup = 10,
    /// Takes the smaller of two words.
    FetchMin = 11,
    /// Takes the greater of two words.
    FetchMax = 12,
    /// Appends a message to a receive queue.
    Send = 13,
}

impl VerbKind {
    /// Every verb, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 13] = [
        Self::Read,
        Self::Write,
        Self::Swap,
        Self::CompareAndSwap,
        Self::FetchAdd,
        Self::FetchAnd,
        Self::FetchOr,
        Self::FetchXor,
        Self::MultiCommit,
        Self::Lookup,
        Self::FetchMin,
        Self::FetchMax,
        Self::Send,
    ];

    pub(super) fn from_code(code: u8) -> Option<Self> {
        let at = usize::from(code).checked_sub(1)?;
        Self::ALL.get(at).copied()
    }

    /// Stable snake_case name, for counters and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Swap => "swap",
            Self::CompareAndSwap => "compare_and_swap",
            Self::FetchAdd => "fetch_add",
            Self::FetchAnd => "fetch_and",
            Self::FetchOr => "fetch_or",
            Self::FetchXor => "fetch_xor",
            Self::FetchMin => "fetch_min",
            Self::FetchMax => "fetch_max",
            Self::MultiCommit => "multi_commit",
            Self::Lookup => "lookup",
            Self::Send => "send",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_one_verb() {
        for kind in VerbKind::ALL {
            assert_eq!(VerbKind::from_code(kind as u8), Some(kind));
        }
        assert_eq!(VerbKind::from_code(0), None);
        assert_eq!(VerbKind::from_code(14), None);
    }
}
