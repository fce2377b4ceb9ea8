//! Types of verbs: operations on a region, and their outcomes.

use std::fmt;

use covalent_api::guid::Guid;

use crate::{in_doubt::InDoubtId, remote::RemoteRegion, stamp::Stamp};

pub use covalent_protocol::{
    Mode, Refusal,
    verb::{
        Comparison, Condition, MULTI_COMMIT_WORDS_MAX, Order, READ_BYTES_MAX, SEND_BYTES_MAX,
        Update, WRITE_BYTES_MAX,
    },
};

/// An operation on a remote region.
///
/// Offsets are in bytes from the start of the region, which has at most 1 GiB: no offset reaches
/// 2³². The offset of an atomic verb and of each word of a multi-commit is a multiple of 8. Words
/// are `u64` in the caller's byte order. On the wire, and in a region read as bytes, they are
/// little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb<'a> {
    /// Reads `len_bytes` bytes, 1 to [`READ_BYTES_MAX`]. Each aligned word is read whole, but a
    /// write may come between the reads of two words. Needs the read right. Completes with
    /// [`Outcome::Data`].
    Read {
        /// First byte.
        offset_bytes: u64,
        /// How many bytes.
        len_bytes: u32,
    },
    /// Writes 1 to [`WRITE_BYTES_MAX`] bytes. Each aligned word is written whole. Needs the write
    /// right. Completes with [`Outcome::Done`].
    Write {
        /// First byte.
        offset_bytes: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// Sets a word to `new`. Completes with [`Outcome::Old`]. Needs the atomic right, as all
    /// following verbs except [`Verb::Send`] do.
    Swap {
        /// The word.
        offset_bytes: u64,
        /// Its value afterwards.
        new: u64,
    },
    /// Sets a word to `new` if it holds `expected`, and completes with [`Outcome::Old`]. Otherwise
    /// changes nothing and completes with [`Outcome::Mismatch`] with index 0.
    CompareAndSwap {
        /// The word.
        offset_bytes: u64,
        /// Value that the word must hold.
        expected: u64,
        /// Its value afterwards.
        new: u64,
    },
    /// Adds to a word, wrapping at 2⁶⁴. Completes with [`Outcome::Old`].
    FetchAdd {
        /// The word.
        offset_bytes: u64,
        /// Value to add. A negative number is in two's complement.
        delta: u64,
    },
    /// Performs a bitwise AND of a word with a mask. Completes with [`Outcome::Old`].
    FetchAnd {
        /// The word.
        offset_bytes: u64,
        /// The mask.
        mask: u64,
    },
    /// Performs a bitwise OR of a word with a mask. Completes with [`Outcome::Old`].
    FetchOr {
        /// The word.
        offset_bytes: u64,
        /// The mask.
        mask: u64,
    },
    /// Performs a bitwise XOR of a word with a mask. Completes with [`Outcome::Old`].
    FetchXor {
        /// The word.
        offset_bytes: u64,
        /// The mask.
        mask: u64,
    },
    /// Sets a word to the minimum of the word and the operand. Completes with [`Outcome::Old`].
    FetchMin {
        /// The word.
        offset_bytes: u64,
        /// The operand; a signed one as its two's complement.
        operand: u64,
        /// As which numbers the two are compared.
        order: Order,
    },
    /// Sets a word to the maximum of the word and the operand. Completes with [`Outcome::Old`].
    FetchMax {
        /// The word.
        offset_bytes: u64,
        /// The operand; a signed one as its two's complement.
        operand: u64,
        /// As which numbers the two are compared.
        order: Order,
    },
    /// Updates a word if it meets a condition, and completes with [`Outcome::Old`]. Otherwise
    /// changes nothing and completes with [`Outcome::Mismatch`] with index 0.
    Conditional {
        /// The word.
        offset_bytes: u64,
        /// Condition that the word must meet.
        condition: Condition,
        /// Update of the word.
        update: Update,
    },
    /// Compares 1 to [`MULTI_COMMIT_WORDS_MAX`] words, and sets all of them only if each holds its
    /// expected value. No other verb sees some words set and others not. Completes with
    /// [`Outcome::Done`], or with [`Outcome::Mismatch`] and the first word that differed.
    MultiCommit {
        /// The words, each at another offset.
        words: &'a [CommitWord],
    },
    /// Appends a message of 1 to [`SEND_BYTES_MAX`] bytes to a [receive
    /// queue](crate::ReceiveQueue): whole when the verb is executed, and not at all if it is not.
    /// Needs the send right. Completes with [`Outcome::Done`]. A queue that has no room now refuses
    /// it as [`Refusal::QueueFull`]. A queue that can never hold it refuses it as
    /// [`Refusal::OutOfBounds`].
    Send {
        /// The message.
        data: &'a [u8],
    },
}

