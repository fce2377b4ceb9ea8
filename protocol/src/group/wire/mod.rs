//! Envelopes: the messages between members, each one a `send` verb.
//!
//! All little-endian. `n` is the number of members of the view, 0 where the sender is no member of
//! it (`hello`, `known`, `challenge`).
//!
//! ```text
//!  0  version u8 = 3 ┼ kind u8 ┼ from u8 (rank; 255: no member) ┼ flags u8 ┼ number u32
//!  8  group u64
//! 16  view u64
//! 24  life u64          of the sender: hash of its queue u32 << 32 ┼ random u32
//! 32  taken u32         envelopes of the receiver that this sender has taken, in all
//! 36  batch bytes u16 ┼ n u8 ┼ 0 u8
//! 40  token u64         that the receiver drew for the sender's queue; 0: not known to the sender
//! 48  grant u64         that the sender drew for the receiver's queue
//! 56  rkey u32          of the sender's queue
//! 60  0 u32
//! 64  rounds u64        this sender's batches of rounds below this one are all sent
//! 72  delivered u64     positions that its application has
//! 80  received u64 × n  rounds of each sender that it holds without a gap
//!     body of the kind
//! flags     1 leaving ┼ 2 has state ┼ 4 wedged ┼ 8 the accepted proposal is decided
//!           ┼ 16 outside of the pair's order: number is 0
//!
//! 1 flow    (length u16 ┼ bytes)*: the batch of round `rounds - 1`
//! 2 change  promised u64 ┼ accepted u64 ┼ attempt u32 ┼ known u32 ┼ claims u32 × n
//!           ┼ proposal, if accepted is not 0
//! 3 hello   contact ┼ former life u64 (0 for none) ┼ founders u8 ┼ 0 ×7
//! 4 known   count u8 ┼ members u8 ┼ excluded u8 (0 or 1) ┼ 0 ×5 ┼ contacts
//! 5 welcome voters u32 ┼ fates u8 ┼ 0 ×3 ┼ contacts × n ┼ sequences u64 × n
//!           ┼ (life u64 ┼ messages u64) × fates
//! 6 state   offset u64 ┼ last u8 ┼ 0 ×7 ┼ bytes
//! 7 challenge, which is the head alone
//! proposal  stay u32 ┼ voters u32 ┼ joiners u8 ┼ 0 ×7 ┼ contacts ┼ trim u64 × n
//! contact   guid u64 ┼ life u64 ┼ rkey u32 ┼ terms u32
//! terms     1 stateless ┼ most members << 8; 0 outside of `hello` and `known`
//! ```
//! In a `welcome`, `messages` is all ones for a node that is only known to be out: a founder or
//! joiner that never sent as a member.
//!
//! In `change`, `known` are the members whose claims of this attempt follow. The word of any other
//! member is 0.

mod decode;
mod encode;

use core::fmt;

use super::{
    contact::{Contact, Contacts, Incarnation, MEMBERS_MAX, Members},
    row::{Change, Frontier},
    token::Token,
};
use crate::verb::SEND_BYTES_MAX;
use decode::Reader;

/// Most contacts that a proposal takes in.
pub const JOINERS_MAX: usize = 8;
/// Most contacts of one `known`.
pub const KNOWN_MAX: usize = 128;
/// Most fates of a `welcome`.
pub const OUTCOMES_MAX: usize = 64;
/// Number of messages of a former member for which it is unknown: a founder or joiner that never
/// sent as a member.
pub const OUTCOME_UNKNOWN: u64 = u64::MAX;
/// Bytes of the head before `received`.
pub const HEAD_BYTES: usize = 80;

const VERSION: u8 = 3;
const NON_MEMBER: u8 = 255;
const CONTACT_BYTES: usize = 24;
const STATE_HEAD_BYTES: usize = 16;

/// Longest multicast, in bytes, for any number of members.
pub const MULTICAST_BYTES_MAX: usize = SEND_BYTES_MAX - HEAD_BYTES - 8 * MEMBERS_MAX - 2;
/// Longest piece of an application's state, in bytes.
pub const STATE_BYTES_MAX: usize = SEND_BYTES_MAX - HEAD_BYTES - 8 * MEMBERS_MAX - STATE_HEAD_BYTES;

const LEAVING: u8 = 1;
const HAS_STATE: u8 = 2;
const WEDGED: u8 = 4;
const DECIDED: u8 = 8;
const UNORDERED: u8 = 16;

