//! Verbs that programs request on a region.

use std::fmt;

use covalent_protocol::verb::{
    self, Comparison, Condition, MultiCommit, Order, Request, Verb, Word,
};
use fastrand::Rng;

use crate::region::{
    ACCOUNTS, BUSY_ACCOUNTS, COUNTER, DATA_BYTES, DATA_OFFSET, FIRST_ACCOUNT, FIRST_SCRATCH, NAME,
    READ_ONLY_RKEY, REGION_BYTES, RKEY, SCRATCH, WORD_BYTES,
};

/// One verb, with its operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Adds to the counter.
    Count { delta: u64 },
    /// Moves amounts between accounts, if each still holds the value that the initiator read.
    Transfer(Vec<Change>),
    /// One of the verbs on one word.
    Update {
        word: usize,
        how: Update,
        operand: u64,
    },
    /// The same, if the word meets a condition.
    Conditional {
        word: usize,
        /// How it must stand to the comparand.
        comparison: Comparison,
        /// Right operand of the comparison.
        comparand: u64,
        /// The two are compared as signed numbers.
        signed: bool,
        how: Update,
        operand: u64,
    },
    /// Swaps a word if it is as expected.
    CompareAndSwap {
        word: usize,
        expected: u64,
        new: u64,
    },
    /// Reads bytes.
    Read { offset: usize, len: usize },
    /// Writes bytes.
    Write { offset: usize, data: Vec<u8> },
    /// Looks a region up.
    Lookup { name: &'static str },
    /// Something that is to be refused.
    Mistake(Mistake),
}

/// Change of one account in a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub account: usize,
    /// Value that the initiator read.
    pub seen: u64,
    /// Amount to add, wrapping.
    pub delta: u64,
}

/// A verb that changes one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Swap.
    Swap,
    /// Fetch and add.
    Add,
    /// Fetch and and.
    And,
    /// Fetch and or.
    Or,
    /// Fetch and exclusive or.
    Xor,
    /// Fetch and take the smaller one, as signed numbers or not.
    Min(bool),
    /// Fetch and take the greater one, as signed numbers or not.
    Max(bool),
}

impl Update {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Swap,
        Self::Add,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Min(false),
        Self::Min(true),
        Self::Max(false),
        Self::Max(true),
    ];

    const fn with(self, operand: u64) -> verb::Update {
        match self {
            Self::Swap => verb::Update::Swap(operand),
            Self::Add => verb::Update::Add(operand),
            Self::And => verb::Update::And(operand),
            Self::Or => verb::Update::Or(operand),
            Self::Xor => verb::Update::Xor(operand),
            Self::Min(_) => verb::Update::Min(operand),
            Self::Max(_) => verb::Update::Max(operand),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Add => "fetch and add",
            Self::And => "fetch and and",
            Self::Or => "fetch and or",
            Self::Xor => "fetch and xor",
            Self::Min(_) => "fetch and min",
            Self::Max(_) => "fetch and max",
        }
    }
}

const fn order(signed: bool) -> Order {
    if signed {
        Order::Signed
    } else {
        Order::Unsigned
    }
}

/// A request that no node may execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// No such region.
    UnknownRegion,
    /// Beyond the region's end.
    OutOfBounds,
    /// The region does not grant it.
    NoRight,
    /// Not a request at all.
    Garbage,
}

impl Operation {
    /// Draws a verb. `words` is the initiator's view of the region. `verb_bytes_max` limits the
    /// verb and its reply.
    pub fn draw(rng: &mut Rng, words: &[u64], verb_bytes_max: usize) -> Self {
        let data_bytes_max = (verb_bytes_max / 2).clamp(8, DATA_BYTES);
        let scratch = |rng: &mut Rng| FIRST_SCRATCH + rng.usize(..SCRATCH);
        match rng.u8(..20) {
            0..=4 => Self::Count {
                delta: rng.u64(1..10),
            },
            5..=8 => Self::transfer(rng, words, verb_bytes_max),
            9..=11 => Self::Update {
                word: scratch(rng),
                how: Update::ALL[rng.usize(..Update::ALL.len())],
                operand: rng.u64(..),
            },
            12 | 13 => {
                let word = scratch(rng);
                Self::Conditional {
                    word,
                    comparison: [
                        Comparison::Equal,
                        Comparison::Less,
                        Comparison::LessOrEqual,
                        Comparison::Greater,
                        Comparison::GreaterOrEqual,
                    ][rng.usize(..5)],
                    comparand: if rng.bool() { words[word] } else { rng.u64(..) },
                    signed: rng.bool(),
                    how: Update::ALL[rng.usize(..Update::ALL.len())],
                    operand: rng.u64(..),
                }
            }
            14 => {
                let word = scratch(rng);
                Self::CompareAndSwap {
                    word,
                    expected: words[word],
                    new: rng.u64(..),
                }
            }
            15 | 16 => {
                let len = rng.usize(1..=data_bytes_max);
                Self::Read {
                    offset: rng.usize(..=REGION_BYTES - len),
                    len,
                }
            }
            17 => {
                let len = rng.usize(1..=data_bytes_max);
                Self::Write {
                    offset: DATA_OFFSET + rng.usize(..=DATA_BYTES - len),
                    data: (0..len).map(|_| rng.u8(..)).collect(),
                }
            }
            18 => Self::Lookup { name: NAME },
            _ => Self::Mistake(
                [
                    Mistake::UnknownRegion,
                    Mistake::OutOfBounds,
                    Mistake::NoRight,
                    Mistake::Garbage,
                ][rng.usize(..4)],
            ),
        }
    }

