//! Groups: views, and multicasts that all members deliver in one order.

mod drive;
mod errands;
mod event;
mod look;
mod options;
mod paths;
mod queue;
mod seat;

use std::{fmt, ptr, time::Instant};

use covalent_api::guid::Guid;
use covalent_pipe::session::{NOTICE_WORDS, NOTICES};
use covalent_protocol::{
    Name,
    group::{
        self, Contact, Group as Machine, GroupCounters, GroupStanding, Life, MULTICAST_BYTES_MAX,
        MulticastError, STATE_BYTES_MAX, View,
    },
    verb::SEND_BYTES_MAX,
};

use self::{errands::Errands, event::Told, look::Looks, paths::WatchedPaths, queue::StayQueue};
pub use self::{options::GroupOptions, seat::GroupSeat};
use crate::{
    device::{Device, Stage},
    error::{Error, Result},
    queue::Verbs,
};

pub use covalent_protocol::group::Event as GroupEvent;
#[cfg(doc)]
use covalent_protocol::group::Stop;

/// Groups of one device at a time.
pub const GROUPS_MAX: usize = 7;
const _: () = assert!(GROUPS_MAX == NOTICES && NOTICE_WORDS == group::NOTICE_WORDS);

/// A stay in a group: multicasts that all members deliver in one order, and views, which tell who the members are.
///
/// It looks for the group by name and joins it, or founds it with others ([`Device::group`], [`GroupOptions::founders`]); or it begins with
/// all its members known ([`Device::group_seat`]). Members that die, leave or are cut off are left out by a change of view.
///
/// What was delivered anywhere is delivered by all who stay, in the same order, and each message once. Who is cut off with less than half of a view's members, or with half of them and
/// not the oldest (the first one in the view), stops and says so. When it reaches the others again it is told that they went on without it
/// ([`Stop::Excluded`]): [`Group::rejoin`].
///
/// # The application's state
/// Who joins has none. The oldest member is told so, [`GroupEvent::StateWanted`], before the first message of that view: it
/// gives its state of this very moment in pieces ([`Group::give_state`]), and may go on taking events between them. The other gets them as [`GroupEvent::State`], then
/// every message from the beginning of that view on. What it multicasts before is delivered like everything else; if the view ends before it has the state, some of
/// that is in the state already, and is not delivered here: the pieces say up to which number.
/// [`GroupEvent::StateVoid`] voids the pieces that came: they come anew. A group whose members all have nothing to give is [`GroupOptions::stateless`].
///
/// # Threads
/// For its device's thread. Nothing happens but inside [`Group::poll`] and [`Group::next`]: an application that does not call them often
/// holds the whole group up, and nobody puts it out for that but [`Group::suspect`]. When it is dropped, or its process ends, the others find its receive queue gone and leave it
/// out. [`Group::leave`] is the polite end.
///
/// # Examples
/// ```no_run
/// use covalent_verbs::{Device, GroupEvent, GroupOptions};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut verbs = device.verbs()?;
/// // The first three found the group; who comes later joins.
/// let mut group = device.group("orders", GroupOptions::new().founders(3))?;
/// group.multicast(b"hello")?;
/// let mut orders = Vec::new();
/// loop {
///     match group.next(&mut verbs)? {
///         GroupEvent::View(view) => println!("view {}: {} members", view.number, view.members.len()),
///         GroupEvent::Delivered { data, .. } => orders.extend_from_slice(data),
///         GroupEvent::StateWanted { to } => {
///             // All that fits into one piece; more of it as room comes.
///             group.give_state(to.life, &orders, true)?;
///         }
///         GroupEvent::State { data, .. } => orders.extend_from_slice(data),
///         GroupEvent::StateVoid => orders.clear(),
///         GroupEvent::Stopped { .. } | GroupEvent::Left => break,
///         _ => {}
///     }
/// }
/// # Ok::<(), covalent_verbs::Error>(())
/// ```
pub struct Group<'d> {
    device: &'d Device,
    /// By which completions are told apart.
    number: u32,
    name: Name,
    queue_name: String,
    options: GroupOptions,
    /// `None` once the stay is over.
    queue: Option<StayQueue<'d>>,
    machine: Box<Machine>,
    life: Life,
    errands: Errands,
    paths: WatchedPaths,
    looks: Looks,
    /// No watch is put under way before.
    watch_again: Instant,
    next_tick: Instant,
    /// Where envelopes are put together.
    envelope: Box<[u8; SEND_BYTES_MAX]>,
    told: Told,
    /// What its node was told last that it is, and in which view.
    noticed: Option<(GroupStanding, u64)>,
}

