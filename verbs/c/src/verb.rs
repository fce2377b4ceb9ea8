//! Verbs and their completions as C has them.

use std::{
    cmp::Ordering,
    ffi::{CStr, c_char, c_int},
    mem::offset_of,
};

use covalent::{
    CommitWord, Comparison, Completion, Condition, Guid, InDoubtId, Mode, Order, Outcome, Refusal,
    Stamp, Update, Verb,
};

use crate::{
    argument::{Out, value, values},
    enumerator::{enumerators, name_in},
    growing::{growing, growing_value},
    region::rights_bits,
    remote_region::covalent_remote_region,
    status::{Result, call, invalid},
};

/// Most bytes of one read or write.
pub const COVALENT_DATA_BYTES_MAX: usize = 512;
/// Most bytes of one message.
pub const COVALENT_MESSAGE_BYTES_MAX: usize = 4084;
/// Most words of one multi-commit.
pub const COVALENT_COMMIT_WORDS_MAX: usize = 64;

/// Bytes of an in-doubt id.
pub const COVALENT_IN_DOUBT_ID_BYTES: usize = 24;

const _: () = assert!(COVALENT_IN_DOUBT_ID_BYTES == InDoubtId::BYTES);
const _: () = assert!(
    COVALENT_DATA_BYTES_MAX == covalent::READ_BYTES_MAX
        && COVALENT_DATA_BYTES_MAX == covalent::WRITE_BYTES_MAX
        && COVALENT_MESSAGE_BYTES_MAX == covalent::SEND_BYTES_MAX
        && COVALENT_COMMIT_WORDS_MAX == covalent::MULTI_COMMIT_WORDS_MAX
);

/// One round trip: the other node executes when the request arrives. Exactly once.
pub const COVALENT_ONE_PHASE: u32 = 1;
/// Two round trips, executed exactly once. A cut leaves no trace on any node until the responder
/// knows that the initiator knows that the responder has the request.
pub const COVALENT_TWO_PHASE: u32 = 2;

/// Reads `length_bytes` bytes.
pub const COVALENT_READ: u32 = 1;
/// Writes `length_bytes` bytes from `data`.
pub const COVALENT_WRITE: u32 = 2;
/// Sets a word to `operand` and returns its previous value.
pub const COVALENT_SWAP: u32 = 3;
/// Puts `operand` in a word if it holds `expected`.
pub const COVALENT_COMPARE_AND_SWAP: u32 = 4;
/// Adds `operand` to a word, wrapping, and returns its previous value.
pub const COVALENT_FETCH_ADD: u32 = 5;
/// Performs a bitwise AND of a word with `operand` and returns the word's previous value.
pub const COVALENT_FETCH_AND: u32 = 6;
/// Performs a bitwise OR of a word with `operand` and returns the word's previous value.
pub const COVALENT_FETCH_OR: u32 = 7;
/// Performs a bitwise XOR of a word with `operand` and returns the word's previous value.
pub const COVALENT_FETCH_XOR: u32 = 8;
/// Compares the `words_count` words at `words` and sets all of them only if each holds its expected
/// value.
pub const COVALENT_MULTI_COMMIT: u32 = 9;

/// Sets a word to the minimum of the word and `operand` and returns its previous value. `order`
/// selects the comparison.
pub const COVALENT_FETCH_MIN: u32 = 10;
/// Sets a word to the maximum of the word and `operand` and returns its previous value. `order`
/// selects the comparison.
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
    /// Value that the word must hold.
    pub expected: u64,
    /// Its value afterwards.
    pub desired: u64,
}

// Same layout as the library's words: C words need no copy.
const _: () = assert!(
    size_of::<covalent_commit_word>() == size_of::<CommitWord>()
        && align_of::<covalent_commit_word>() == align_of::<CommitWord>()
        && offset_of!(covalent_commit_word, offset_bytes) == offset_of!(CommitWord, offset_bytes)
        && offset_of!(covalent_commit_word, expected) == offset_of!(CommitWord, expected)
        && offset_of!(covalent_commit_word, desired) == offset_of!(CommitWord, new)
);