/// Why bytes are no envelope, or one that this member does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadEnvelope {
    /// Shorter or longer than its fields state.
    Length,
    /// Of a version that is not spoken here.
    Version(u8),
    /// Of a kind that is not known here.
    Kind(u8),
    /// An unused field is not zero, or a field is 0 that must not be.
    Reserved,
    /// A rank, or a bit for one, that no member has.
    Rank,
    /// From another node than the one on which this incarnation is a member.
    Sender,
    /// Of another group under the same name.
    OtherGroup,
    /// It breaks a bound that its sender knows: a number beyond the window, a round beyond the
    /// credit, another view with this number.
    Violation,
    /// Of an unknown incarnation, and no slot is free to buffer it.
    NoRoom,
    /// Without the token of its sender: any application of that node may have sent it.
    Unproven,
    /// It names a contact with the incarnation of another queue.
    Incarnation,
}

impl BadEnvelope {
    /// How many causes there are.
    pub const COUNT: usize = 11;

    /// The place of the cause among all: 0 to [`BadEnvelope::COUNT`] - 1.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Length => 0,
            Self::Version(_) => 1,
            Self::Kind(_) => 2,
            Self::Reserved => 3,
            Self::Rank => 4,
            Self::Sender => 5,
            Self::OtherGroup => 6,
            Self::Violation => 7,
            Self::NoRoom => 8,
            Self::Unproven => 9,
            Self::Incarnation => 10,
        }
    }
}

impl fmt::Display for BadEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("an envelope whose length does not match its fields"),
            Self::Version(version) => write!(
                f,
                "an envelope of version {version}; this library speaks {VERSION}; cure: run one \
                 version of it on all members' nodes"
            ),
            Self::Kind(kind) => write!(f, "an envelope of the unknown kind {kind}"),
            Self::Reserved => f.write_str("an envelope with an invalid value"),
            Self::Rank => f.write_str("an envelope that names a rank that no member has"),
            Self::Sender => {
                f.write_str("an envelope from another node than its sender is a member on")
            }
            Self::OtherGroup => f.write_str("an envelope of another group under the same name"),
            Self::Violation => f.write_str("an envelope beyond a bound that its sender knows"),
            Self::NoRoom => {
                f.write_str("an envelope of an unknown sender for which there is no room")
            }
            Self::Unproven => f.write_str("an envelope without the token of its sender"),
            Self::Incarnation => {
                f.write_str("an envelope that names an incarnation of another queue")
            }
        }
    }
}

impl core::error::Error for BadEnvelope {}

/// An envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The head, common to all kinds.
    pub head: Head,
    /// The body of its kind.
    pub body: Body<'a>,
}

/// The head of envelopes of all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The sender's rank; `None` for a stranger.
    pub from: Option<u8>,
    /// Low half of its number in the pair's order, from 1. `None` outside of the order.
    pub number: Option<u32>,
    /// The group; 0 for none.
    pub group: u64,
    /// Number of the view; 0 too for none.
    pub view: u64,
    /// The sender.
    pub incarnation: Incarnation,
    /// Key of its queue.
    pub rkey: u32,
    /// The token that it presents, drawn by the receiver.
    pub token: Token,
    /// The token that the receiver must present to the sender.
    pub grant: Token,
    /// How many envelopes of the receiver it has taken: the low half of it.
    pub taken: u32,
    /// Members of the view, 0 to [`MEMBERS_MAX`].
    pub members: u8,
    /// The accepted proposal is decided.
    pub decided: bool,
    /// How far it is.
    pub frontier: Frontier,
}

/// The bodies of the kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "they exist for one call, and there is no heap here"
)]
pub enum Body<'a> {
    /// A row, and perhaps a batch.
    Flow(Batch<'a>),
    /// A row of a view that is to end.
    Change {
        /// The sender's. Its claims are also among `claims`.
        change: Change,
        /// The members whose claims of this attempt are known.
        known: Members,
        /// They, by rank.
        claims: [Members; MEMBERS_MAX],
    },
    /// A node under the group's name announces itself.
    Hello {
        /// Itself.
        contact: Contact,
        /// The terms on which it joins a group.
        terms: Terms,
        /// Its former incarnation; [`Incarnation`] 0 for none.
        former: Incarnation,
        /// Members with which it founds; 0 for never.
        founders: u8,
    },
    /// The nodes known under the group's name.
    Known {
        /// So many of the first are the members of the view.
        members: u8,
        /// The receiver's incarnation is a former member.
        excluded: bool,
        /// The known contacts.
        contacts: KnownContacts<'a>,
    },
    /// The view, for a member that joined it.
    Welcome {
        /// The view's members, by rank.
        contacts: Contacts,
        /// Its voters.
        voters: Members,
        /// By rank: messages of each that were delivered before this view.
        sequences: [u64; MEMBERS_MAX],
        /// Former members, the oldest first, with the number of their delivered messages.
        outcomes: Outcomes<'a>,
    },
    /// A piece of the application's state as it was when the view began.
    State {
        /// Bytes before it.
        offset: u64,
        /// Whether it is the last one.
        last: bool,
        /// 0 to [`STATE_BYTES_MAX`] bytes.
        data: &'a [u8],
    },
    /// Requests the token to present to the receiver, or answers such a request.
    Challenge,
}

