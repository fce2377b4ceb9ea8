//! Groups: views, and multicasts in one order for all.
//!
//! A [`Group`] is one member: a pure machine without clock and I/O. Each member keeps a [table](row) with a row for each member, writes its own
//! row only, and pushes it to the others as [envelopes](wire), which are `send` verbs into their receive queues. Multicasts travel in batches,
//! whose order is (round, rank of the sender); one is delivered when the rows say that every member holds it.
//!
//! ```text
//!  multicast ─► pending ─► batch of a round ─► envelope ─► poll_send
//!                                                             │ verbs
//!  poll_event ◄── order ◄── batches, rows ◄── pair's order ◄── on_envelope
//! ```
//!
//! # Guarantees
//! Memory is allocated in [`Group::new`] only (a clone gets its own as it needs it). No input panics. What is kept is bounded: 64 rounds of 4 KiB of each
//! member, 64 KiB of own messages, eight envelopes from and to each member.

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
pub use contact::{Contact, Contacts, Life, MEMBERS_MAX, Members, View};
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
use wire::{FATES_MAX, JOINERS_MAX};

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
    /// The pair that is asked next for something to say.
    next_pair: usize,
    trying: Trying,
    ended: Ended,
    /// What became of those who did not stay, the oldest first: how many messages of theirs were delivered.
    fates: Vec<(Life, u64)>,
    /// By rank: messages of each that were delivered before this view.
    begun: [u64; MEMBERS_MAX],
    book: Book,
    answers: Answers,
    transfer: Transfer,
    /// It was asked to leave.
    leaving: bool,
    notices: Notices,
    counters: GroupCounters,
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// It is in no view.
    Seeking,
    /// Multicasts are delivered as they are held by all.
    Flowing,
    /// The view is to end.
    Wedged,
    /// It was decided how: what is left is delivered.
    Ending,
    /// Out of the group without having asked for it.
    Stopped,
    /// Out of the group as it asked.
    Left,
}

/// What the application is to be told besides deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Notices {
    view: bool,
    fate: Option<u64>,
    state_void: bool,
    stopped: Option<Stop>,
    left: bool,
}

impl Group {
    /// A member that is in no view yet. All memory is allocated here. What `config` says beyond its bounds is taken as the bound.
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        let config = config.bounded();
        let members_max = usize::from(config.members_max);
        Self {
            config,
            phase: Phase::Seeking,
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
            fates: Vec::with_capacity(FATES_MAX),
            begun: [0; MEMBERS_MAX],
            book: Book::new(),
            answers: Answers::new(),
            transfer: Transfer::new(members_max),
            leaving: false,
            notices: Notices::default(),
            counters: GroupCounters::default(),
        }
    }

    /// A member of a view on which all its members agree already, at its beginning: nothing was said in it. For who does not found.
    ///
    /// `None` if `config.me` is not in the view, a member has the life of another queue, or the view
    /// has more members than there is room for.
    #[must_use]
    pub fn with_view(config: GroupConfig, view: View) -> Option<Self> {
        let mut group = Self::new(config);
        let me = view
            .members
            .iter()
            .position(|member| *member == config.me)?;
        let fits = view.members.len() <= usize::from(group.config.members_max);
        if !fits || !view.members.iter().all(Contact::owns_life) {
            return None;
        }
        group.has_state |= view.voters.contains(me);
        group.begin_view(view, me, view.members.len());
        Some(group)
    }

    /// An envelope ended. Each one of [`Group::poll_send`] ends once.
    pub fn on_end(&mut self, ticket: Ticket, end: End) {
        match ticket.of {
            TicketOf::Book => self.book.on_end(ticket.guid, ticket.life, end),
            TicketOf::Answer => self.answers.on_end(ticket.guid, ticket.life),
            TicketOf::Pair => {
                if let Some(pair) = self.pair_of(ticket.life) {
                    let pair = &mut self.pairs[pair];
                    pair.on_end(ticket.number, end);
                    pair.gone |= end == End::Gone;
                }
            }
        }
        self.settle();
    }

    /// A pace went by: something is said to the next member if nothing was since the last one. Decides nothing else.
    pub fn on_tick(&mut self) {
        // Of those who are not left out the word counts, so each of them is asked after by one of them too.
        let left = self.view.everybody().without(self.trying.suspects);
        for ring in [self.view.everybody(), left] {
            if let Some(next) = self.next_in_ring(ring) {
                let pair = &mut self.pairs[next];
                pair.ball_is_due |= pair.quiet;
            }
        }
        for pair in &mut self.pairs {
            if self.phase == Phase::Left {
                pair.ball_is_due |= pair.owes_end;
            }
            pair.quiet = true;
            pair.on_tick();
        }
        self.book.on_tick(self.looks());
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

    /// Multicasts 1 to [`MULTICAST_BYTES_MAX`] bytes. Returns the number of this message among those of this life, from 1.
    ///
    /// # Errors
    /// [`MulticastError::Full`], [`MulticastError::Stopped`], [`MulticastError::TooLong`], [`MulticastError::Empty`].
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

    /// Leaves once all own messages are delivered, and multicasts nothing more. [`Event::Left`] is the last event.
    pub fn leave(&mut self) {
        self.leaving = true;
        if self.phase == Phase::Seeking {
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

    /// What it is now.
    #[must_use]
    pub const fn standing(&self) -> GroupStanding {
        match self.phase {
            _ if self.seeks() => GroupStanding::Seeking,
            Phase::Wedged if self.trying.minority => GroupStanding::Minority,
            Phase::Flowing => GroupStanding::Member,
            Phase::Seeking | Phase::Wedged | Phase::Ending => GroupStanding::Changing,
            Phase::Stopped => GroupStanding::Stopped,
            Phase::Left => GroupStanding::Left,
        }
    }

    /// For whose application the others wait: who has taken least, if not all took the same.
    #[must_use]
    pub fn holds_up(&self) -> Option<Contact> {
        let delivered = |rank: &usize| self.table.row(*rank).frontier.delivered;
        let ranks = 0..self.table.len();
        let least = ranks.clone().min_by_key(delivered)?;
        let most = ranks.max_by_key(delivered)?;
        let holds = delivered(&least) < delivered(&most);
        holds
            .then(|| self.view.members.get(least).copied())
            .flatten()
    }

    /// What happened since the beginning.
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

    fn pair_of(&self, life: Life) -> Option<usize> {
        let of_life = |pair: &Pair| !pair.is_free() && pair.contact.life == life;
        self.pairs.iter().position(of_life)
    }

    /// The own row grew.
    fn row_grew(&mut self) {
        for pair in &mut self.pairs {
            pair.row_is_news |= pair.rank.is_some();
        }
    }
}