/// An operation on a region.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_verb {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// One of COVALENT_READ to COVALENT_SEND. It selects the fields below that apply.
    pub kind: u32,
    /// Bytes to read or write, 1 to COVALENT_DATA_BYTES_MAX, or to send, 1 to
    /// COVALENT_MESSAGE_BYTES_MAX.
    pub length_bytes: u32,
    /// Condition for a write, swap or fetch of one word: one of COVALENT_ALWAYS to
    /// COVALENT_IF_GREATER_OR_EQUAL. Zero for the other verbs.
    pub condition: u32,
    /// COVALENT_UNSIGNED or COVALENT_SIGNED: how a condition, a minimum and a maximum compare
    /// words. Zero for the other verbs.
    pub order: u32,
    /// Offset in bytes from the region's start. A multiple of 8 for atomic verbs. Not used for a
    /// message.
    pub offset_bytes: u64,
    /// The operand of an atomic verb, and of a write on a condition, which writes one word.
    pub operand: u64,
    /// Value that the word must hold for a compare-and-swap. With a condition, the value that the
    /// word is compared with.
    pub expected: u64,
    /// The bytes to write or send.
    pub data: *const u8,
    /// The words to commit.
    pub words: *const covalent_commit_word,
    /// How many, 1 to COVALENT_COMMIT_WORDS_MAX.
    pub words_count: usize,
}

growing!(covalent_verb, 72);

/// Outcome of a verb.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_outcome {
    /// The verb was executed and returned no data.
    COVALENT_OUTCOME_DONE = 0,
    /// The verb was executed. `value` is the word's previous value.
    COVALENT_OUTCOME_OLD = 1,
    /// It was executed; `data` points to the `data_length_bytes` bytes read.
    COVALENT_OUTCOME_DATA = 2,
    /// The verb was executed and changed nothing: word `index` held `value`, which was not the
    /// expected value or did not meet the condition.
    COVALENT_OUTCOME_MISMATCH = 3,
    /// It was not executed, for the reason in `refusal`.
    COVALENT_OUTCOME_REFUSED = 4,
    /// The other node lost its record of the verb, almost always because it restarted. Whether the
    /// verb was executed is unknown.
    COVALENT_OUTCOME_PEER_RESTARTED = 5,
    /// It was not executed: no such node.
    COVALENT_OUTCOME_NO_SUCH_NODE = 6,
    /// It was not executed: the daemon could not read it.
    COVALENT_OUTCOME_MALFORMED = 7,
    /// Not final: no path leads to the other node now. Another completion with the same id follows.
    /// `in_doubt` is for covalent_verb_queue_query_in_doubt, later or from another program.
    COVALENT_OUTCOME_IN_DOUBT = 8,
    /// The queried verb was not executed and will not be: the other node reversed it.
    COVALENT_OUTCOME_UNDONE = 9,
    /// The queried verb was not executed and will not be: it never reached the other node.
    COVALENT_OUTCOME_NEVER_SEEN = 10,
    /// The outcome of the verb is unknown. It was executed at most once.
    COVALENT_OUTCOME_FORGOTTEN = 11,
    /// The other node's reply is none that the verb can have: that node is faulty, or lies. The
    /// verb was executed at most once.
    COVALENT_OUTCOME_BAD_REPLY = 12,
    /// The lookup found a region: see covalent_completion_region.
    COVALENT_OUTCOME_REGION = 13,
    /// The result of a watch: `value` is 1 if a path leads to the node now, 0 if none does.
    COVALENT_OUTCOME_PATH = 14,
}

/// Why a verb was not executed.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_refusal {
    /// It was not refused.
    COVALENT_REFUSAL_NONE = 0,
    /// The other node has no room now. A later retry may succeed.
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
    /// The receive queue has no room for the message now. A later retry may succeed.
    COVALENT_REFUSAL_QUEUE_FULL = 11,
    /// The region is durable, and the journal of its node failed. The node must be repaired.
    COVALENT_REFUSAL_JOURNAL_FAILED = 12,
}

/// The in-doubt id of a verb. It may be stored. It is valid while the node's daemon runs, for
/// programs of the same user.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_in_doubt_id {
    /// Opaque.
    pub bytes: [u8; COVALENT_IN_DOUBT_ID_BYTES],
}

