//! A second and simplest possible implementation of a region, as a reference for the production
//! engine.

use covalent_protocol::{
    Refusal,
    region::Rights,
    verb::{Comparison, RegionInfo, Reply, Status},
};

use crate::{
    operation::{Mistake, Operation, Update},
    region::{
        ACCOUNTS, COUNTER, FIRST_ACCOUNT, OPENING_BALANCE, REGION_BYTES, REGION_WORDS, RKEY,
        WORD_BYTES,
    },
};

/// The words of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    words: [u64; REGION_WORDS],
}

/// Result of an executed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    status: Status,
    index: u16,
    data: Vec<u8>,
}

impl Model {
    /// A region in which nothing happened.
    #[must_use]
    pub fn new() -> Self {
        let mut words = [0; REGION_WORDS];
        words[FIRST_ACCOUNT..FIRST_ACCOUNT + ACCOUNTS].fill(OPENING_BALANCE);
        Self { words }
    }

    /// A region that holds this.
    #[must_use]
    pub fn of(words: &[u64]) -> Self {
        let mut model = Self::new();
        model.words.copy_from_slice(words);
        model
    }

    /// All words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns why a request is refused, whatever the region holds.
    #[must_use]
    pub const fn refusal(operation: &Operation) -> Option<Refusal> {
        match operation {
            Operation::Mistake(Mistake::UnknownRegion) => Some(Refusal::UnknownRegion),
            Operation::Mistake(Mistake::OutOfBounds) => Some(Refusal::OutOfBounds),
            Operation::Mistake(Mistake::NoRight) => Some(Refusal::NoRight),
            Operation::Mistake(Mistake::Garbage) => Some(Refusal::BadRequest),
            _ => None,
        }
    }

    /// Executes a request.
    pub fn apply(&mut self, operation: &Operation) -> Answer {
        let ok = |data: Vec<u8>| Answer {
            status: Status::Ok,
            index: 0,
            data,
        };
        let was = |old: u64| ok(old.to_le_bytes().to_vec());
        let differs = |index: u16, found: u64| Answer {
            status: Status::Mismatch,
            index,
            data: found.to_le_bytes().to_vec(),
        };
        match operation {
            Operation::Count { delta } => {
                let old = self.words[COUNTER];
                self.words[COUNTER] = old.wrapping_add(*delta);
                was(old)
            }
            Operation::Transfer(changes) => {
                for (index, change) in (0..).zip(changes) {
                    let found = self.words[FIRST_ACCOUNT + change.account];
                    if found != change.seen {
                        return differs(index, found);
                    }
                }
                for change in changes {
                    self.words[FIRST_ACCOUNT + change.account] =
                        change.seen.wrapping_add(change.delta);
                }
                ok(Vec::new())
            }
            Operation::Update { word, how, operand } => {
                let old = self.words[*word];
                self.words[*word] = changed(old, *how, *operand);
                was(old)
            }
            Operation::Conditional {
                word,
                comparison,
                comparand,
                signed,
                how,
                operand,
            } => {
                let old = self.words[*word];
                let found = number(old, *signed).cmp(&number(*comparand, *signed));
                let met = match comparison {
                    Comparison::Equal => found.is_eq(),
                    Comparison::Less => found.is_lt(),
                    Comparison::LessOrEqual => found.is_le(),
                    Comparison::Greater => found.is_gt(),
                    Comparison::GreaterOrEqual => found.is_ge(),
                };
                if !met {
                    return differs(0, old);
                }
                // One order for the condition and for a minimum or maximum.
                let how = match how {
                    Update::Min(_) => Update::Min(*signed),
                    Update::Max(_) => Update::Max(*signed),
                    other => *other,
                };
                self.words[*word] = changed(old, how, *operand);
                was(old)
            }
            Operation::CompareAndSwap {
                word,
                expected,
                new,
            } => {
                let old = self.words[*word];
                if old != *expected {
                    return differs(0, old);
                }
                self.words[*word] = *new;
                was(old)
            }
            Operation::Read { offset, len } => ok((*offset..offset + len)
                .map(|at| self.words[at / WORD_BYTES].to_le_bytes()[at % WORD_BYTES])
                .collect()),
            Operation::Write { offset, data } => {
                for (at, byte) in (*offset..).zip(data) {
                    let mut bytes = self.words[at / WORD_BYTES].to_le_bytes();
                    bytes[at % WORD_BYTES] = *byte;
                    self.words[at / WORD_BYTES] = u64::from_le_bytes(bytes);
                }
                ok(Vec::new())
            }
            Operation::Lookup { .. } => ok(RegionInfo {
                size_bytes: REGION_BYTES as u64,
                rkey: RKEY,
                rights: Rights::ALL.to_byte(),
            }
            .to_bytes()
            .to_vec()),
            // A refused request is not executed. If it is, no answer is correct.
            Operation::Mistake(_) => Answer {
                status: Status::Gone,
                index: u16::MAX,
                data: Vec::new(),
            },
        }
    }
}

/// The number that a word stands for.
fn number(word: u64, signed: bool) -> i128 {
    if signed {
        i128::from(word.cast_signed())
    } else {
        i128::from(word)
    }
}

/// Returns the new value of a word.
fn changed(old: u64, how: Update, operand: u64) -> u64 {
    let is_less = |signed| number(operand, signed) < number(old, signed);
    match how {
        Update::Swap => operand,
        Update::Add => old.wrapping_add(operand),
        Update::And => old & operand,
        Update::Or => old | operand,
        Update::Xor => old ^ operand,
        Update::Min(signed) if !is_less(signed) => old,
        Update::Max(signed) if is_less(signed) => old,
        Update::Min(_) | Update::Max(_) => operand,
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Answer {
    /// The answer that the bytes of a reply are, if they are any.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let reply = Reply::decode(bytes).ok()?;
        Some(Self {
            status: reply.status,
            index: reply.index,
            data: reply.data.to_vec(),
        })
    }

    /// Everything was as expected.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }
}
