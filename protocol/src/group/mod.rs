//! Groups: views, and multicasts in one order for all.

mod contact;

pub use contact::{Contact, Contacts, Life, MEMBERS_MAX, Members, View};

use crate::{Name, verb::SEND_BYTES_MAX};

/// Longest multicast, in bytes, whatever the number of members is.
pub const MULTICAST_BYTES_MAX: usize = SEND_BYTES_MAX - 56 - 8 * MEMBERS_MAX - 2;
/// Longest piece of an application's state, in bytes.
pub const STATE_BYTES_MAX: usize = SEND_BYTES_MAX - 56 - 8 * MEMBERS_MAX - 24;
/// Most envelopes under way to one member that it has not taken.
pub const WINDOW: usize = 8;

/// How a group is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupConfig {
    /// Its name.
    pub name: Name,
    /// Where this member is reached.
    pub me: Contact,
    /// Former stay of the same application whose messages it asks about; `None` for none.
    pub former: Option<Life>,
    /// Members with which the group is founded, 1 to [`MEMBERS_MAX`]; 0 to join an existing one only.
    pub founders: u8,
    /// Most members that room is made for, 2 to [`MEMBERS_MAX`].
    pub members_max: u8,
    /// Whether the application has no state that one who joins would need.
    pub stateless: bool,
}

/// What [`Group::on_end`] needs to know which envelope ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    pub(crate) life: Life,
    pub(crate) number: u32,
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

/// Why an envelope was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadEnvelope {
    /// Shorter than what it says that it has.
    Truncated,
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
    /// There is another group of this name. Join anew, with another life.
    OtherGroup {
        /// That group.
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
    /// A member needs the application's state as it is now: [`Group::give_state`].
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
    },
    /// Forget the pieces that came: they come anew.
    StateVoid,
    /// Nothing is delivered from now on. Own messages from number `undelivered` on are in doubt.
    Stopped {
        /// Why.
        why: Stop,
        /// Number of the first own message that was not delivered here.
        undelivered: u64,
    },
    /// Of the former life that was asked about this many messages were delivered.
    Fate {
        /// How many.
        delivered_to: u64,
    },
    /// It is out of the group, as it asked.
    Left,
}

/// What happened since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCounters {
    /// Own messages taken in.
    pub multicasts: u64,
    /// Messages delivered.
    pub deliveries: u64,
}

/// One member of a group: a pure machine.
#[derive(Debug, Clone, Hash)]
pub struct Group {
    config: GroupConfig,
    view: Option<View>,
}

impl Group {
    /// A member that is in no view yet. All memory is allocated here.
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        Self { config, view: None }
    }

    /// A member of a view on which all its members agree already. For tests and simulators that do not found.
    #[must_use]
    pub fn with_view(config: GroupConfig, view: View) -> Self {
        Self {
            config,
            view: Some(view),
        }
    }

    /// An envelope came, from an application of the node `sender_guid`.
    ///
    /// # Errors
    /// It is not one, or breaks a bound. It was dropped and counted, and evicts nobody.
    pub fn on_envelope(&mut self, sender_guid: u64, bytes: &[u8]) -> Result<(), BadEnvelope> {
        let _ = (sender_guid, bytes, self.config);
        Ok(())
    }

    /// An envelope of [`Group::poll_send`] ended. Each one ends once.
    pub fn on_end(&mut self, ticket: Ticket, end: End) {
        let _ = (ticket.life, ticket.number, end);
    }

    /// The way to a node came or went.
    pub fn on_path(&mut self, guid: u64, up: bool) {
        let _ = (guid, up);
    }

    /// Somebody under the group's name was found.
    pub fn on_contact(&mut self, contact: Contact) {
        let _ = contact;
    }

    /// A pace went by: time to say something to whom nothing was said.
    pub fn on_tick(&mut self) {}

    /// Multicasts 1 to [`MULTICAST_BYTES_MAX`] bytes. Returns the number of this message among those of this life, from 1.
    ///
    /// # Errors
    /// See [`MulticastError`].
    pub fn multicast(&mut self, data: &[u8]) -> Result<u64, MulticastError> {
        let _ = data;
        Err(MulticastError::Full)
    }

    /// Gives 1 to [`STATE_BYTES_MAX`] bytes (0 are possible for the last piece) of the application's state to who wants it.
    ///
    /// # Errors
    /// See [`MulticastError`].
    pub fn give_state(&mut self, to: Life, bytes: &[u8], last: bool) -> Result<(), MulticastError> {
        let _ = (to, bytes, last);
        Err(MulticastError::NotWanted)
    }

    /// The application judges that a member holds everybody up: it is to go.
    pub fn suspect(&mut self, member: Life) {
        let _ = member;
    }

    /// Leaves once all own messages are delivered. [`Event::Left`] is the last event.
    pub fn leave(&mut self) {}

    /// Whether [`Group::poll_send`] has something.
    #[must_use]
    pub fn has_news(&self) -> bool {
        false
    }

    /// The next envelope to be sent, written into `buffer`. Call it until it gives `None`.
    pub fn poll_send(&mut self, buffer: &mut [u8; SEND_BYTES_MAX]) -> Option<Parcel> {
        let _ = buffer;
        None
    }

    /// The next event. Call it until it gives `None`.
    pub fn poll_event(&mut self) -> Option<Event<'_>> {
        None
    }

    /// The view that it is in.
    #[must_use]
    pub const fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// What it is now.
    #[must_use]
    pub const fn standing(&self) -> GroupStanding {
        GroupStanding::Seeking
    }

    /// For whose application the others wait: who has taken least, if not all took the same.
    #[must_use]
    pub fn holds_up(&self) -> Option<Contact> {
        None
    }

    /// What happened since the beginning.
    #[must_use]
    pub const fn counters(&self) -> GroupCounters {
        GroupCounters {
            multicasts: 0,
            deliveries: 0,
        }
    }
}
