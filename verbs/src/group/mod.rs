//! Groups: views, and multicasts that all members deliver in one order.

mod builder;
mod discovery;
mod drive;
mod errands;
mod event;
mod options;
mod paths;
mod queue;

use std::{borrow::Cow, fmt, time::Instant};

use covalent_protocol::{
    Name,
    group::{
        self, Contact, Group as Machine, GroupCounters, GroupStanding, Incarnation,
        MULTICAST_BYTES_MAX, MulticastError, STATE_BYTES_MAX, View,
    },
    verb::SEND_BYTES_MAX,
};

pub use self::{builder::GroupBuilder, options::GroupOptions};
use self::{
    discovery::Lookups, errands::Errands, event::Reported, paths::WatchedPaths, queue::MemberQueue,
};
use crate::{
    Completion, Device, Error, Guid, NOTICE_WORDS, NOTICES_MAX, Notice, Result, Timeout, Verbs,
};

pub use covalent_protocol::group::Event as GroupEvent;
#[cfg(doc)]
use covalent_protocol::group::Stop;

/// Groups of one device at a time: each has a [`Notice`].
pub const GROUPS_MAX: usize = 7;
const _: () = assert!(GROUPS_MAX == NOTICES_MAX && NOTICE_WORDS == group::NOTICE_WORDS);

/// The error of a wait that is over.
const NO_EVENT: Error = Error::Deadline {
    what: Cow::Borrowed("the group had an event"),
};

/// Completions that are taken at a time.
const COMPLETIONS: usize = 32;

/// One incarnation of a group member. All members deliver multicasts in one order, and receive
/// views, which list the members.
///
/// The member searches for the group by name and joins it, or founds it with others
/// ([`Device::group`], [`GroupOptions::founders`]). Alternatively, the group starts with all its
/// members known ([`Device::group_builder`]). A view change excludes members that fail, leave or
/// are cut off.
///
/// A multicast that any member delivers is delivered by all members that remain, in the same order
/// and exactly once. A member that is cut off with less than half of a view's members stops and
/// reports this. So does a member that is cut off with half of them, but without the oldest (the
/// first one in the view). When it reaches the others again, it learns that they continued without
/// it ([`Stop::Excluded`]). Then use [`Group::rejoin`].
///
/// # The application's state
/// A joining member has no state. The oldest member receives [`GroupEvent::StateWanted`] before the
/// first message of that view. It gives its state of that moment in pieces
/// ([`Group::send_snapshot`]), and may take events between them.
///
/// The joining member receives the pieces as [`GroupEvent::State`], then every message from the
/// beginning of that view. Messages that it multicasts before are delivered as usual. If the view
/// ends before it has the state, the state may already contain some of these messages. They are not
/// delivered here. The pieces contain the number of the last one.
///
/// [`GroupEvent::StateVoid`] invalidates the pieces received so far: they are sent again. If the
/// members of a group have no state to give, use [`GroupOptions::stateless`].
///
/// # Threads
/// Use it only on its device's thread. All work is done inside [`Group::try_next`] and
/// [`Group::next`]. An application that does not call them often delays the whole group. Only
/// [`Group::suspect`] excludes a member for that. When a group is dropped, or its process exits,
/// the others find its receive queue gone and exclude the member. To leave gracefully, use
/// [`Group::leave`].
///
/// # Examples
/// ```no_run
/// use covalent::{Device, GroupEvent, GroupOptions, Timeout};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// // The first three found the group; who comes later joins.
/// let mut group = device.group("orders", GroupOptions::new().founders(3))?;
/// group.multicast(b"hello")?;
/// let mut orders = Vec::new();
/// loop {
///     match group.next(Timeout::FOREVER)? {
///         GroupEvent::View(view) => {
///             println!("view {}: {} members", view.number, view.members.len());
///         }
///         GroupEvent::Delivered { data, .. } => orders.extend_from_slice(data),
///         GroupEvent::StateWanted { to } => {
///             // All that fits into one piece; more of it as room comes.
///             group.send_snapshot(to.incarnation, &orders, true)?;
///         }
///         GroupEvent::State { data, .. } => orders.extend_from_slice(data),
///         GroupEvent::StateVoid => orders.clear(),
///         GroupEvent::Stopped { .. } | GroupEvent::Left => break,
///         _ => {}
///     }
/// }
/// # Ok::<(), covalent::Error>(())
/// ```
pub struct Group<'d> {
    device: &'d Device,
    /// Dropped first.
    notice: Notice<'d>,
    name: Name,
    queue_name: String,
    options: GroupOptions,
    queue: MemberQueue<'d>,
    verbs: Verbs<'d>,
    completions: Box<[Completion; COMPLETIONS]>,
    machine: Box<Machine>,
    incarnation: Incarnation,
    errands: Errands,
    paths: WatchedPaths,
    lookups: Lookups,
    /// No watch is posted before this time.
    next_watch: Instant,
    next_tick: Instant,
    /// Where envelopes are put together.
    envelope: Box<[u8; SEND_BYTES_MAX]>,
    reported: Reported,
    /// The standing and the view that were last published to the local node.
    noticed: Option<(GroupStanding, u64)>,
}

