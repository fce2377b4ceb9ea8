//! Verbs and their completions as C has them.

use std::{cmp::Ordering, mem::offset_of};

use covalent_verbs::{
    CommitWord, Comparison, Completion, Condition, Guid, InDoubtId, Mode, Order, Outcome, Refusal,
    Stamp, Update, Verb,
};

use crate::{
    argument::values,
    status::{Result, invalid},
};

/// Most bytes of one read or write.
pub const COVALENT_DATA_BYTES_MAX: usize = 512;
/// Most bytes of one message.
pub const COVALENT_MESSAGE_BYTES_MAX: usize = 4084;
/// Most words of one multi-commit.
pub const COVALENT_COMMIT_WORDS_MAX: usize = 64;

/// Bytes of the name of a verb in doubt.
pub const COVALENT_EXCHANGE_BYTES: usize = 24;

const _: () = assert!(COVALENT_EXCHANGE_BYTES == InDoubtId::BYTES);
const _: () = assert!(
    COVALENT_DATA_BYTES_MAX == covalent_verbs::READ_BYTES_MAX
        && COVALENT_DATA_BYTES_MAX == covalent_verbs::WRITE_BYTES_MAX
        && COVALENT_MESSAGE_BYTES_MAX == covalent_verbs::SEND_BYTES_MAX
        && COVALENT_COMMIT_WORDS_MAX == covalent_verbs::MULTI_COMMIT_WORDS_MAX
);

/// One round trip: the other node executes when the request arrives. Exactly once.
pub const COVALENT_ONE_PHASE: u32 = 1;
/// Two round trips: until the other node knows that this one knows that it has the request, a cut leaves no trace anywhere. Exactly once.
pub const COVALENT_TWO_PHASE: u32 = 2;

/// Reads `length_bytes` bytes.
pub const COVALENT_READ: u32 = 1;
/// Writes `length_bytes` bytes from `data`.
pub const COVALENT_WRITE: u32 = 2;
/// Puts `operand` in a word and tells what it held.
pub const COVALENT_SWAP: u32 = 3;
/// Puts `operand` in a word if it holds `expected`.
pub const COVALENT_COMPARE_AND_SWAP: u32 = 4;
/// Adds `operand` to a word, wrapping, and tells what it held.
pub const COVALENT_FETCH_ADD: u32 = 5;
/// Ands a word with `operand` and tells what it held.
pub const COVALENT_FETCH_AND: u32 = 6;
/// Ors a word with `operand` and tells what it held.
pub const COVALENT_FETCH_OR: u32 = 7;
/// Exclusive-ors a word with `operand` and tells what it held.
pub const COVALENT_FETCH_XOR: u32 = 8;
/// Compares the `words_count` words at `words` and sets them all only if all hold what is expected.
pub const COVALENT_MULTI_COMMIT: u32 = 9;

/// Puts the smaller of a word and `operand` in the word, compared as `order` says, and tells what it held.
pub const COVALENT_FETCH_MIN: u32 = 10;
/// Puts the greater of a word and `operand` in the word, compared as `order` says, and tells what it held.
pub const COVALENT_FETCH_MAX: u32 = 11;
/// Sends a message of `length_bytes` bytes from `data` to a receive queue.
pub const COVALENT_SEND: u32 = 12;

/// The verb has no condition.
pub const COVALENT_ALWAYS: u32 = 0;
/// Only if the word is `expected`.
pub const COVALENT_IF_EQUAL: u32 = 1;
/// Only if the word is less than `expected`.
pub const COVALENT_IF_LESS: u32 = 2;
/// Only if the word is less than `expected` or the same.
pub const COVALENT_IF_LESS_OR_EQUAL: u32 = 3;
/// Only if the word is greater than `expected`.
pub const COVALENT_IF_GREATER: u32 = 4;
/// Only if the word is greater than `expected` or the same.
pub const COVALENT_IF_GREATER_OR_EQUAL: u32 = 5;

/// Words are compared as numbers from 0 to 2^64 - 1.
pub const COVALENT_UNSIGNED: u32 = 0;
/// Words are compared as numbers in two's complement.
pub const COVALENT_SIGNED: u32 = 1;

/// One word of a multi-commit.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_commit_word {
    /// Where it lies in the region, in bytes; a multiple of 8.
    pub offset_bytes: u64,
    /// What it must hold.
    pub expected: u64,
    /// Its value afterwards.
    pub desired: u64,
}

