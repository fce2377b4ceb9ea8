//! Requests.

use core::fmt;

use super::{
    BufferTooShort, LOOKUP_NAME_BYTES_MAX, MULTI_COMMIT_WORDS_MAX, READ_BYTES_MAX, WRITE_BYTES_MAX,
    space, u64_at,
};

pub(super) const HEADER_BYTES: usize = 16;
pub(super) const WORD_BYTES: usize = 24;

const READ: u8 = 1;
const WRITE: u8 = 2;
const SWAP: u8 = 3;
const COMPARE_AND_SWAP: u8 = 4;
const FETCH_ADD: u8 = 5;
const FETCH_AND: u8 = 6;
const FETCH_OR: u8 = 7;
const FETCH_XOR: u8 = 8;
const MULTI_COMMIT: u8 = 9;
const LOOKUP: u8 = 10;

/// What is asked of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Key of the region; 0 for [`Verb::Lookup`].
    pub rkey: u32,
    /// Byte offset in the region; a multiple of 8 for atomics, 0 for [`Verb::MultiCommit`] and [`Verb::Lookup`].
    pub offset: u64,
    /// What to do there.
    pub verb: Verb<'a>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb<'a> {
    /// Answers the bytes. Torn between 64-bit words if others write meanwhile.
    Read {
        /// 1 to [`READ_BYTES_MAX`].
        len: u32,
    },
    /// Writes the bytes.
    Write {
        /// 1 to [`WRITE_BYTES_MAX`] bytes.
        data: &'a [u8],
    },
    /// Writes the word, answers the old one.
    Swap {
        /// The new word.
        new: u64,
    },
    /// Writes the word if the old one is as expected; answers the old one.
    CompareAndSwap {
        /// The old word that is expected.
        expected: u64,
        /// The new word.
        new: u64,
    },
    /// Adds, wrapping; answers the old word.
    FetchAdd {
        /// What to add.
        delta: u64,
    },
    /// Bitwise and; answers the old word.
    FetchAnd {
        /// The operand.
        mask: u64,
    },
    /// Bitwise or; answers the old word.
    FetchOr {
        /// The operand.
        mask: u64,
    },
    /// Bitwise exclusive or; answers the old word.
    FetchXor {
        /// The operand.
        mask: u64,
    },
    /// Writes all words if all are as expected, else none; answers the first that was not.
    MultiCommit(MultiCommit<'a>),
    /// Answers what is registered under a name.
    Lookup {
        /// 1 to [`LOOKUP_NAME_BYTES_MAX`] bytes of UTF-8.
        name: &'a str,
    },
}

/// One word of a [`Verb::MultiCommit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Byte offset in the region, a multiple of 8.
    pub offset: u64,
    /// The old word that is expected.
    pub expected: u64,
    /// The new word.
    pub new: u64,
}

/// The words of a [`Verb::MultiCommit`]: 1 to [`MULTI_COMMIT_WORDS_MAX`], each at a multiple of 8.
#[derive(Clone, Copy)]
pub struct MultiCommit<'a>(Words<'a>);

#[derive(Clone, Copy)]
enum Words<'a> {
    Values(&'a [Word]),
    Encoded(&'a [u8]),
}

impl<'a> MultiCommit<'a> {
    /// Checks the words.
    ///
    /// # Errors
    /// [`DecodeError::Length`] for none or too many of them, [`DecodeError::Misaligned`] for a bad offset.
    pub fn new(words: &'a [Word]) -> Result<Self, DecodeError> {
        Self(Words::Values(words)).checked()
    }

    fn checked(self) -> Result<Self, DecodeError> {
        if !(1..=MULTI_COMMIT_WORDS_MAX).contains(&self.len()) {
            return Err(DecodeError::Length);
        }
        self.iter().try_for_each(|word| aligned(word.offset))?;
        Ok(self)
    }

    /// How many words there are.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "there is always one word at least"
    )]
    pub const fn len(&self) -> usize {
        match self.0 {
            Words::Values(words) => words.len(),
            Words::Encoded(bytes) => bytes.len() / WORD_BYTES,
        }
    }

    /// The words, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Word> + use<'a> {
        let words = self.0;
        (0..self.len()).map(move |at| match words {
            Words::Values(words) => words[at],
            Words::Encoded(bytes) => {
                let at = at * WORD_BYTES;
                Word {
                    offset: u64_at(bytes, at),
                    expected: u64_at(bytes, at + 8),
                    new: u64_at(bytes, at + 16),
                }
            }
        })
    }
}

