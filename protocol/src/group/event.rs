//! Events, errors and states of a group.

use core::fmt;

#[cfg(doc)]
use super::{Group, MULTICAST_BYTES_MAX, STATE_BYTES_MAX};
use super::{
    contact::{Contact, Incarnation, Members, View},
    wire::BadEnvelope,
};
#[cfg(doc)]
use crate::verb::SEND_BYTES_MAX;

/// Identifies an envelope for [`Group::on_end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    pub(super) guid: u64,
    pub(super) incarnation: Incarnation,
    pub(super) number: u32,
    /// The sender of the envelope.
    pub(super) of: TicketOf,
}

/// The sender of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TicketOf {
    /// The pair with a member.
    Pair,
    /// The book, to a node that is no member.
    Book,
    /// An answer to a challenge.
    Answer,
}

/// An envelope on its way out. `ticket` comes back with [`Group::on_end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel {
    /// The receive queue of this contact.
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
    /// It is not in the receive queue. A later retry may succeed.
    NotExecuted,
    /// The outcome is unknown.
    Unclear,
    /// The queue no longer exists: its owner is gone and does not return with this incarnation.
    Gone,
}

/// Why a multicast, or a piece of state, was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MulticastError {
    /// No space now. [`Group::laggard`] returns the members it waits for.
    Full,
    /// This member is stopped, or leaves.
    Stopped,
    /// Longer than [`MULTICAST_BYTES_MAX`] or [`STATE_BYTES_MAX`].
    TooLong,
    /// No bytes.
    Empty,
    /// No member waits for this state any more, or the last piece was already given.
    NotWanted,
}

/// The current state of this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum GroupStanding {
    /// It has no view yet.
    Searching,
    /// In a view, and delivers.
    Member,
    /// In a view that is being replaced.
    Changing,
    /// In a view that must be replaced, but the members that it reaches are no quorum.
    Minority,
    /// Out of the group permanently: [`Event::Stopped`] reported the reason.
    Stopped,
    /// It left.
    Left,
}

impl GroupStanding {
    /// Each.
    pub const ALL: [Self; 6] = [
        Self::Searching,
        Self::Member,
        Self::Changing,
        Self::Minority,
        Self::Stopped,
        Self::Left,
    ];

    /// Name of the state in monitoring output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Searching => "seeking",
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
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Stop {
    /// The members that it reaches are no quorum of the view's voters. Delivery continues if they
    /// become one.
    Minority {
        /// The remaining members, including itself.
        reached: Members,
        /// The voters of the view.
        voters: Members,
    },
    /// The other members continued without it. Join again with another incarnation.
    Excluded,
    /// There is another group of this name, or other nodes are founding one. Join again with
    /// another incarnation.
    OtherGroup {
        /// That group; 0 while it is not founded.
        group: u64,
        /// How many members it has, as far as is known.
        members: u8,
    },
}

/// An event for the application. All events are in one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Event<'a> {
    /// From now on these are the members.
    View(&'a View),
    /// A multicast. Every member of the view has it in its memory.
    Delivered {
        /// The sender.
        sender: Contact,
        /// Its number among the messages of its sender's incarnation, from 1.
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
    /// A member needs the application's current state, from its beginning, regardless of the pieces
    /// it already received.
    StateWanted {
        /// The member.
        to: Contact,
    },
    /// A piece of the application's state. Pieces arrive in order.
    State {
        /// Its bytes.
        data: &'a [u8],
        /// Whether it is the last one.
        last: bool,
        /// Own messages up to this number were delivered before this member had the state: the
        /// state includes them, and no further event reports them.
        delivered_to: u64,
    },
    /// Discard the received pieces: the state is sent again.
    StateVoid,
    /// Nothing is delivered from now on. Own messages from number `undelivered` on are in doubt.
    ///
    /// Except for [`Stop::Minority`], which may end, close the receive queue once
    /// [`Group::poll_send`] returns nothing more. A node that still takes this incarnation for a
    /// member learns from the refusal.
    Stopped {
        /// Why.
        why: Stop,
        /// Number of the first own message that was not delivered here.
        undelivered: u64,
    },
    /// Number of delivered messages of the queried former incarnation. Reported if the group
    /// remembers it as a member.
    Outcome {
        /// How many.
        delivered_to: u64,
    },
    /// It left the group as requested. Close the receive queue.
    Left,
}

impl fmt::Display for MulticastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => {
                "the group has no room for more now; cure: take events, and query which \
                           member delays it"
            }
            Self::Stopped => "this member is out of the group, or leaves it; cure: join again",
            Self::TooLong => "more bytes than one multicast or one piece of state has",
            Self::Empty => "a message without bytes",
            Self::NotWanted => {
                "no member waits for this piece of state any more; cure: give it \
                                when it is requested again"
            }
        })
    }
}

impl core::error::Error for MulticastError {}

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
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
    /// Envelopes sent, including retransmissions.
    pub envelopes_sent: u64,
    /// Envelopes sent again because they did not arrive, or their outcome was unknown.
    pub envelopes_resent: u64,
    /// Envelopes received and accepted.
    pub envelopes_taken: u64,
    /// Envelopes received twice.
    pub duplicates: u64,
    /// Envelopes that were dropped, by [`BadEnvelope::index`].
    pub bad_envelopes: [u64; BadEnvelope::COUNT],
}