// The library's words, so that those of C need not be copied.
const _: () = assert!(
    size_of::<covalent_commit_word>() == size_of::<CommitWord>()
        && align_of::<covalent_commit_word>() == align_of::<CommitWord>()
        && offset_of!(covalent_commit_word, offset_bytes) == offset_of!(CommitWord, offset_bytes)
        && offset_of!(covalent_commit_word, expected) == offset_of!(CommitWord, expected)
        && offset_of!(covalent_commit_word, desired) == offset_of!(CommitWord, new)
);

/// What to do with a region.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_verb {
    /// One of COVALENT_READ to COVALENT_SEND; it says which of the fields below count.
    pub kind: u32,
    /// How much to read or write, 1 to COVALENT_DATA_BYTES_MAX, or to send, 1 to COVALENT_MESSAGE_BYTES_MAX.
    pub length_bytes: u32,
    /// Where, in bytes from the region's start; for atomic verbs a multiple of 8. A message has no place.
    pub offset_bytes: u64,
    /// The operand of an atomic verb, and of a write on a condition, which writes one word.
    pub operand: u64,
    /// What the word must hold for a compare-and-swap, and what it is compared with on a condition.
    pub expected: u64,
    /// The bytes to write or send.
    pub data: *const u8,
    /// The words to commit.
    pub words: *const covalent_commit_word,
    /// How many, 1 to COVALENT_COMMIT_WORDS_MAX.
    pub words_count: usize,
    /// On what condition a word is written, swapped or fetched: one of COVALENT_ALWAYS to COVALENT_IF_GREATER_OR_EQUAL. Zero for the other verbs.
    pub condition: u32,
    /// COVALENT_UNSIGNED or COVALENT_SIGNED: how a condition, a minimum and a maximum compare words. Zero for the other verbs.
    pub order: u32,
}

/// What became of a verb.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_outcome {
    /// It was executed and has nothing to tell.
    COVALENT_OUTCOME_DONE = 0,
    /// It was executed; `value` is what the word held before.
    COVALENT_OUTCOME_OLD = 1,
    /// It was executed; `data` holds `data_length_bytes` bytes.
    COVALENT_OUTCOME_DATA = 2,
    /// It was executed and changed nothing: word `index` held `value`, which was not expected or not what the condition wants.
    COVALENT_OUTCOME_MISMATCH = 3,
    /// It was not executed, for the reason in `refusal`.
    COVALENT_OUTCOME_REFUSED = 4,
    /// The other node lost its memory of it, almost always because it started afresh; whether it was executed is unknown.
    COVALENT_OUTCOME_PEER_RESTARTED = 5,
    /// It was not executed: no such node.
    COVALENT_OUTCOME_NO_SUCH_NODE = 6,
    /// It was not executed: the daemon could not read it.
    COVALENT_OUTCOME_MALFORMED = 7,
    /// Not final: no path leads to the other node now. Another completion with the same id follows; `name` is for covalent_verb_queue_ask, later or from another program.
    COVALENT_OUTCOME_IN_DOUBT = 8,
    /// What was asked for was not executed and will not be: the other node reversed it.
    COVALENT_OUTCOME_UNDONE = 9,
    /// What was asked for was not executed and will not be: it never reached the other node.
    COVALENT_OUTCOME_NEVER_SEEN = 10,
    /// Nobody can tell what became of what was asked for. It was executed at most once.
    COVALENT_OUTCOME_FORGOTTEN = 11,
}

/// Why a verb was not executed.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_refusal {
    /// It was not refused.
    COVALENT_REFUSAL_NONE = 0,
    /// No room at the other node now; trying later helps.
    COVALENT_REFUSAL_NO_RESOURCES = 1,
    /// It makes no sense.
    COVALENT_REFUSAL_BAD_REQUEST = 2,
    /// No such region.
    COVALENT_REFUSAL_UNKNOWN_REGION = 3,
    /// It reaches over the region's end.
    COVALENT_REFUSAL_OUT_OF_BOUNDS = 4,
    /// The region does not grant that right.
    COVALENT_REFUSAL_NO_RIGHT = 5,
    /// The other node does not know the verb.
    COVALENT_REFUSAL_UNSUPPORTED = 6,
    /// An exchange that is still open holds a word that it touches; trying later helps.
    COVALENT_REFUSAL_BUSY = 7,
    /// The offset of a word is no multiple of 8.
    COVALENT_REFUSAL_MISALIGNED = 8,
    /// Its length is none that the verb may have.
    COVALENT_REFUSAL_BAD_LENGTH = 9,
    /// A multi-commit names a word twice.
    COVALENT_REFUSAL_DUPLICATE = 10,
    /// The receive queue has no room for the message now; trying later helps.
    COVALENT_REFUSAL_QUEUE_FULL = 11,
    /// The region is durable and the journal of its node has failed. Nothing helps but to mend that node.
    COVALENT_REFUSAL_JOURNAL_FAILED = 12,
}

