//! Requests.

use core::fmt;

use super::{
    BufferTooShort, Comparison, Condition, LOOKUP_NAME_BYTES_MAX, MULTI_COMMIT_WORDS_MAX, Order,
    READ_BYTES_MAX, SEND_BYTES_MAX, Update, VerbKind, WRITE_BYTES_MAX, space, u32_at, u64_at,
};

pub(crate) const HEADER_BYTES: usize = 12;
pub(super) const WORD_BYTES: usize = 20;

/// The bits of the flags that select the condition.
const CONDITION_BITS: u8 = 0x0f;
/// The flag of words that are compared as signed numbers.
const SIGNED: u8 = 0x10;

/// A request to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Key of the region; 0 for [`Verb::Lookup`].
    pub rkey: u32,
    /// Byte offset in the region; a multiple of 8 for verbs on a word, 0 for [`Verb::MultiCommit`],
    /// [`Verb::Lookup`] and [`Verb::Send`].
    pub offset: u32,
    /// The operation.
    pub verb: Verb<'a>,
}

/// An operation on a region.
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
    /// Writes the word and returns the old one.
    Swap {
        /// The new word.
        new: u64,
    },
    /// Writes the word if the old one is as expected. Returns the old one.
    CompareAndSwap {
        /// The expected old word.
        expected: u64,
        /// The new word.
        new: u64,
    },
    /// Adds, wrapping, and returns the old word.
    FetchAdd {
        /// The summand.
        delta: u64,
    },
    /// Bitwise and; returns the old word.
    FetchAnd {
        /// The operand.
        mask: u64,
    },
    /// Bitwise or; returns the old word.
    FetchOr {
        /// The operand.
        mask: u64,
    },
    /// Bitwise exclusive or; returns the old word.
    FetchXor {
        /// The operand.
        mask: u64,
    },
    /// Writes the operand if it is less than the old word. Returns the old word.
    FetchMin {
        /// The operand.
        operand: u64,
        /// How the two are compared.
        order: Order,
    },
    /// Writes the operand if it is greater than the old word. Returns the old word.
    FetchMax {
        /// The operand.
        operand: u64,
        /// How the two are compared.
        order: Order,
    },
    /// Changes the word if the old one meets a condition. Returns the old one.
    Conditional {
        /// The condition.
        condition: Condition,
        /// The change.
        update: Update,
    },
    /// Writes all words if all are as expected, else none; answers the first that was not.
    MultiCommit(MultiCommit<'a>),
    /// Returns the region that is registered under a name.
    Lookup {
        /// 1 to [`LOOKUP_NAME_BYTES_MAX`] bytes of UTF-8.
        name: &'a str,
    },
    /// Appends a message to a receive queue: whole, or not at all.
    Send {
        /// 1 to [`SEND_BYTES_MAX`] bytes.
        data: &'a [u8],
    },
}