impl PartialEq for MultiCommit<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for MultiCommit<'_> {}

impl fmt::Debug for MultiCommit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Why bytes are not a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// Shorter than a header.
    Truncated,
    /// An operation that this version does not know.
    UnknownOperation(u8),
    /// Flags that this version does not know.
    UnknownFlags(u8),
    /// The length is not the one that the operation has, or outside its range.
    Length,
    /// The offset of an atomic is not a multiple of 8.
    Misaligned {
        /// The offset.
        offset: u64,
    },
    /// A name that is not UTF-8.
    Name,
    /// A reply with a status that this version does not know.
    UnknownStatus(u8),
}

impl<'a> Request<'a> {
    /// Bytes that [`Request::encode`] writes.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES
            + match &self.verb {
                Verb::Read { .. } => 4,
                Verb::Write { data } => data.len(),
                Verb::CompareAndSwap { .. } => 16,
                Verb::MultiCommit(words) => words.len() * WORD_BYTES,
                Verb::Lookup { name } => name.len(),
                Verb::Swap { .. }
                | Verb::FetchAdd { .. }
                | Verb::FetchAnd { .. }
                | Verb::FetchOr { .. }
                | Verb::FetchXor { .. } => 8,
            }
    }

    /// Whether a peer of this version would decode it.
    ///
    /// # Errors
    /// What [`Request::decode`] would say of it.
    pub fn check(&self) -> Result<(), DecodeError> {
        let within = |len: usize, max: usize| {
            if (1..=max).contains(&len) {
                Ok(())
            } else {
                Err(DecodeError::Length)
            }
        };
        match &self.verb {
            Verb::Read { len } => {
                within(usize::try_from(*len).unwrap_or(usize::MAX), READ_BYTES_MAX)
            }
            Verb::Write { data } => within(data.len(), WRITE_BYTES_MAX),
            Verb::Lookup { name } => within(name.len(), LOOKUP_NAME_BYTES_MAX),
            Verb::MultiCommit(_) => Ok(()),
            _ => aligned(self.offset),
        }
    }

    /// Writes the request to the start of `out` and returns its length. Does not [`Request::check`].
    ///
    /// # Errors
    /// `out` is shorter than [`Request::encoded_bytes`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooShort> {
        let needed = self.encoded_bytes();
        let (header, operands) = space(out, needed)?.split_at_mut(HEADER_BYTES);
        let two = |a: u64, b: u64| {
            let mut both = [0; 16];
            both[..8].copy_from_slice(&a.to_le_bytes());
            both[8..].copy_from_slice(&b.to_le_bytes());
            both
        };
        let mut one = |word: u64| operands.copy_from_slice(&word.to_le_bytes());
        let (op, count) = match &self.verb {
            Verb::Read { len } => {
                operands.copy_from_slice(&len.to_le_bytes());
                (READ, 0)
            }
            Verb::Write { data } => {
                operands.copy_from_slice(data);
                (WRITE, data.len())
            }
            Verb::Swap { new } => {
                one(*new);
                (SWAP, 0)
            }
            Verb::CompareAndSwap { expected, new } => {
                operands.copy_from_slice(&two(*expected, *new));
                (COMPARE_AND_SWAP, 0)
            }
            Verb::FetchAdd { delta } => {
                one(*delta);
                (FETCH_ADD, 0)
            }
            Verb::FetchAnd { mask } => {
                one(*mask);
                (FETCH_AND, 0)
            }
            Verb::FetchOr { mask } => {
                one(*mask);
                (FETCH_OR, 0)
            }
            Verb::FetchXor { mask } => {
                one(*mask);
                (FETCH_XOR, 0)
            }
            Verb::MultiCommit(words) => {
                for (word, space) in words.iter().zip(operands.chunks_exact_mut(WORD_BYTES)) {
                    space[..8].copy_from_slice(&word.offset.to_le_bytes());
                    space[8..].copy_from_slice(&two(word.expected, word.new));
                }
                (MULTI_COMMIT, words.len())
            }
            Verb::Lookup { name } => {
                operands.copy_from_slice(name.as_bytes());
                (LOOKUP, name.len())
            }
        };
        header[0] = op;
        header[1] = 0;
        // A count that does not fit cannot pass `check`; the peer refuses what does not fit its length.
        header[2..4].copy_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
        header[4..8].copy_from_slice(&self.rkey.to_le_bytes());
        header[8..16].copy_from_slice(&self.offset.to_le_bytes());
        Ok(needed)
    }

    /// Reads a request that fills `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] says what is wrong with it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (header, operands) = bytes
            .split_at_checked(HEADER_BYTES)
            .ok_or(DecodeError::Truncated)?;
        if header[1] != 0 {
            return Err(DecodeError::UnknownFlags(header[1]));
        }
        let count = usize::from(u16::from_le_bytes([header[2], header[3]]));
        let offset = u64_at(header, 8);
        let one = || {
            if operands.len() == 8 && count == 0 {
                Ok(u64_at(operands, 0))
            } else {
                Err(DecodeError::Length)
            }
        };
        let counted = || {
            if operands.len() == count {
                Ok(operands)
            } else {
                Err(DecodeError::Length)
            }
        };
        let verb = match header[0] {
            READ => {
                let len: [u8; 4] = operands.try_into().map_err(|_| DecodeError::Length)?;
                if count != 0 {
                    return Err(DecodeError::Length);
                }
                Verb::Read {
                    len: u32::from_le_bytes(len),
                }
            }
            WRITE => Verb::Write { data: counted()? },
            SWAP => Verb::Swap { new: one()? },
            COMPARE_AND_SWAP if operands.len() == 16 && count == 0 => Verb::CompareAndSwap {
                expected: u64_at(operands, 0),
                new: u64_at(operands, 8),
            },
            COMPARE_AND_SWAP => return Err(DecodeError::Length),
            FETCH_ADD => Verb::FetchAdd { delta: one()? },
            FETCH_AND => Verb::FetchAnd { mask: one()? },
            FETCH_OR => Verb::FetchOr { mask: one()? },
            FETCH_XOR => Verb::FetchXor { mask: one()? },
            MULTI_COMMIT if operands.len() == count * WORD_BYTES => {
                Verb::MultiCommit(MultiCommit(Words::Encoded(operands)).checked()?)
            }
            MULTI_COMMIT => return Err(DecodeError::Length),
            LOOKUP => Verb::Lookup {
                name: core::str::from_utf8(counted()?).map_err(|_| DecodeError::Name)?,
            },
            unknown => return Err(DecodeError::UnknownOperation(unknown)),
        };
        let rkey = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let request = Self { rkey, offset, verb };
        request.check()?;
        Ok(request)
    }
}