/// The name of a verb in doubt. May be written down; good for as long as the node's daemon lives, for programs of the same user.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_exchange {
    /// Opaque.
    pub bytes: [u8; COVALENT_EXCHANGE_BYTES],
}

/// The place of a completion among those of all nodes, told without comparing wall clocks: for covalent_stamp_order.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_stamp {
    /// The identity of the node that was asked; 0 where nobody could be.
    pub executor: u64,
    /// The number of the execution among all of that node, from 1; 0 if it was not executed, or this is not known.
    pub executor_count: u64,
    /// The number of the completion among all that the own node has told its applications.
    pub initiator_count: u64,
    /// The clock of Lamport: that of the executor when it executed the verb; of what was not executed, or is in doubt, that of the own node when it said so.
    pub lamport: u64,
}

impl From<Stamp> for covalent_stamp {
    fn from(stamp: Stamp) -> Self {
        Self {
            executor: stamp.executor.map_or(0, Guid::bits),
            executor_count: stamp.executor_count,
            initiator_count: stamp.initiator_count,
            lamport: stamp.lamport,
        }
    }
}

impl From<covalent_stamp> for Stamp {
    fn from(stamp: covalent_stamp) -> Self {
        Self {
            executor: Guid::new(stamp.executor),
            executor_count: stamp.executor_count,
            initiator_count: stamp.initiator_count,
            lamport: stamp.lamport,
        }
    }
}

/// What covalent_stamp_order says of two stamps.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_order {
    /// The first comes before the second: it knew nothing of it.
    COVALENT_ORDER_BEFORE = -1,
    /// They are of the same execution.
    COVALENT_ORDER_SAME = 0,
    /// The first comes after the second.
    COVALENT_ORDER_AFTER = 1,
    /// Neither knew of the other.
    COVALENT_ORDER_NONE = 2,
}

/// Orders two completions in agreement with cause and effect: if one may have been known to whoever asked for the other, it comes before. Executions of one node are in
/// the order in which they were executed. Of two that knew nothing of each other, on different nodes, any answer but COVALENT_ORDER_SAME may be given: that
/// they were concurrent cannot be told.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_stamp_order(
    first: covalent_stamp,
    second: covalent_stamp,
) -> covalent_order {
    match Stamp::from(first).order(&second.into()) {
        Some(Ordering::Less) => covalent_order::COVALENT_ORDER_BEFORE,
        Some(Ordering::Equal) => covalent_order::COVALENT_ORDER_SAME,
        Some(Ordering::Greater) => covalent_order::COVALENT_ORDER_AFTER,
        None => covalent_order::COVALENT_ORDER_NONE,
    }
}

/// One completion.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_completion {
    /// What was given to covalent_verb_queue_post.
    pub user_data: u64,
    /// The verb's id.
    pub id: u64,
    /// What became of it.
    pub outcome: covalent_outcome,
    /// Why it was refused, if it was.
    pub refusal: covalent_refusal,
    /// What a word held.
    pub value: u64,
    /// Which word of a multi-commit mismatched, from 0.
    pub index: u32,
    /// How many bytes were read.
    pub data_length_bytes: u32,
    /// They.
    pub data: [u8; COVALENT_DATA_BYTES_MAX],
    /// By what to ask for a verb in doubt; zeros for others.
    pub name: covalent_exchange,
    /// Its place among the completions of all nodes.
    pub stamp: covalent_stamp,
}