/// One word of a [`Verb::MultiCommit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Byte offset in the region, a multiple of 8.
    pub offset: u32,
    /// The expected old word.
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
    /// [`DecodeError::Length`] for none or too many of them, [`DecodeError::Misaligned`] for a bad
    /// offset.
    pub fn new(words: &'a [Word]) -> Result<Self, DecodeError> {
        Self(Words::Values(words)).checked()
    }

    /// The words of a request that was decoded before.
    pub(crate) const fn of_checked(operands: &'a [u8]) -> Self {
        Self(Words::Encoded(operands))
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
                    offset: u32_at(bytes, at),
                    expected: u64_at(bytes, at + 4),
                    new: u64_at(bytes, at + 12),
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
    /// The offset of a word is not a multiple of 8.
    Misaligned {
        /// The offset.
        offset: u32,
    },
    /// A field that the operation does not use is not zero.
    Reserved,
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
                Verb::Read { .. } => 0,
                Verb::Write { data } | Verb::Send { data } => data.len(),
                Verb::CompareAndSwap { .. } | Verb::Conditional { .. } => 16,
                Verb::MultiCommit(words) => words.len() * WORD_BYTES,
                Verb::Lookup { name } => name.len(),
                Verb::Swap { .. }
                | Verb::FetchAdd { .. }
                | Verb::FetchAnd { .. }
                | Verb::FetchOr { .. }
                | Verb::FetchXor { .. }
                | Verb::FetchMin { .. }
                | Verb::FetchMax { .. } => 8,
            }
    }

    /// Whether a peer of this version would decode it.
    ///
    /// # Errors
    /// The error that [`Request::decode`] would return.
    pub fn check(&self) -> Result<(), DecodeError> {
        let within = |len: usize, max: usize| {
            if (1..=max).contains(&len) {
                Ok(())
            } else {
                Err(DecodeError::Length)
            }
        };
        if let Some((len, max)) = self.verb.length_bytes() {
            within(len, max)?;
        }
        match &self.verb {
            Verb::Read { .. } | Verb::Write { .. } => Ok(()),
            Verb::Lookup { name } => {
                within(name.len(), LOOKUP_NAME_BYTES_MAX)?;
                zero(self.rkey)?;
                zero(self.offset)
            }
            Verb::MultiCommit(_) | Verb::Send { .. } => zero(self.offset),
            _ => aligned(self.offset),
        }
    }

    /// Writes the request to the start of `out` and returns its length. Does not call
    /// [`Request::check`].
    ///
    /// # Errors
    /// `out` is shorter than [`Request::encoded_bytes`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooShort> {
        let needed = self.encoded_bytes();
        let (header, operands) = space(out, needed)?.split_at_mut(HEADER_BYTES);
        let put = |operands: &mut [u8], first: u64, second: u64| {
            operands[..8].copy_from_slice(&first.to_le_bytes());
            operands[8..].copy_from_slice(&second.to_le_bytes());
        };
        let (mut flags, mut count) = (0, 0);
        match &self.verb {
            Verb::Read { len } => count = usize::try_from(*len).unwrap_or(usize::MAX),
            Verb::Write { data } | Verb::Send { data } => {
                operands.copy_from_slice(data);
                count = data.len();
            }
            Verb::CompareAndSwap { expected, new } => put(operands, *expected, *new),
            Verb::Conditional { condition, update } => {
                flags = condition.comparison as u8 | order_flag(condition.order);
                put(operands, condition.comparand, update.operand());
            }
            Verb::MultiCommit(words) => {
                for (word, space) in words.iter().zip(operands.chunks_exact_mut(WORD_BYTES)) {
                    space[..4].copy_from_slice(&word.offset.to_le_bytes());
                    put(&mut space[4..], word.expected, word.new);
                }
                count = words.len();
            }
            Verb::Lookup { name } => {
                operands.copy_from_slice(name.as_bytes());
                count = name.len();
            }
            Verb::FetchMin { operand, order } | Verb::FetchMax { operand, order } => {
                flags = order_flag(*order);
                operands.copy_from_slice(&operand.to_le_bytes());
            }
            Verb::Swap { new: operand }
            | Verb::FetchAdd { delta: operand }
            | Verb::FetchAnd { mask: operand }
            | Verb::FetchOr { mask: operand }
            | Verb::FetchXor { mask: operand } => operands.copy_from_slice(&operand.to_le_bytes()),
        }
        header[0] = self.verb.kind() as u8;
        header[1] = flags;
        // An oversized count cannot pass `check`. The peer refuses a count that does not match the
        // length.
        header[2..4].copy_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
        header[4..8].copy_from_slice(&self.rkey.to_le_bytes());
        header[8..12].copy_from_slice(&self.offset.to_le_bytes());
        Ok(needed)
    }

    /// Decodes a request that fills `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not a request.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (header, operands) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(DecodeError::Truncated)?;
        let kind =
            VerbKind::from_code(header[0]).ok_or(DecodeError::UnknownOperation(header[0]))?;
        let count = usize::from(u16::from_le_bytes([header[2], header[3]]));
        let request = Self {
            rkey: u32_at(header, 4),
            offset: u32_at(header, 8),
            verb: match header[1] {
                0 => unconditional(kind, count, operands)?,
                flags => flagged(kind, flags, count, operands)?,
            },
        };
        request.check()?;
        Ok(request)
    }
}

/// The verb of a request without flags.
fn unconditional(kind: VerbKind, count: usize, operands: &[u8]) -> Result<Verb<'_>, DecodeError> {
    let one = || match operands.try_into() {
        Ok(word) if count == 0 => Ok(u64::from_le_bytes(word)),
        _ => Err(DecodeError::Length),
    };
    let exactly = |len: usize| {
        if operands.len() == len {
            Ok(operands)
        } else {
            Err(DecodeError::Length)
        }
    };
    Ok(match kind {
        VerbKind::Read => {
            exactly(0)?;
            Verb::Read {
                len: u32::try_from(count).unwrap_or(u32::MAX),
            }
        }
        VerbKind::Write => Verb::Write {
            data: exactly(count)?,
        },
        VerbKind::Swap => Verb::Swap { new: one()? },
        VerbKind::CompareAndSwap => {
            let (expected, new) = two(count, operands)?;
            Verb::CompareAndSwap { expected, new }
        }
        VerbKind::FetchAdd => Verb::FetchAdd { delta: one()? },
        VerbKind::FetchAnd => Verb::FetchAnd { mask: one()? },
        VerbKind::FetchOr => Verb::FetchOr { mask: one()? },
        VerbKind::FetchXor => Verb::FetchXor { mask: one()? },
        VerbKind::FetchMin => Verb::FetchMin {
            operand: one()?,
            order: Order::Unsigned,
        },
        VerbKind::FetchMax => Verb::FetchMax {
            operand: one()?,
            order: Order::Unsigned,
        },
        VerbKind::MultiCommit => {
            Verb::MultiCommit(MultiCommit(Words::Encoded(exactly(count * WORD_BYTES)?)).checked()?)
        }
        VerbKind::Send => Verb::Send {
            data: exactly(count)?,
        },
        VerbKind::Lookup => Verb::Lookup {
            name: core::str::from_utf8(exactly(count)?).map_err(|_| DecodeError::Name)?,
        },
    })
}