impl Group<'_> {
    /// Multicasts 1 to [`MULTICAST_BYTES_MAX`] bytes. Returns the number of this message among the
    /// own ones, from 1. Does not block and sends nothing by itself: the next [`Group::try_next`]
    /// or [`Group::next`] sends all messages collected so far.
    ///
    /// # Errors
    /// - [`Error::GroupFull`] if there is no room now: take events. [`Group::laggard`] returns the
    ///   slow member.
    /// - [`Error::GroupStopped`] after [`GroupEvent::Stopped`] and [`Group::leave`].
    /// - [`Error::Invalid`] for zero or too many bytes.
    ///
    /// On an error nothing is sent.
    pub fn multicast(&mut self, data: &[u8]) -> Result<u64> {
        self.device.check_process()?;
        self.machine
            .multicast(data)
            .map_err(|error| self.refused(error, data.len()))
    }

    /// Returns the next event, if there is one. Does not block. Sends pending messages.
    ///
    /// # Errors
    /// [`Error::DaemonGone`]: this member is gone, for the others too. [`Error::Unintelligible`].
    pub fn try_next(&mut self) -> Result<Option<GroupEvent<'_>>> {
        Ok(if self.advance()? {
            self.last_event()
        } else {
            None
        })
    }

    /// Returns the event that was returned last; `None` if there was none. For a wait that ends
    /// with [`Group::try_next`], whose event borrows the group.
    ///
    /// # Examples
    /// ```no_run
    /// # use covalent::{Device, GroupOptions};
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut group = device.group("orders", GroupOptions::new())?;
    /// // The group must be called at this time even without news.
    /// let tick = group.poll_at();
    /// device.until(tick, || Ok(group.try_next()?.map(drop)))?;
    /// println!("{:?}", group.last_event());
    /// # Ok::<(), covalent::Error>(())
    /// ```
    #[must_use]
    pub fn last_event(&self) -> Option<GroupEvent<'_>> {
        self.reported.event()
    }

    /// Does all pending work and takes the next event, for [`Group::last_event`].
    fn advance(&mut self) -> Result<bool> {
        self.drive()?;
        Ok(self.reported.take(&mut self.machine))
    }

    #[cfg(feature = "tokio")]
    pub(crate) const fn device(&self) -> &Device {
        self.device
    }

    /// The time at which an event loop must call [`Group::try_next`] even without a wake-up: see
    /// [`Device::arm`](crate::Device::arm). Each such call sets it anew.
    #[must_use]
    pub const fn poll_at(&self) -> Instant {
        self.next_tick
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// As [`Group::try_next`], and [`Error::Deadline`] after `timeout`.
    pub fn next(&mut self, timeout: impl Into<Timeout>) -> Result<GroupEvent<'_>> {
        self.wait(timeout.into(), &mut || Ok(false))?;
        self.last_event().ok_or(NO_EVENT)
    }

    /// Waits for the next event, or until `also` returns `true` because another awaited event
    /// arrived. The result is then `None`. The call runs `also` repeatedly, and before this thread
    /// sleeps. Messages, pipes and completions of the device wake it.
    ///
    /// # Errors
    /// As [`Group::try_next`]. [`Error::Deadline`] after `timeout`, and the errors of `also`.
    pub fn next_unless(
        &mut self,
        timeout: impl Into<Timeout>,
        mut also: impl FnMut() -> Result<bool>,
    ) -> Result<Option<GroupEvent<'_>>> {
        if self.wait(timeout.into(), &mut also)? {
            Ok(self.last_event())
        } else {
            Ok(None)
        }
    }

    /// Gives a piece of the application's state to the member that needs it
    /// ([`GroupEvent::StateWanted`]): 1 to [`STATE_BYTES_MAX`] bytes. The last piece may have 0
    /// bytes. Does not block. The next [`Group::try_next`] or [`Group::next`] sends it.
    ///
    /// All pieces belong to the state at the moment of that event, whatever was delivered since.
    ///
    /// # Errors
    /// - [`Error::GroupFull`]: two pieces are in flight. Take events, then continue.
    /// - [`Error::StateUnwanted`]: the view ended, or the last piece was given. Discard the rest.
    /// - [`Error::Invalid`] for zero or too many bytes.
    pub fn send_snapshot(&mut self, to: Incarnation, bytes: &[u8], last: bool) -> Result<()> {
        self.machine
            .send_snapshot(to, bytes, last)
            .map_err(|error| self.refused(error, bytes.len()))
    }

    /// Also searches for the group on this node. Neighbors are always searched, and each member
    /// found names the members that it knows.
    pub fn add_seed(&mut self, node: Guid) {
        if node != self.device.address() {
            self.lookups.name(node.bits());
        }
    }

    /// Starts a new incarnation in place of this one, which was excluded or is given up. The new
    /// incarnation has another number and none of the application's state. A
    /// [`GroupEvent::Outcome`] reports the outcome of this incarnation's multicasts. A member that
    /// was in a group only joins it again, and founds none.
    ///
    /// # Errors
    /// As [`Device::group`].
    pub fn rejoin(self) -> Result<Self> {
        let (device, name) = (self.device, self.name);
        let mut options = self.options.former(self.incarnation);
        if self.machine.view().is_some() {
            options = options.founders(0);
        }
        drop(self);
        GroupBuilder::take_named(device, name, options)?.join()
    }

    /// Suspects a member of blocking the group. A view change excludes it. Without a quorum the
    /// call has no effect.
    pub fn suspect(&mut self, member: Incarnation) {
        self.machine.suspect(member);
    }

    /// Leaves once all own messages are delivered: go on taking events until [`GroupEvent::Left`].
    pub fn leave(&mut self) {
        self.machine.leave();
    }

    /// The view that this member is in.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        self.machine.view()
    }

    /// Returns this member's current standing.
    #[must_use]
    pub fn standing(&self) -> GroupStanding {
        self.machine.standing()
    }

    /// By which the others know this member.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns the member whose application the others wait for: the one that has taken the least.
    /// `None` if all have taken the same.
    #[must_use]
    pub fn laggard(&self) -> Option<Contact> {
        self.machine.laggard()
    }

    /// Returns this member's counters.
    #[must_use]
    pub fn counters(&self) -> &GroupCounters {
        self.machine.counters()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Waits for an event, `true`, or for `also`, `false`.
    fn wait(&mut self, timeout: Timeout, also: &mut impl FnMut() -> Result<bool>) -> Result<bool> {
        let (device, deadline) = (self.device, timeout.deadline());
        loop {
            let tick = self.next_tick;
            let until = deadline.map_or(tick, |deadline| deadline.min(tick));
            let waited = device.until(until, || {
                let is_event = self.advance()?;
                Ok((is_event || also()?).then_some(is_event))
            });
            match waited {
                Err(Error::Deadline { .. })
                    if deadline.is_none_or(|deadline| deadline > Instant::now()) => {}
                Err(Error::Deadline { .. }) => return Err(NO_EVENT),
                waited => return waited,
            }
        }
    }

    fn refused(&self, error: MulticastError, len: usize) -> Error {
        let group = self.name.to_string();
        match error {
            MulticastError::Full => Error::GroupFull { group },
            MulticastError::Stopped => Error::GroupStopped { group },
            MulticastError::NotWanted => Error::StateUnwanted { group },
            MulticastError::TooLong | MulticastError::Empty => Error::Invalid(format!(
                "{len} bytes for group `{group}`: expected 1 to {MULTICAST_BYTES_MAX} of a \
                 message, 1 to {STATE_BYTES_MAX} of a piece of state"
            )),
        }
    }
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("name", &self.name)
            .field("life", &self.incarnation)
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}