impl Group<'_> {
    /// Multicasts 1 to [`MULTICAST_BYTES_MAX`] bytes. Does not block, and sends nothing by itself: the next [`Group::poll`] or
    /// [`Group::next`] does, with what else has gathered. Returns the number of this message among the own ones, from 1.
    ///
    /// # Errors
    /// [`Error::GroupFull`] when there is no room now: take events; [`Group::holds_up`] says who is slow. [`Error::GroupStopped`] after [`GroupEvent::Stopped`] and
    /// [`Group::leave`]. [`Error::Invalid`] for none or too many bytes. Nothing is sent then.
    pub fn multicast(&mut self, data: &[u8]) -> Result<u64> {
        self.device.check_own()?;
        self.machine
            .multicast(data)
            .map_err(|error| self.refused(error, data.len()))
    }

    /// The next event, if there is one. Does not block; sends what there is to say. `verbs` is the device's.
    ///
    /// # Errors
    /// [`Error::DaemonGone`]: this member is gone, for the others too. [`Error::Invalid`] for a verb queue of another device, or one that is not as deep as
    /// this group needs; [`Error::Unintelligible`].
    pub fn poll(&mut self, verbs: &mut Verbs<'_>) -> Result<Option<GroupEvent<'_>>> {
        self.check(verbs)?;
        self.drive(verbs)?;
        if !self.take_event() {
            return Ok(None);
        }
        Ok(self.told.event())
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// As [`Group::poll`].
    pub fn next(&mut self, verbs: &mut Verbs<'_>) -> Result<GroupEvent<'_>> {
        self.wait(verbs, None, &mut || Ok(false))?;
        self.last_event()
    }

    /// As [`Group::next`], until `deadline`.
    ///
    /// # Errors
    /// As [`Group::poll`], and [`Error::Deadline`].
    pub fn next_deadline(
        &mut self,
        verbs: &mut Verbs<'_>,
        deadline: Instant,
    ) -> Result<GroupEvent<'_>> {
        self.wait(verbs, Some(deadline), &mut || Ok(false))?;
        self.last_event()
    }

    /// Waits for the next event, or until `also` says that something else came that the caller waits for: then it is `None`. `also` is called again and again, and
    /// before this thread sleeps; what wakes the device wakes it: its messages, pipes and completions.
    ///
    /// # Errors
    /// As [`Group::poll`], [`Error::Deadline`] if there is one, and what `also` gives.
    pub fn next_unless(
        &mut self,
        verbs: &mut Verbs<'_>,
        deadline: Option<Instant>,
        mut also: impl FnMut() -> Result<bool>,
    ) -> Result<Option<GroupEvent<'_>>> {
        if self.wait(verbs, deadline, &mut also)? {
            Ok(self.told.event())
        } else {
            Ok(None)
        }
    }

    /// Gives a piece of the application's state to who wants it ([`GroupEvent::StateWanted`]): 1 to [`STATE_BYTES_MAX`] bytes, 0 are possible for the last one.
    /// Does not block; the next [`Group::poll`] or [`Group::next`] sends it.
    ///
    /// All pieces are of the state as it was when it was wanted, whatever was delivered since.
    ///
    /// # Errors
    /// [`Error::GroupFull`]: two pieces are on their way; take events, then go on. [`Error::StateUnwanted`]: the view ended, or the last piece was given; forget what is
    /// left. [`Error::Invalid`] for none or too many bytes.
    pub fn give_state(&mut self, to: Life, bytes: &[u8], last: bool) -> Result<()> {
        self.machine
            .give_state(to, bytes, last)
            .map_err(|error| self.refused(error, bytes.len()))
    }

    /// Looks for the group on this node too. Neighbours are always looked at, and who is found names whom it knows.
    pub fn look_at(&mut self, node: Guid) {
        if node != self.device.address() {
            self.looks.name(node.bits());
        }
    }

    /// Begins a new stay in place of this one, which was left out or is given up: with another life, nothing of the application's state, and a
    /// [`GroupEvent::Fate`] that tells what became of this stay's multicasts. Who was in a group only joins it again, and founds none.
    ///
    /// # Errors
    /// As [`Device::group`].
    pub fn rejoin(self) -> Result<Self> {
        let (device, name) = (self.device, self.name);
        let mut options = self.options.former(self.life);
        if self.machine.view().is_some() {
            options = options.founders(0);
        }
        drop(self);
        GroupSeat::take_named(device, name, options)?.join()
    }

    /// Judges that a member holds everybody up: it is put out, by a change of view like any other. Without a quorum nothing comes of it.
    pub fn suspect(&mut self, member: Life) {
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

    /// What this member is now.
    #[must_use]
    pub fn standing(&self) -> GroupStanding {
        self.machine.standing()
    }

    /// By which the others know this member.
    #[must_use]
    pub const fn life(&self) -> Life {
        self.life
    }

    /// For whose application the others wait: who has taken least, if not all took the same.
    #[must_use]
    pub fn holds_up(&self) -> Option<Contact> {
        self.machine.holds_up()
    }

    /// What this member has counted.
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
    fn wait(
        &mut self,
        verbs: &mut Verbs<'_>,
        deadline: Option<Instant>,
        also: &mut impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        self.check(verbs)?;
        let device = self.device;
        loop {
            let mut is_event = false;
            let next_tick = self.next_tick;
            let until = deadline.map_or(next_tick, |deadline| deadline.min(next_tick));
            let waited = device.wait("the group had news", Some(until), |stage| {
                self.drive(verbs)?;
                is_event = self.take_event();
                if is_event || also()? {
                    return Ok(true);
                }
                if stage == Stage::BeforeSleep {
                    verbs.want_wake()?;
                }
                Ok(false)
            });
            match waited {
                Ok(()) => return Ok(is_event),
                Err(Error::Deadline { .. })
                    if deadline.is_none_or(|deadline| deadline > Instant::now()) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_event(&mut self) -> bool {
        self.told.take(&mut self.machine)
    }

    fn last_event(&self) -> Result<GroupEvent<'_>> {
        self.told.event().ok_or(Error::Deadline {
            what: "the group had news",
        })
    }

    fn check(&self, verbs: &Verbs<'_>) -> Result<()> {
        if !ptr::eq(self.device, verbs.device) {
            return Err(Error::Invalid(format!(
                "group `{}`: the verb queue is another device's",
                self.name
            )));
        }
        let needed = self.options.verbs_max();
        if verbs.depth() < needed {
            return Err(Error::Invalid(format!(
                "group `{}`: a verb queue of depth {} for up to {} members: open one of {needed} at least, with `Device::verbs_with_depth`",
                self.name,
                verbs.depth(),
                self.options.members_max
            )));
        }
        Ok(())
    }

    fn refused(&self, error: MulticastError, len: usize) -> Error {
        let group = self.name.to_string();
        match error {
            MulticastError::Full => Error::GroupFull { group },
            MulticastError::Stopped => Error::GroupStopped { group },
            MulticastError::NotWanted => Error::StateUnwanted { group },
            MulticastError::TooLong | MulticastError::Empty => Error::Invalid(format!(
                "{len} bytes for group `{group}`: expected 1 to {MULTICAST_BYTES_MAX} of a message, 1 to {STATE_BYTES_MAX} of a piece of state"
            )),
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.device.dismiss_group(self.number);
    }
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("name", &self.name)
            .field("life", &self.life)
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}