/// The verb of a request with flags: a conditional one, or a minimum or maximum of signed words.
fn flagged(
    kind: VerbKind,
    flags: u8,
    count: usize,
    operands: &[u8],
) -> Result<Verb<'_>, DecodeError> {
    let unknown = || DecodeError::UnknownFlags(flags);
    if flags & !(CONDITION_BITS | SIGNED) != 0 {
        return Err(unknown());
    }
    let order = if flags & SIGNED == 0 {
        Order::Unsigned
    } else {
        Order::Signed
    };
    if flags & CONDITION_BITS == 0 {
        return match unconditional(kind, count, operands)? {
            Verb::FetchMin { operand, .. } => Ok(Verb::FetchMin { operand, order }),
            Verb::FetchMax { operand, .. } => Ok(Verb::FetchMax { operand, order }),
            _ => Err(unknown()),
        };
    }
    let comparison = Comparison::from_code(flags & CONDITION_BITS).ok_or_else(unknown)?;
    let update = Update::of_kind(kind).ok_or_else(unknown)?;
    let (comparand, operand) = two(count, operands)?;
    Ok(Verb::Conditional {
        condition: Condition {
            comparison,
            comparand,
            order,
        },
        update: update(operand),
    })
}

fn two(count: usize, operands: &[u8]) -> Result<(u64, u64), DecodeError> {
    if operands.len() == 16 && count == 0 {
        Ok((u64_at(operands, 0), u64_at(operands, 8)))
    } else {
        Err(DecodeError::Length)
    }
}

const fn order_flag(order: Order) -> u8 {
    match order {
        Order::Unsigned => 0,
        Order::Signed => SIGNED,
    }
}

impl Verb<'_> {
    /// The kind of the verb. A conditional verb has the kind of the verb that it performs if its
    /// condition is met.
    #[must_use]
    pub const fn kind(&self) -> VerbKind {
        match self {
            Self::Read { .. } => VerbKind::Read,
            Self::Write { .. } => VerbKind::Write,
            Self::Swap { .. } => VerbKind::Swap,
            Self::CompareAndSwap { .. } => VerbKind::CompareAndSwap,
            Self::FetchAdd { .. } => VerbKind::FetchAdd,
            Self::FetchAnd { .. } => VerbKind::FetchAnd,
            Self::FetchOr { .. } => VerbKind::FetchOr,
            Self::FetchXor { .. } => VerbKind::FetchXor,
            Self::FetchMin { .. } => VerbKind::FetchMin,
            Self::FetchMax { .. } => VerbKind::FetchMax,
            Self::Conditional { update, .. } => update.kind(),
            Self::MultiCommit(_) => VerbKind::MultiCommit,
            Self::Lookup { .. } => VerbKind::Lookup,
            Self::Send { .. } => VerbKind::Send,
        }
    }

    /// Stable snake_case name, for counters and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().as_str()
    }

    /// Bytes to read or of data, and the most of them, of a verb that has 1 or more.
    #[must_use]
    pub fn length_bytes(&self) -> Option<(usize, usize)> {
        match self {
            Self::Read { len } => {
                Some((usize::try_from(*len).unwrap_or(usize::MAX), READ_BYTES_MAX))
            }
            Self::Write { data } => Some((data.len(), WRITE_BYTES_MAX)),
            Self::Send { data } => Some((data.len(), SEND_BYTES_MAX)),
            _ => None,
        }
    }
}

const fn zero(reserved: u32) -> Result<(), DecodeError> {
    if reserved == 0 {
        Ok(())
    } else {
        Err(DecodeError::Reserved)
    }
}

const fn aligned(offset: u32) -> Result<(), DecodeError> {
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
                write!(f, "offset {offset} of a word is not a multiple of 8")
            }
            Self::Reserved => f.write_str("a byte that the operation has no use for is not zero"),
            Self::Name => f.write_str("the name is not UTF-8"),
            Self::UnknownStatus(status) => write!(f, "status {status} is not known"),
        }
    }
}

impl core::error::Error for DecodeError {}
