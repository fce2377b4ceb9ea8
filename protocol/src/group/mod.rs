//! Groups: views, and multicasts in one order for all members.
//!
//! A [`Group`] is the state machine of one member, without clock and I/O. Each member keeps a
//! [table](row) with a row for each member. It writes only its own row and pushes it to the others
//! as [envelopes](wire), which are `send` verbs into their receive queues. Multicasts are sent in
//! batches, ordered by (round, rank of the sender). A batch is delivered when the rows show that
//! every member holds it.
//!
//! ```text
//!  multicast ─► pending ─► batch of a round ─► envelope ─► poll_send
//!                                                             │ verbs
//!  poll_event ◄── order ◄── batches, rows ◄── pair's order ◄── on_envelope
//! ```
//!
//! # Guarantees
//! Only [`Group::new`] allocates memory (a clone allocates as it needs it). No input panics.
//! Buffers are bounded: 64 rounds of 4 KiB of each member, 64 KiB of own messages, eight envelopes
//! from and to each member.

mod challenge;
mod change;
mod config;
mod contact;
mod event;
mod evidence;
mod flow;
mod found;
mod hash;
mod install;
mod notice;
mod pair;
mod receive;
mod rounds;
pub mod row;
mod send;
mod state;
mod table;
#[cfg(feature = "arbitrary-state")]
mod tamper;
mod token;
pub mod wire;

use alloc::vec::Vec;

use challenge::Answers;
use change::{Ended, Trying};
pub use config::GroupConfig;
pub use contact::{Contact, Contacts, Incarnation, MEMBERS_MAX, Members, View};
use event::TicketOf;
pub use event::{End, Event, GroupCounters, GroupStanding, MulticastError, Parcel, Stop, Ticket};
use flow::Flow;
use found::Book;
pub use notice::{NOTICE_WORDS, Notice};
use pair::Pair;
pub use pair::WINDOW;
pub use rounds::{PENDING_BYTES_MAX, ROUNDS_OPEN};
use rounds::{Pending, Rounds};
use state::Transfer;
use table::Table;
#[cfg(feature = "arbitrary-state")]
pub use tamper::Inside;
pub use token::{Secret, Token};
pub use wire::{BadEnvelope, MULTICAST_BYTES_MAX, STATE_BYTES_MAX};
use wire::{JOINERS_MAX, OUTCOMES_MAX};

/// One member of a group: a pure machine.
#[derive(Debug, Clone)]
pub struct Group {
    config: GroupConfig,
    phase: Phase,
    /// Without members while there is none.
    view: View,
    /// The own rank in it.
    me: usize,
    table: Table,
    rounds: Rounds,
    pending: Pending,
    /// Own messages that were taken in.
    accepted: u64,
    has_state: bool,
    flow: Flow,
    pairs: Vec<Pair>,
    /// The pair that is checked next for an envelope to send.
    next_pair: usize,
    trying: Trying,
    ended: Ended,
    /// Former members, the oldest first, with the number of their delivered messages.
    outcomes: Vec<(Incarnation, u64)>,
    /// By rank: messages of each that were delivered before this view.
    begun: [u64; MEMBERS_MAX],
    book: Book,
    answers: Answers,
    transfer: Transfer,
    /// The application requested to leave.
    leaving: bool,
    notices: Notices,
    counters: GroupCounters,
}

/// Phase of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// It is in no view.
    Searching,
    /// Multicasts are delivered as they are held by all.
    Flowing,
    /// The view is to end.
    Wedged,
    /// The end of the view was decided: the rest is delivered.
    Ending,
    /// Out of the group without a request.
    Stopped,
    /// Out of the group as requested.
    Left,
}

/// Pending events for the application other than deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Notices {
    view: bool,
    outcome: Option<u64>,
    state_void: bool,
    stopped: Option<Stop>,
    left: bool,
}