/// The position of a completion among those of all nodes, for covalent_stamp_order. It does not
/// depend on wall clocks.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_stamp {
    /// Identity of the node that the verb addressed. 0 if no node could be addressed.
    pub executor: u64,
    /// Number of the execution among all executions of that node, from 1. 0 if the verb was not
    /// executed, or if this is unknown.
    pub executor_count: u64,
    /// Number of the completion among all that the local node has reported to its applications.
    pub initiator_count: u64,
    /// Lamport clock. It is the executor's clock when it executed the verb. For a verb that was not
    /// executed or is in doubt, it is the local node's clock when it reported that.
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

/// Result of covalent_stamp_order.
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

/// Orders two completions consistently with causality. If the first may have been known to the
/// program that requested the second, it comes before. Executions of one node have the order in
/// which they were executed.
///
/// Two completions on different nodes may be unrelated. Their result may then be any but
/// COVALENT_ORDER_SAME: the stamps cannot show that they were concurrent.
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
    /// The value that was passed to covalent_verb_queue_post.
    pub user_data: u64,
    /// The verb's id.
    pub id: u64,
    /// The outcome.
    pub outcome: covalent_outcome,
    /// Why it was refused, if it was.
    pub refusal: covalent_refusal,
    /// Value of a word.
    pub value: u64,
    /// Which word of a multi-commit mismatched, from 0.
    pub index: u32,
    /// How many bytes were read.
    pub data_length_bytes: u32,
    /// The bytes that were read, null if none were. They are valid until the queue's next call that
    /// takes completions or waits for a verb.
    pub data: *const u8,
    /// The in-doubt id, for querying the verb. Zeros for other verbs.
    pub in_doubt: covalent_in_doubt_id,
    /// Its place among the completions of all nodes.
    pub stamp: covalent_stamp,
}

impl covalent_completion {
    pub(crate) fn new(completion: &Completion, data: Option<&[u8]>) -> Self {
        use covalent_outcome::*;
        let mut converted = Self {
            user_data: completion.user_data,
            id: completion.id.number(),
            outcome: COVALENT_OUTCOME_DONE,
            refusal: covalent_refusal::COVALENT_REFUSAL_NONE,
            value: 0,
            index: 0,
            data_length_bytes: 0,
            data: std::ptr::null(),
            in_doubt: covalent_in_doubt_id {
                bytes: [0; COVALENT_IN_DOUBT_ID_BYTES],
            },
            stamp: completion.stamp.into(),
        };
        converted.outcome = match &completion.outcome {
            Outcome::Done => COVALENT_OUTCOME_DONE,
            Outcome::Old(old) => {
                converted.value = *old;
                COVALENT_OUTCOME_OLD
            }
            Outcome::Data { .. } => {
                if let Some(data) = data {
                    converted.data = data.as_ptr();
                    converted.data_length_bytes = data.len() as u32;
                }
                COVALENT_OUTCOME_DATA
            }
            Outcome::Region(region) => {
                converted.value = region.size_bytes();
                converted.index = region.rkey();
                converted.data_length_bytes = rights_bits(region.rights());
                COVALENT_OUTCOME_REGION
            }
            Outcome::Path { up } => {
                converted.value = u64::from(*up);
                COVALENT_OUTCOME_PATH
            }
            Outcome::Mismatch { index, found } => {
                converted.index = u32::from(*index);
                converted.value = *found;
                COVALENT_OUTCOME_MISMATCH
            }
            Outcome::Refused(refusal) => {
                converted.refusal = refusal_of(*refusal);
                COVALENT_OUTCOME_REFUSED
            }
            Outcome::PeerRestarted => COVALENT_OUTCOME_PEER_RESTARTED,
            Outcome::NoSuchPeer => COVALENT_OUTCOME_NO_SUCH_NODE,
            Outcome::Malformed => COVALENT_OUTCOME_MALFORMED,
            Outcome::InDoubt(id) => {
                converted.in_doubt.bytes = id.to_bytes();
                COVALENT_OUTCOME_IN_DOUBT
            }
            Outcome::Undone => COVALENT_OUTCOME_UNDONE,
            Outcome::NeverSeen => COVALENT_OUTCOME_NEVER_SEEN,
            Outcome::Forgotten => COVALENT_OUTCOME_FORGOTTEN,
            Outcome::BadReply => COVALENT_OUTCOME_BAD_REPLY,
            // tests/interface/names.rs fails for a variant that is not above.
            _ => COVALENT_OUTCOME_FORGOTTEN,
        };
        converted
    }
}