impl Verb<'_> {
    /// Stable snake_case name, for counters and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Swap { .. } => "swap",
            Self::CompareAndSwap { .. } => "compare_and_swap",
            Self::FetchAdd { .. } => "fetch_add",
            Self::FetchAnd { .. } => "fetch_and",
            Self::FetchOr { .. } => "fetch_or",
            Self::FetchXor { .. } => "fetch_xor",
            Self::MultiCommit(_) => "multi_commit",
            Self::Lookup { .. } => "lookup",
        }
    }
}

const fn aligned(offset: u64) -> Result<(), DecodeError> {
    if offset.is_multiple_of(8) {
        Ok(())
    } else {
        Err(DecodeError::Misaligned { offset })
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("shorter than its header"),
            Self::UnknownOperation(op) => write!(f, "operation {op} is not known"),
            Self::UnknownFlags(flags) => write!(f, "flags {flags:#04x} are not known"),
            Self::Length => f.write_str("the length does not fit the operation"),
            Self::Misaligned { offset } => {
                write!(f, "offset {offset} of an atomic is not a multiple of 8")
            }
            Self::Name => f.write_str("the name is not UTF-8"),
            Self::UnknownStatus(status) => write!(f, "status {status} is not known"),
        }
    }
}

impl core::error::Error for DecodeError {}