impl Group {
    /// A member that is in no view yet. Allocates all memory. Clamps values of `config` to their
    /// bounds.
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        let config = config.bounded();
        let members_max = usize::from(config.members_max);
        Self {
            config,
            phase: Phase::Searching,
            view: View::default(),
            me: 0,
            table: Table::new(members_max),
            rounds: Rounds::new(members_max),
            pending: Pending::new(),
            accepted: 0,
            has_state: config.stateless,
            flow: Flow::default(),
            pairs: (0..2 * members_max + JOINERS_MAX)
                .map(|_| Pair::with_room())
                .collect(),
            next_pair: 0,
            trying: Trying::default(),
            ended: Ended::default(),
            outcomes: Vec::with_capacity(OUTCOMES_MAX),
            begun: [0; MEMBERS_MAX],
            book: Book::new(),
            answers: Answers::new(),
            transfer: Transfer::new(members_max),
            leaving: false,
            notices: Notices::default(),
            counters: GroupCounters::default(),
        }
    }

    /// A member at the beginning of a view that all its members already agree on, before any
    /// envelope. For members that do not found.
    ///
    /// Returns `None` if `config.me` is not in the view, a member has the incarnation of another
    /// queue, or the view exceeds `members_max`.
    #[must_use]
    pub fn with_view(config: GroupConfig, view: View) -> Option<Self> {
        let mut group = Self::new(config);
        let me = view
            .members
            .iter()
            .position(|member| *member == config.me)?;
        let fits = view.members.len() <= usize::from(group.config.members_max);
        if !fits || !view.members.iter().all(Contact::owns_incarnation) {
            return None;
        }
        group.has_state |= view.voters.contains(me);
        group.begin_view(view, me, view.members.len());
        Some(group)
    }

    /// An envelope ended. Each one of [`Group::poll_send`] ends once.
    pub fn on_end(&mut self, ticket: Ticket, end: End) {
        match ticket.of {
            TicketOf::Book => self.book.on_end(ticket.guid, ticket.incarnation, end),
            TicketOf::Answer => self.answers.on_end(ticket.guid, ticket.incarnation),
            TicketOf::Pair => {
                if let Some(pair) = self.pair_of(ticket.incarnation) {
                    let pair = &mut self.pairs[pair];
                    pair.on_end(ticket.number, end);
                    pair.gone |= end == End::Gone;
                }
            }
        }
        self.settle();
    }

    /// Processes a tick: sends a keepalive to the next member if nothing else was sent to it since
    /// the last tick. Decides nothing else.
    pub fn on_tick(&mut self) {
        // Claims of members that are not excluded count, so one of them also sends a keepalive to
        // each.
        let left = self.view.all_members().without(self.trying.suspects);
        for ring in [self.view.all_members(), left] {
            if let Some(next) = self.next_in_ring(ring) {
                let pair = &mut self.pairs[next];
                pair.keepalive_is_due |= pair.idle;
            }
        }
        for pair in &mut self.pairs {
            if self.phase == Phase::Left {
                pair.keepalive_is_due |= pair.owes_end;
            }
            pair.idle = true;
            pair.on_tick();
        }
        self.book.on_tick(self.is_discovering());
        self.settle();
    }

    /// The pair of the one of `ring` that comes after this one by rank and can be reached.
    fn next_in_ring(&self, ring: Members) -> Option<usize> {
        let n = self.view.members.len();
        let ranks = (1..n).map(|step| (self.me + step) % n);
        let ranks = ranks.filter(|&rank| ring.contains(rank));
        ranks
            .filter_map(|rank| self.pairs.iter().position(|pair| pair.rank == Some(rank)))
            .find(|&pair| self.pairs[pair].is_reached())
    }

    /// Multicasts 1 to [`MULTICAST_BYTES_MAX`] bytes. Returns the number of this message within
    /// this incarnation, from 1.
    ///
    /// # Errors
    /// [`MulticastError::Full`], [`MulticastError::Stopped`], [`MulticastError::TooLong`],
    /// [`MulticastError::Empty`].
    pub fn multicast(&mut self, data: &[u8]) -> Result<u64, MulticastError> {
        if data.is_empty() {
            return Err(MulticastError::Empty);
        }
        if data.len() > MULTICAST_BYTES_MAX {
            return Err(MulticastError::TooLong);
        }
        if self.leaving || matches!(self.phase, Phase::Stopped | Phase::Left) {
            return Err(MulticastError::Stopped);
        }
        if !self.pending.push(data) {
            return Err(MulticastError::Full);
        }
        self.accepted += 1;
        self.counters.multicasts += 1;
        Ok(self.accepted)
    }

    /// Leaves once all own messages are delivered, and accepts no more multicasts. [`Event::Left`]
    /// is the last event.
    pub fn leave(&mut self) {
        self.leaving = true;
        if self.phase == Phase::Searching {
            self.phase = Phase::Left;
            self.notices.left = true;
        }
        self.settle();
    }

    /// The view that it is in, or was in last.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        (self.view.number > 0).then_some(&self.view)
    }

    /// The current state of this member.
    #[must_use]
    pub const fn standing(&self) -> GroupStanding {
        match self.phase {
            _ if self.is_searching() => GroupStanding::Searching,
            Phase::Wedged if self.trying.minority => GroupStanding::Minority,
            Phase::Flowing => GroupStanding::Member,
            Phase::Searching | Phase::Wedged | Phase::Ending => GroupStanding::Changing,
            Phase::Stopped => GroupStanding::Stopped,
            Phase::Left => GroupStanding::Left,
        }
    }

    /// The member whose application the others wait for: the one that took the least, unless all
    /// took the same.
    #[must_use]
    pub fn laggard(&self) -> Option<Contact> {
        let delivered = |rank: &usize| self.table.row(*rank).frontier.delivered;
        let ranks = 0..self.table.len();
        let least = ranks.clone().min_by_key(delivered)?;
        let most = ranks.max_by_key(delivered)?;
        let holds = delivered(&least) < delivered(&most);
        holds
            .then(|| self.view.members.get(least).copied())
            .flatten()
    }

    /// The counters since the start.
    #[must_use]
    pub const fn counters(&self) -> &GroupCounters {
        &self.counters
    }

    /// Bytes of multicasts and envelopes that are kept now. See the bounds above.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let early: usize = self.pairs.iter().map(Pair::kept_bytes).sum();
        self.pending.len() + self.rounds.held_bytes() + early
    }

    /// Bytes of own messages that are in no batch yet, with two for each one's length.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    fn pair_of(&self, incarnation: Incarnation) -> Option<usize> {
        let of_incarnation =
            |pair: &Pair| !pair.is_free() && pair.contact.incarnation == incarnation;
        self.pairs.iter().position(of_incarnation)
    }

    /// The own row grew.
    fn row_grew(&mut self) {
        for pair in &mut self.pairs {
            pair.row_is_news |= pair.rank.is_some();
        }
    }
}