/// Returns the region that a lookup found (COVALENT_OUTCOME_REGION). Returns COVALENT_INVALID for
/// another completion. The completion's `value`, `index` and `data_length_bytes` hold it.
///
/// # Safety
/// `completion` points to a covalent_completion that this library filled. `region` is valid for
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_completion_region(
    completion: *const covalent_completion,
    region: *mut covalent_remote_region,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (completion, mut out) = unsafe {
            (
                value(completion, "completion")?,
                Out::new(region, "region")?,
            )
        };
        if completion.outcome != covalent_outcome::COVALENT_OUTCOME_REGION {
            return Err(invalid(format!(
                "completion.outcome {}: expected COVALENT_OUTCOME_REGION",
                completion.outcome as u32
            )));
        }
        out.set(covalent_remote_region {
            node_guid: completion.stamp.executor,
            size_bytes: completion.value,
            rkey: completion.index,
            rights: completion.data_length_bytes,
        });
        Ok(())
    })
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

/// Returns an outcome's name, for logs: `COVALENT_OUTCOME_REFUSED`. Never null. `unknown` for a
/// number that is no outcome.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_outcome_name(outcome: u32) -> *const c_char {
    name_in(OUTCOMES, outcome)
}

const OUTCOMES: &[(i64, &CStr)] = {
    use covalent_outcome::*;
    enumerators![
        COVALENT_OUTCOME_DONE,
        COVALENT_OUTCOME_OLD,
        COVALENT_OUTCOME_DATA,
        COVALENT_OUTCOME_MISMATCH,
        COVALENT_OUTCOME_REFUSED,
        COVALENT_OUTCOME_PEER_RESTARTED,
        COVALENT_OUTCOME_NO_SUCH_NODE,
        COVALENT_OUTCOME_MALFORMED,
        COVALENT_OUTCOME_IN_DOUBT,
        COVALENT_OUTCOME_UNDONE,
        COVALENT_OUTCOME_NEVER_SEEN,
        COVALENT_OUTCOME_FORGOTTEN,
        COVALENT_OUTCOME_BAD_REPLY,
        COVALENT_OUTCOME_REGION,
        COVALENT_OUTCOME_PATH,
    ]
};

/// Returns a refusal's name, for logs: `COVALENT_REFUSAL_UNKNOWN_REGION`. Never null. `unknown` for
/// a number that is no refusal.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_refusal_name(refusal: u32) -> *const c_char {
    name_in(REFUSALS, refusal)
}

const REFUSALS: &[(i64, &CStr)] = {
    use covalent_refusal::*;
    enumerators![
        COVALENT_REFUSAL_NONE,
        COVALENT_REFUSAL_NO_RESOURCES,
        COVALENT_REFUSAL_BAD_REQUEST,
        COVALENT_REFUSAL_UNKNOWN_REGION,
        COVALENT_REFUSAL_OUT_OF_BOUNDS,
        COVALENT_REFUSAL_NO_RIGHT,
        COVALENT_REFUSAL_UNSUPPORTED,
        COVALENT_REFUSAL_BUSY,
        COVALENT_REFUSAL_MISALIGNED,
        COVALENT_REFUSAL_BAD_LENGTH,
        COVALENT_REFUSAL_DUPLICATE,
        COVALENT_REFUSAL_QUEUE_FULL,
        COVALENT_REFUSAL_JOURNAL_FAILED,
    ]
};

/// Converts a C verb.
///
/// # Safety
/// A pointer that is not null points to a verb whose `struct_bytes` is set. `data` and `words`, if
/// it uses them, have the length that it states and stay valid for `'a`.
pub(crate) unsafe fn verb<'a>(verb: *const covalent_verb) -> Result<Verb<'a>> {
    // SAFETY: the caller's word.
    let wanted = unsafe { growing_value(verb, "verb")? };
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

/// Converts the words of a C multi-commit.
///
/// # Safety
/// The pointer points to `count` words, which stay valid for `'a`.
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