impl covalent_completion {
    pub(crate) fn new(completion: &Completion) -> Self {
        use covalent_outcome::*;
        let mut told = Self {
            user_data: completion.user_data,
            id: completion.id.number(),
            outcome: COVALENT_OUTCOME_DONE,
            refusal: covalent_refusal::COVALENT_REFUSAL_NONE,
            value: 0,
            index: 0,
            data_length_bytes: 0,
            data: [0; COVALENT_DATA_BYTES_MAX],
            name: covalent_exchange {
                bytes: [0; COVALENT_EXCHANGE_BYTES],
            },
            stamp: completion.stamp.into(),
        };
        told.outcome = match &completion.outcome {
            Outcome::Done => COVALENT_OUTCOME_DONE,
            Outcome::Old(old) => {
                told.value = *old;
                COVALENT_OUTCOME_OLD
            }
            Outcome::Data(data) => {
                let length = data.len().min(COVALENT_DATA_BYTES_MAX);
                told.data[..length].copy_from_slice(&data[..length]);
                told.data_length_bytes = length as u32;
                COVALENT_OUTCOME_DATA
            }
            Outcome::Mismatch { index, found } => {
                told.index = u32::from(*index);
                told.value = *found;
                COVALENT_OUTCOME_MISMATCH
            }
            Outcome::Refused(refusal) => {
                told.refusal = refusal_of(*refusal);
                COVALENT_OUTCOME_REFUSED
            }
            Outcome::PeerRestarted => COVALENT_OUTCOME_PEER_RESTARTED,
            Outcome::NoSuchPeer => COVALENT_OUTCOME_NO_SUCH_NODE,
            Outcome::Malformed => COVALENT_OUTCOME_MALFORMED,
            Outcome::InDoubt(name) => {
                told.name.bytes = name.to_bytes();
                COVALENT_OUTCOME_IN_DOUBT
            }
            Outcome::Undone => COVALENT_OUTCOME_UNDONE,
            Outcome::NeverSeen => COVALENT_OUTCOME_NEVER_SEEN,
            Outcome::Forgotten => COVALENT_OUTCOME_FORGOTTEN,
        };
        told
    }
}

const fn refusal_of(refusal: Refusal) -> covalent_refusal {
    use covalent_refusal::*;
    match refusal {
        Refusal::NoResources => COVALENT_REFUSAL_NO_RESOURCES,
        Refusal::BadRequest => COVALENT_REFUSAL_BAD_REQUEST,
        Refusal::UnknownRegion => COVALENT_REFUSAL_UNKNOWN_REGION,
        Refusal::OutOfBounds => COVALENT_REFUSAL_OUT_OF_BOUNDS,
        Refusal::NoRight => COVALENT_REFUSAL_NO_RIGHT,
        Refusal::Unsupported => COVALENT_REFUSAL_UNSUPPORTED,
        Refusal::Busy => COVALENT_REFUSAL_BUSY,
        Refusal::Misaligned => COVALENT_REFUSAL_MISALIGNED,
        Refusal::BadLength => COVALENT_REFUSAL_BAD_LENGTH,
        Refusal::Duplicate => COVALENT_REFUSAL_DUPLICATE,
        Refusal::QueueFull => COVALENT_REFUSAL_QUEUE_FULL,
        Refusal::JournalFailed => COVALENT_REFUSAL_JOURNAL_FAILED,
    }
}