    /// Takes from one account and gives to all other drawn accounts: one to three, rarely as many
    /// as fit.
    fn transfer(rng: &mut Rng, words: &[u64], verb_bytes_max: usize) -> Self {
        // 12 bytes of header, and 20 for each word.
        let fitting = (verb_bytes_max.saturating_sub(12) / 20).min(ACCOUNTS);
        let (accounts, count) = if fitting > 4 && rng.u8(..8) == 0 {
            (ACCOUNTS, rng.usize(2..=fitting))
        } else {
            (BUSY_ACCOUNTS, rng.usize(2..=4))
        };
        let first = rng.usize(..accounts);
        let mut payer = Change {
            account: first,
            seen: words[FIRST_ACCOUNT + first],
            delta: 0,
        };
        let mut changes = Vec::new();
        for step in 1..count {
            let account = (first + step) % accounts;
            let amount = rng.u64(1..100);
            payer.delta = payer.delta.wrapping_sub(amount);
            changes.push(Change {
                account,
                seen: words[FIRST_ACCOUNT + account],
                delta: amount,
            });
        }
        changes.push(payer);
        Self::Transfer(changes)
    }

    /// The request, as the verb engine reads it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let offset_of = |word: usize| (word * WORD_BYTES) as u32;
        let mut words = Vec::new();
        let (rkey, offset, verb) = match self {
            Self::Count { delta } => (RKEY, offset_of(COUNTER), Verb::FetchAdd { delta: *delta }),
            Self::Transfer(changes) => {
                words.extend(changes.iter().map(|change| Word {
                    offset: offset_of(FIRST_ACCOUNT + change.account),
                    expected: change.seen,
                    new: change.seen.wrapping_add(change.delta),
                }));
                let Ok(commit) = MultiCommit::new(&words) else {
                    return Vec::new();
                };
                (RKEY, 0, Verb::MultiCommit(commit))
            }
            Self::Update { word, how, operand } => {
                let verb = match *how {
                    Update::Swap => Verb::Swap { new: *operand },
                    Update::Add => Verb::FetchAdd { delta: *operand },
                    Update::And => Verb::FetchAnd { mask: *operand },
                    Update::Or => Verb::FetchOr { mask: *operand },
                    Update::Xor => Verb::FetchXor { mask: *operand },
                    Update::Min(signed) => Verb::FetchMin {
                        operand: *operand,
                        order: order(signed),
                    },
                    Update::Max(signed) => Verb::FetchMax {
                        operand: *operand,
                        order: order(signed),
                    },
                };
                (RKEY, offset_of(*word), verb)
            }
            Self::Conditional {
                word,
                comparison,
                comparand,
                signed,
                how,
                operand,
            } => {
                let verb = Verb::Conditional {
                    condition: Condition {
                        comparison: *comparison,
                        comparand: *comparand,
                        order: order(*signed),
                    },
                    update: how.with(*operand),
                };
                (RKEY, offset_of(*word), verb)
            }
            Self::CompareAndSwap {
                word,
                expected,
                new,
            } => (
                RKEY,
                offset_of(*word),
                Verb::CompareAndSwap {
                    expected: *expected,
                    new: *new,
                },
            ),
            Self::Read { offset, len } => (RKEY, *offset as u32, Verb::Read { len: *len as u32 }),
            Self::Write { offset, data } => (RKEY, *offset as u32, Verb::Write { data }),
            Self::Lookup { name } => (0, 0, Verb::Lookup { name }),
            Self::Mistake(Mistake::UnknownRegion) => (99, 0, Verb::FetchAdd { delta: 1 }),
            Self::Mistake(Mistake::OutOfBounds) => {
                (RKEY, REGION_BYTES as u32, Verb::FetchAdd { delta: 1 })
            }
            Self::Mistake(Mistake::NoRight) => (READ_ONLY_RKEY, 0, Verb::Swap { new: 1 }),
            Self::Mistake(Mistake::Garbage) => return vec![0xff; 5],
        };
        let request = Request { rkey, offset, verb };
        let mut bytes = vec![0; request.encoded_bytes()];
        let written = request.encode(&mut bytes);
        debug_assert!(written.is_ok());
        bytes
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { delta } => write!(f, "add {delta} to its counter"),
            Self::Transfer(changes) => {
                let part = |change: &Change| {
                    let delta = change.delta.cast_signed();
                    format!("{delta:+} in account {}", change.account)
                };
                let parts: Vec<_> = changes.iter().map(part).collect();
                write!(f, "commit {}", parts.join(", "))
            }
            Self::Update { word, how, operand } => {
                write!(f, "{} word {word} with {operand:#x}", how.as_str())
            }
            Self::Conditional {
                word,
                comparison,
                comparand,
                how,
                operand,
                ..
            } => write!(
                f,
                "{} word {word} with {operand:#x} if it is {comparison:?} {comparand:#x}",
                how.as_str()
            ),
            Self::CompareAndSwap { word, .. } => write!(f, "compare and swap word {word}"),
            Self::Read { offset, len } => write!(f, "read {len} bytes at {offset}"),
            Self::Write { offset, data } => {
                write!(f, "write {} bytes at {offset}", data.len())
            }
            Self::Lookup { name } => write!(f, "look up `{name}`"),
            Self::Mistake(mistake) => f.write_str(match mistake {
                Mistake::UnknownRegion => "add to a region that it does not have",
                Mistake::OutOfBounds => "add beyond its region's end",
                Mistake::NoRight => "swap in a region that may only be read",
                Mistake::Garbage => "make sense of rubbish",
            }),
        }
    }
}
