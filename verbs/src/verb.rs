//! The vocabulary of verbs: what can be asked of a region, and what comes back.

use covalent_api::guid::Guid;

use crate::{in_doubt::InDoubtId, stamp::Stamp};

pub use covalent_protocol::{
    Mode, Refusal,
    verb::{
        Comparison, Condition, MULTI_COMMIT_WORDS_MAX, Order, READ_BYTES_MAX, SEND_BYTES_MAX,
        Update, WRITE_BYTES_MAX,
    },
};

/// What to do with a remote region.
///
/// Offsets count bytes from the start of the region, which has at most 1 GiB: beyond 2³² there is none. The offset of an
/// atomic verb and of each word of a multi-commit is a multiple of 8. Words are `u64` in the caller's own byte order; on the wire and in a region
/// read as bytes they are little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb<'a> {
    /// Reads `len_bytes` bytes, 1 to [`READ_BYTES_MAX`]. Each aligned word of them is read whole, but two words may
    /// be read around another's write. Needs the read right. Answers [`Outcome::Data`].
    Read {
        /// First byte.
        offset_bytes: u64,
        /// How many bytes.
        len_bytes: u32,
    },
    /// Writes 1 to [`WRITE_BYTES_MAX`] bytes. Each aligned word of them is written whole. Needs the write right.
    /// Answers [`Outcome::Done`].
    Write {
        /// First byte.
        offset_bytes: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// Puts `new` in a word and answers [`Outcome::Old`]. Needs the atomic right, as do all that follow.
    Swap {
        /// The word.
        offset_bytes: u64,
        /// Its value afterwards.
        new: u64,
    },
    /// Puts `new` in a word if it holds `expected` and answers [`Outcome::Old`]; else changes nothing and answers
    /// [`Outcome::Mismatch`] with index 0.
    CompareAndSwap {
        /// The word.
        offset_bytes: u64,
        /// What it must hold.
        expected: u64,
        /// Its value afterwards.
        new: u64,
    },
    /// Adds to a word, wrapping at 2⁶⁴, and answers [`Outcome::Old`].
    FetchAdd {
        /// The word.
        offset_bytes: u64,
        /// What to add; a negative number as its two's complement.
        delta: u64,
    },
    /// Ands a word with a mask and answers [`Outcome::Old`].
    FetchAnd {
        /// The word.
        offset_bytes: u64,
        /// The mask.
        mask: u64,
    },
    /// Ors a word with a mask and answers [`Outcome::Old`].
    FetchOr {
        /// The word.
        offset_bytes: u64,
        /// The mask.
        mask: u64,
    },
    /// Exclusive-ors a word with a mask and answers [`Outcome::Old`].
    FetchXor {
        /// The word.
        offset_bytes: u64,
        /// The mask.
        mask: u64,
    },
    /// Puts the smaller of the word and the operand in the word and answers [`Outcome::Old`].
    FetchMin {
        /// The word.
        offset_bytes: u64,
        /// The operand; a signed one as its two's complement.
        operand: u64,
        /// As which numbers the two are compared.
        order: Order,
    },
    /// Puts the greater of the word and the operand in the word and answers [`Outcome::Old`].
    FetchMax {
        /// The word.
        offset_bytes: u64,
        /// The operand; a signed one as its two's complement.
        operand: u64,
        /// As which numbers the two are compared.
        order: Order,
    },
    /// Changes a word if what it holds meets a condition, and answers [`Outcome::Old`]; else changes nothing and answers
    /// [`Outcome::Mismatch`] with index 0.
    Conditional {
        /// The word.
        offset_bytes: u64,
        /// What it must hold.
        condition: Condition,
        /// What becomes of it.
        update: Update,
    },
    /// Compares 1 to [`MULTI_COMMIT_WORDS_MAX`] words and, only if all hold what is expected, sets them all: no other verb sees
    /// some set and others not. Answers [`Outcome::Done`], or [`Outcome::Mismatch`] with the first word that differed.
    MultiCommit {
        /// The words, each at another offset.
        words: &'a [CommitWord],
    },
    /// Appends a message of 1 to [`SEND_BYTES_MAX`] bytes to a [receive queue](crate::ReceiveQueue): whole, when the verb is executed, and not
    /// at all if it is not. Needs the send right. Answers [`Outcome::Done`]; a queue that has no room now refuses it as
    /// [`Refusal::QueueFull`], one that never has as [`Refusal::OutOfBounds`].
    Send {
        /// The message.
        data: &'a [u8],
    },
}