/// The verb that C means.
///
/// # Safety
/// `data` and `words`, as far as they count, are as long as the verb says and stay for `'a`.
pub(crate) unsafe fn verb<'a>(wanted: covalent_verb) -> Result<Verb<'a>> {
    let covalent_verb {
        kind,
        offset_bytes,
        operand,
        length_bytes,
        ..
    } = wanted;
    if wanted.condition != COVALENT_ALWAYS {
        return Ok(Verb::Conditional {
            offset_bytes,
            condition: condition(wanted.condition, wanted.expected, wanted.order)?,
            update: update(kind, operand)?,
        });
    }
    let order = order(wanted.order)?;
    if order == Order::Signed && !matches!(kind, COVALENT_FETCH_MIN | COVALENT_FETCH_MAX) {
        return Err(invalid(format!(
            "verb.order {}: verb {kind} compares nothing",
            wanted.order
        )));
    }
    Ok(match kind {
        COVALENT_READ => Verb::Read {
            offset_bytes,
            len_bytes: length_bytes,
        },
        COVALENT_WRITE => {
            // SAFETY: the caller's word.
            let data = unsafe { values(wanted.data, length_bytes as usize, "verb.data")? };
            Verb::Write { offset_bytes, data }
        }
        COVALENT_SEND => {
            // SAFETY: the caller's word.
            let data = unsafe { values(wanted.data, length_bytes as usize, "verb.data")? };
            Verb::Send { data }
        }
        COVALENT_SWAP => Verb::Swap {
            offset_bytes,
            new: operand,
        },
        COVALENT_COMPARE_AND_SWAP => Verb::CompareAndSwap {
            offset_bytes,
            expected: wanted.expected,
            new: operand,
        },
        COVALENT_FETCH_ADD => Verb::FetchAdd {
            offset_bytes,
            delta: operand,
        },
        COVALENT_FETCH_AND => Verb::FetchAnd {
            offset_bytes,
            mask: operand,
        },
        COVALENT_FETCH_OR => Verb::FetchOr {
            offset_bytes,
            mask: operand,
        },
        COVALENT_FETCH_XOR => Verb::FetchXor {
            offset_bytes,
            mask: operand,
        },
        COVALENT_FETCH_MIN => Verb::FetchMin {
            offset_bytes,
            operand,
            order,
        },
        COVALENT_FETCH_MAX => Verb::FetchMax {
            offset_bytes,
            operand,
            order,
        },
        COVALENT_MULTI_COMMIT => {
            // SAFETY: the caller's word.
            let words = unsafe { commit_words(wanted.words, wanted.words_count)? };
            Verb::MultiCommit { words }
        }
        other => return Err(invalid(format!("verb.kind {other} is no verb"))),
    })
}

/// The condition that C means.
pub(crate) fn condition(comparison: u32, comparand: u64, order: u32) -> Result<Condition> {
    Ok(Condition {
        comparison: match comparison {
            COVALENT_IF_EQUAL => Comparison::Equal,
            COVALENT_IF_LESS => Comparison::Less,
            COVALENT_IF_LESS_OR_EQUAL => Comparison::LessOrEqual,
            COVALENT_IF_GREATER => Comparison::Greater,
            COVALENT_IF_GREATER_OR_EQUAL => Comparison::GreaterOrEqual,
            other => return Err(invalid(format!("condition {other} is none"))),
        },
        comparand,
        order: self::order(order)?,
    })
}

/// The change of a word on a condition that C means by a verb.
pub(crate) fn update(kind: u32, operand: u64) -> Result<Update> {
    Ok(match kind {
        COVALENT_WRITE => Update::Write(operand),
        COVALENT_SWAP => Update::Swap(operand),
        COVALENT_FETCH_ADD => Update::Add(operand),
        COVALENT_FETCH_AND => Update::And(operand),
        COVALENT_FETCH_OR => Update::Or(operand),
        COVALENT_FETCH_XOR => Update::Xor(operand),
        COVALENT_FETCH_MIN => Update::Min(operand),
        COVALENT_FETCH_MAX => Update::Max(operand),
        other => return Err(invalid(format!("verb {other} takes no condition"))),
    })
}

/// The order that C means.
pub(crate) fn order(order: u32) -> Result<Order> {
    match order {
        COVALENT_UNSIGNED => Ok(Order::Unsigned),
        COVALENT_SIGNED => Ok(Order::Signed),
        other => Err(invalid(format!(
            "order {other}: expected COVALENT_UNSIGNED or COVALENT_SIGNED"
        ))),
    }
}

/// The words that C means.
///
/// # Safety
/// The pointer points to `count` words, which stay for `'a`.
pub(crate) unsafe fn commit_words<'a>(
    words: *const covalent_commit_word,
    count: usize,
) -> Result<&'a [CommitWord]> {
    if count > COVALENT_COMMIT_WORDS_MAX {
        return Err(invalid(format!(
            "{count} words to commit: expected 1 to {COVALENT_COMMIT_WORDS_MAX}"
        )));
    }
    // SAFETY: the caller's word; both have the same layout, as asserted above.
    unsafe { values(words.cast::<CommitWord>(), count, "words") }
}

/// The mode that C means.
pub(crate) fn mode(mode: u32) -> Result<Mode> {
    match mode {
        COVALENT_ONE_PHASE => Ok(Mode::OnePhase),
        COVALENT_TWO_PHASE => Ok(Mode::TwoPhase),
        other => Err(invalid(format!(
            "mode {other}: expected COVALENT_ONE_PHASE or COVALENT_TWO_PHASE"
        ))),
    }
}