impl Verb<'_> {
    /// Name of the right that the region must grant.
    pub(crate) const fn needed_right(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Send { .. } => "send",
            _ => "atomic",
        }
    }
}

/// One word of a [`Verb::MultiCommit`]. C has the same, so its words need not be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CommitWord {
    /// Where it lies, in bytes from the start of the region; a multiple of 8.
    pub offset_bytes: u64,
    /// Value that the word must hold.
    pub expected: u64,
    /// Its value afterwards.
    pub new: u64,
}

/// Which node a verb is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// The device's lane.
    Local,
    /// The node with this address, a neighbor or a node reached over others. A node's GUID is the
    /// address of its lane 0. A device on any lane of that node returns the lane's address from
    /// [`Device::address`](crate::Device::address).
    Guid(Guid),
    /// The neighbor, the local lane, or the node reached over others, with this name. A node's
    /// configured name is that of its lane 0, and `NAME.1` is that of its lane 1. The name is
    /// looked up once, when a region is opened.
    Name(&'a str),
}

/// The name or the address; `local` for the device's lane.
impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Guid(guid) => guid.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The number of a posted verb. It is unique in its [`Verbs`](crate::Verbs) while the verb can
/// still be queried.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The value that the caller passed to [`Verbs::post`](crate::Verbs::post).
    pub user_data: u64,
    /// The verb's number.
    pub id: VerbId,
    /// The outcome.
    pub outcome: Outcome,
    /// Its place among the completions of all nodes.
    pub stamp: Stamp,
}

/// Outcome of a verb.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The verb was executed and returned no data.
    #[default]
    Done,
    /// It was executed; the word held this before.
    Old(u64),
    /// It was executed. [`Verbs::data`](crate::Verbs::data) returns the bytes read.
    Data {
        /// How many.
        len_bytes: u32,
    },
    /// The [lookup](crate::Verbs::post_lookup) found this region.
    Region(RemoteRegion),
    /// The result of a [watch](crate::Verbs::post_watch): the node's reachability differs from what
    /// the program knew.
    Path {
        /// Whether a path leads to the node now.
        up: bool,
    },
    /// The verb was executed and changed nothing, because a word did not hold the expected value.
    Mismatch {
        /// Which word of a multi-commit, from 0; 0 for a verb on one word.
        index: u16,
        /// Value of the word.
        found: u64,
    },
    /// The verb was not executed. After [`Refusal::NoResources`], [`Refusal::Busy`] and
    /// [`Refusal::QueueFull`] a later retry may succeed. The other reasons are permanent.
    Refused(Refusal),
    /// The other node's daemon lost its record of this verb: it was executed before, or not at all.
    /// Almost always that daemon restarted. An ordinary region is then gone, while a durable one
    /// shows whether the verb was executed. A running daemon several hops away may have dropped the
    /// record to make room.
    PeerRestarted,
    /// The verb was not executed: no link ever led to a node with that identity. A daemon that just
    /// started reports this at once if all of its links are up. Otherwise it waits for them, for at
    /// most ten seconds from its start. Later verbs of the same queue wait too.
    NoSuchPeer,
    /// It was not executed: the daemon could not read the request.
    Malformed,
    /// *Not final.* The link was lost and no path leads to the other node now, so it is unknown
    /// here whether the verb was executed. A verb that the lane never sent waits without this
    /// completion: a [watch](crate::Verbs::post_watch) reports the path.
    ///
    /// Another completion with the same id and user data follows as soon as a path returns. A
    /// program that will not run until then keeps the name, for
    /// [`query_in_doubt`](crate::Verbs::query_in_doubt).
    InDoubt(InDoubtId),
    /// The [queried](crate::Verbs::query_in_doubt) verb was not executed and will not be: the
    /// other node reversed it.
    Undone,
    /// The [queried](crate::Verbs::query_in_doubt) verb was not executed and will not be: it
    /// never reached the other node.
    NeverSeen,
    /// The outcome of the [queried](crate::Verbs::query_in_doubt) verb is unknown. It was
    /// executed at most once. One of the two daemons restarted since, or more verbs were in doubt
    /// than are remembered, or the name belongs to another user.
    ///
    /// A verb that was in flight when the local daemon stopped may also complete so, if its device
    /// [reconnected](crate::Device::set_reconnect). This happens only if the daemon was killed, or
    /// if the verb was in doubt.
    Forgotten,
    /// The other node's reply is none that this verb can have: that node is faulty, or lies. The
    /// verb was executed at most once, and it is unknown whether it was.
    BadReply,
}

impl Outcome {
    /// Whether nothing more will come for the verb.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::InDoubt(_))
    }
}