/// One word of a [`Verb::MultiCommit`]. C has the same, so its words need not be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CommitWord {
    /// Where it lies, in bytes from the start of the region; a multiple of 8.
    pub offset_bytes: u64,
    /// What it must hold.
    pub expected: u64,
    /// Its value afterwards.
    pub new: u64,
}

/// Which node a verb is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// The lane that the device lives on.
    Local,
    /// The node with this address, a neighbour or one that is reached over others: its GUID for its lane 0, [`Device::address`](crate::Device::address) there for any.
    Guid(Guid),
    /// The neighbour, the own lane, or the node that is reached over others, with this name: a node's configured one for its lane 0, `NAME.1` for its lane 1. It is looked up once, when a
    /// region is opened.
    Name(&'a str),
}

/// The number of a posted verb, unique in its [`Verbs`](crate::Verbs) for as long as anyone can ask about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VerbId(pub(crate) u64);

impl VerbId {
    /// The number itself, for logs and foreign interfaces.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The id with this number. One that was never handed out names no verb and completes nothing.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// One entry of a completion queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// What the caller gave to [`Verbs::post`](crate::Verbs::post).
    pub user_data: u64,
    /// The verb's number.
    pub id: VerbId,
    /// What became of it.
    pub outcome: Outcome,
    /// Its place among the completions of all nodes.
    pub stamp: Stamp,
}

/// What became of a verb.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It was executed, and has nothing to tell.
    #[default]
    Done,
    /// It was executed; the word held this before.
    Old(u64),
    /// It was executed; these are the bytes read.
    Data(Box<[u8]>),
    /// It was executed and changed nothing, because a word did not hold what was expected.
    Mismatch {
        /// Which word of a multi-commit, from 0; 0 for a verb on one word.
        index: u16,
        /// What the word held.
        found: u64,
    },
    /// It was not executed. After [`Refusal::NoResources`], [`Refusal::Busy`] and [`Refusal::QueueFull`] trying later helps; the other reasons stay.
    Refused(Refusal),
    /// The other node's daemon lost its memory of this verb: it was executed before, or not at all. Almost always because that daemon started
    /// afresh, and then an ordinary region is gone; a durable one tells. One that is several hops away and lives may have had to make room.
    PeerRestarted,
    /// It was not executed: no link ever led to a node with that identity. A daemon that has just started says so at once when all of its links are up; else it
    /// waits for that, for ten seconds from its start at most, and verbs of the same queue behind wait too.
    NoSuchPeer,
    /// It was not executed: the daemon could not read the request.
    Malformed,
    /// *Not final.* The link was lost and no path leads to the other node now, so nobody here knows whether it was
    /// executed. Another completion with the same id and user data follows as soon as a path returns. Who will not be
    /// there then keeps the name, for [`Verbs::ask`](crate::Verbs::ask).
    InDoubt(InDoubtId),
    /// What was [asked for](crate::Verbs::ask) was not executed and will not be: the other node reversed it.
    Undone,
    /// What was [asked for](crate::Verbs::ask) was not executed and will not be: it never reached the other node.
    NeverSeen,
    /// Nobody can tell what became of what was [asked for](crate::Verbs::ask). It was executed at most once. One of the
    /// two daemons started afresh since, or more verbs were in doubt than are remembered, or the name is another user's. Any verb may end so that was under way when the own daemon
    /// ended, of a device that [found it again](crate::Device::set_reconnect): only if the daemon was killed, or the verb was in doubt.
    Forgotten,
}

impl Outcome {
    /// Whether nothing more will come for the verb.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::InDoubt(_))
    }
}
