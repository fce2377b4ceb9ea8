//! Verbs and their completions as C has them.

use covalent_verbs::{CommitWord, Completion, InDoubtId, Mode, Outcome, Refusal, Verb};

use crate::{
    argument::{value, values},
    status::{Result, invalid},
};

/// Most bytes of one read or write.
pub const COVALENT_DATA_BYTES_MAX: usize = 512;
/// Most words of one multi-commit.
pub const COVALENT_COMMIT_WORDS_MAX: usize = 27;

/// Bytes of the name of a verb in doubt.
pub const COVALENT_EXCHANGE_BYTES: usize = 24;

const _: () = assert!(COVALENT_EXCHANGE_BYTES == InDoubtId::BYTES);
const _: () = assert!(
    COVALENT_DATA_BYTES_MAX == covalent_verbs::READ_BYTES_MAX
        && COVALENT_DATA_BYTES_MAX == covalent_verbs::WRITE_BYTES_MAX
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

/// What to do with a region.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_verb {
    /// One of COVALENT_READ to COVALENT_MULTI_COMMIT; it says which of the fields below count.
    pub kind: u32,
    /// How much to read or write, 1 to COVALENT_DATA_BYTES_MAX.
    pub length_bytes: u32,
    /// Where, in bytes from the region's start; for atomic verbs a multiple of 8.
    pub offset_bytes: u64,
    /// The operand of an atomic verb.
    pub operand: u64,
    /// What the word must hold for a compare-and-swap.
    pub expected: u64,
    /// The bytes to write.
    pub data: *const u8,
    /// The words to commit.
    pub words: *const covalent_commit_word,
    /// How many, 1 to COVALENT_COMMIT_WORDS_MAX.
    pub words_count: usize,
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
    /// It was executed and changed nothing: word `index` held `value`.
    COVALENT_OUTCOME_MISMATCH = 3,
    /// It was not executed, for the reason in `refusal`.
    COVALENT_OUTCOME_REFUSED = 4,
    /// The other node started afresh; whether it was executed before is unknown.
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
}

/// The name of a verb in doubt. May be written down; good for as long as the node's daemon lives, for programs of the same user.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_exchange {
    /// Opaque.
    pub bytes: [u8; COVALENT_EXCHANGE_BYTES],
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
    }
}

/// Room for the words of a verb.
pub(crate) type Words = [CommitWord; COVALENT_COMMIT_WORDS_MAX];

/// No words yet.
pub(crate) const NO_WORDS: Words = [CommitWord {
    offset_bytes: 0,
    expected: 0,
    new: 0,
}; COVALENT_COMMIT_WORDS_MAX];

/// The verb that C means.
///
/// # Safety
/// A pointer that is not null points to a verb whose `data` and `words`, as far as they count, are as long as it says and stay for `'a`.
pub(crate) unsafe fn verb<'a>(verb: *const covalent_verb, room: &'a mut Words) -> Result<Verb<'a>> {
    // SAFETY: the caller's word.
    let wanted = unsafe { value(verb, "verb")? };
    let covalent_verb {
        offset_bytes,
        operand,
        length_bytes,
        ..
    } = wanted;
    Ok(match wanted.kind {
        COVALENT_READ => Verb::Read {
            offset_bytes,
            len_bytes: length_bytes,
        },
        COVALENT_WRITE => {
            // SAFETY: the caller's word.
            let data = unsafe { values(wanted.data, length_bytes as usize, "verb.data")? };
            Verb::Write { offset_bytes, data }
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
        COVALENT_MULTI_COMMIT => {
            // SAFETY: the caller's word.
            let words = unsafe { commit_words(wanted.words, wanted.words_count, room)? };
            Verb::MultiCommit { words }
        }
        other => return Err(invalid(format!("verb.kind {other} is no verb"))),
    })
}

/// The words that C means.
///
/// # Safety
/// The pointer points to `count` words.
pub(crate) unsafe fn commit_words(
    words: *const covalent_commit_word,
    count: usize,
    room: &mut Words,
) -> Result<&[CommitWord]> {
    let Some(room) = room.get_mut(..count) else {
        return Err(invalid(format!(
            "{count} words to commit: expected 1 to {COVALENT_COMMIT_WORDS_MAX}"
        )));
    };
    // SAFETY: the caller's word.
    let words = unsafe { values(words, count, "words")? };
    for (place, word) in room.iter_mut().zip(words) {
        *place = CommitWord {
            offset_bytes: word.offset_bytes,
            expected: word.expected,
            new: word.desired,
        };
    }
    Ok(room)
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