/// Terms that all members of a group must share before they meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Terms {
    /// Whether there is no state that a joining member needs.
    pub stateless: bool,
    /// Most members.
    pub members_max: u8,
}

/// Messages, each one with its length before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Batch<'a>(&'a [u8]);

impl<'a> Batch<'a> {
    /// Checks the bytes: messages of 1 to [`MULTICAST_BYTES_MAX`] bytes, nothing behind them.
    ///
    /// # Errors
    /// [`BadEnvelope::Length`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, BadEnvelope> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (message, behind) = split_message(rest).ok_or(BadEnvelope::Length)?;
            if !(1..=MULTICAST_BYTES_MAX).contains(&message.len()) {
                return Err(BadEnvelope::Length);
            }
            rest = behind;
        }
        Ok(Self(bytes))
    }

    /// A batch that was made of such messages.
    pub(super) const fn of_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Splits a batch into its first message and the rest.
pub(super) fn split_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

/// Contacts of a `known`, with their terms.
#[derive(Clone, Copy)]
pub struct KnownContacts<'a>(Listed<'a>);

#[derive(Clone, Copy)]
enum Listed<'a> {
    Values(&'a [(Contact, Terms)]),
    Encoded(&'a [u8]),
}

impl<'a> KnownContacts<'a> {
    /// The first [`KNOWN_MAX`] of `contacts`.
    #[must_use]
    pub fn new(contacts: &'a [(Contact, Terms)]) -> Self {
        Self(Listed::Values(&contacts[..contacts.len().min(KNOWN_MAX)]))
    }

    /// How many they are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Listed::Values(contacts) => contacts.len(),
            Listed::Encoded(bytes) => bytes.len() / CONTACT_BYTES,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The contacts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Contact, Terms)> + use<'a> {
        let listed = self.0;
        (0..self.len()).filter_map(move |at| match listed {
            Listed::Values(contacts) => contacts.get(at).copied(),
            Listed::Encoded(bytes) => Reader(bytes.get(at * CONTACT_BYTES..)?).contact().ok(),
        })
    }
}

impl PartialEq for KnownContacts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for KnownContacts<'_> {}

impl fmt::Debug for KnownContacts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Number of delivered messages of former members.
#[derive(Clone, Copy)]
pub struct Outcomes<'a>(OutcomeList<'a>);

#[derive(Clone, Copy)]
enum OutcomeList<'a> {
    Values(&'a [(Incarnation, u64)]),
    Encoded(&'a [u8]),
}

impl<'a> Outcomes<'a> {
    /// The first [`OUTCOMES_MAX`] of `outcomes`.
    #[must_use]
    pub fn new(outcomes: &'a [(Incarnation, u64)]) -> Self {
        Self(OutcomeList::Values(
            &outcomes[..outcomes.len().min(OUTCOMES_MAX)],
        ))
    }

    const fn len(&self) -> usize {
        match self.0 {
            OutcomeList::Values(outcomes) => outcomes.len(),
            OutcomeList::Encoded(bytes) => bytes.len() / 16,
        }
    }

    /// The former members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Incarnation, u64)> + use<'a> {
        let list = self.0;
        (0..self.len()).filter_map(move |at| match list {
            OutcomeList::Values(outcomes) => outcomes.get(at).copied(),
            OutcomeList::Encoded(bytes) => {
                let mut reader = Reader(bytes.get(at * 16..)?);
                Some((Incarnation(reader.u64().ok()?), reader.u64().ok()?))
            }
        })
    }
}

impl PartialEq for Outcomes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Outcomes<'_> {}

impl fmt::Debug for Outcomes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Terms {
    /// The word that stands for them.
    fn word(self) -> u32 {
        u32::from(self.stateless) | u32::from(self.members_max) << 8
    }
}
