//! What a group tells: events, errors, how it stands.

use core::fmt;

#[cfg(doc)]
use super::{Group, MULTICAST_BYTES_MAX, STATE_BYTES_MAX};
use super::{
    contact::{Contact, Life, Members, View},
    wire::BadEnvelope,
};
#[cfg(doc)]
use crate::verb::SEND_BYTES_MAX;

/// What [`Group::on_end`] needs to know which envelope ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    pub(super) guid: u64,
    pub(super) life: Life,
    pub(super) number: u32,
    /// What said it.
    pub(super) of: TicketOf,
}

/// What said an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TicketOf {
    /// The pair with a member.
    Pair,
    /// The book, to one who is no member.
    Book,
    /// An answer to a challenge.
    Answer,
}

/// An envelope on its way out. `ticket` comes back with [`Group::on_end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel {
    /// To whose receive queue.
    pub to: Contact,
    /// Its length in bytes, 1 to [`SEND_BYTES_MAX`].
    pub len: usize,
    /// Names it.
    pub ticket: Ticket,
}

/// How an envelope ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// It is in the receive queue.
    Done,
    /// It is not, and might be if it were said again later.
    NotExecuted,
    /// Nobody knows.
    Unclear,
    /// There is no such queue any more: whoever had it is gone and does not return under this life.
    Gone,
}

/// Why a multicast, or a piece of state, was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MulticastError {
    /// There is no room now. [`Group::holds_up`] says for whom it waits.
    Full,
    /// This member is stopped, or leaves.
    Stopped,
    /// Longer than [`MULTICAST_BYTES_MAX`] or [`STATE_BYTES_MAX`].
    TooLong,
    /// No bytes.
    Empty,
    /// Nobody waits for this state any more, or it was given to its end.
    NotWanted,
}

/// What this member is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupStanding {
    /// It has no view yet.
    Seeking,
    /// In a view, and delivers.
    Member,
    /// In a view that is being replaced.
    Changing,
    /// In a view that is to be replaced, and those whom it reaches are no quorum.
    Minority,
    /// Out of the group, for good: [`Event::Stopped`] said why.
    Stopped,
    /// It left.
    Left,
}

impl GroupStanding {
    /// Each.
    pub const ALL: [Self; 6] = [
        Self::Seeking,
        Self::Member,
        Self::Changing,
        Self::Minority,
        Self::Stopped,
        Self::Left,
    ];

    /// What it is called where nodes are watched.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seeking => "seeking",
            Self::Member => "member",
            Self::Changing => "changing",
            Self::Minority => "minority",
            Self::Stopped => "stopped",
            Self::Left => "left",
        }
    }
}

/// Why nothing is delivered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// Those whom it reaches are no quorum of the view's voters. It goes on if they become one.
    Minority {
        /// Who is left, with itself.
        reached: Members,
        /// Whose quorum it takes.
        voters: Members,
    },
    /// The others went on without it. Join anew, with another life.
    Excluded,
    /// There is another group of this name, or others found one. Join anew, with another life.
    OtherGroup {
        /// That group; 0 while it is not founded.
        group: u64,
        /// How many members it has, as far as is known.
        members: u8,
    },
}

/// Something that the application is told, in one order with everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// From now on these are the members.
    View(&'a View),
    /// A multicast. Every member of the view has it in its memory.
    Delivered {
        /// Who sent it.
        sender: Contact,
        /// Its number among those of its sender's life, from 1.
        sequence: u64,
        /// Number of the view.
        view: u64,
        /// Place of its batch in the order of the view, from 0.
        position: u64,
        /// Its bytes.
        data: &'a [u8],
    },
    /// Every member's application has taken all multicasts of the positions below this one.
    Stable {
        /// Number of the view.
        view: u64,
        /// The position.
        position: u64,
    },
    /// A member needs the application's state as it is now, from its beginning, whatever it was given before.
    StateWanted {
        /// Who.
        to: Contact,
    },
    /// A piece of the application's state, in order.
    State {
        /// Its bytes.
        data: &'a [u8],
        /// Whether it is the last one.
        last: bool,
        /// Own messages up to this number were delivered before this member had the state: they are in it, and nothing more is told of them.
        delivered_to: u64,
    },
    /// Forget the pieces that came: they come anew.
    StateVoid,
    /// Nothing is delivered from now on. Own messages from number `undelivered` on are in doubt.
    ///
    /// But for a [`Stop::Minority`], which may end, the receive queue is to be given up once [`Group::poll_send`] has nothing more: whoever still
    /// takes this life for a member learns from the refusal.
    Stopped {
        /// Why.
        why: Stop,
        /// Number of the first own message that was not delivered here.
        undelivered: u64,
    },
    /// Of the former life that was asked about this many messages were delivered. Told if the group remembers it as a member.
    Fate {
        /// How many.
        delivered_to: u64,
    },
    /// It is out of the group, as it asked. The receive queue is to be given up.
    Left,
}

impl fmt::Display for MulticastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the group has no room for more now; cure: take events, and ask who holds it up",
            Self::Stopped => "this member is out of the group, or leaves it; cure: join anew",
            Self::TooLong => "more bytes than one multicast or one piece of state has",
            Self::Empty => "a message without bytes",
            Self::NotWanted => "nobody waits for this piece of state any more; cure: give it when it is wanted again",
        })
    }
}

impl core::error::Error for MulticastError {}

/// What happened since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCounters {
    /// Own messages taken in.
    pub multicasts: u64,
    /// Own batches closed.
    pub batches: u64,
    /// Own rounds declared null.
    pub nulls: u64,
    /// Messages delivered.
    pub deliveries: u64,
    /// Views begun.
    pub views: u64,
    /// Envelopes said, those said again among them.
    pub envelopes_said: u64,
    /// Envelopes said again because they did not arrive, or nobody knew.
    pub envelopes_said_again: u64,
    /// Envelopes that came and were taken.
    pub envelopes_taken: u64,
    /// Envelopes that came twice.
    pub duplicates: u64,
    /// Envelopes that were dropped, by [`BadEnvelope::index`].
    pub bad_envelopes: [u64; BadEnvelope::COUNT],
}
