//! `covalent_group`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
    ptr,
    time::{Duration, Instant},
};

use covalent::{
    Contact, Group, GroupBuilder, GroupCounters, GroupEvent, GroupOptions, GroupStanding, Guid,
    Incarnation, Stop,
};

use crate::{
    argument::{Out, Outs, flag, text, values},
    device::{covalent_device, device},
    growing::{GrowingOut, growing, growing_value},
    handle::{Kind, Table, this_thread},
    held::Held,
    name::covalent_name,
    status::{Failure, Result, call, invalid},
    timeout::timeout,
};

/// Most members of a group.
pub const COVALENT_GROUP_MEMBERS_MAX: usize = 32;
/// Most bytes of one multicast.
pub const COVALENT_MULTICAST_BYTES_MAX: usize = 3746;
/// Most bytes of one piece of state.
pub const COVALENT_STATE_BYTES_MAX: usize = 3732;

const _: () = assert!(
    COVALENT_GROUP_MEMBERS_MAX == covalent::MEMBERS_MAX
        && COVALENT_MULTICAST_BYTES_MAX == covalent::MULTICAST_BYTES_MAX
        && COVALENT_STATE_BYTES_MAX == covalent::STATE_BYTES_MAX
);

/// One incarnation of a group member. All members deliver multicasts in one order, and receive
/// views, which list the members. Use it only on its device's thread. A zero handle is invalid.
///
/// All work is done inside covalent_group_next. A program that does not call it often delays the
/// whole group.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_group {
    /// Opaque.
    pub handle: u64,
}

/// Options for joining a group. Zeros join a group of up to 8 members that have state,
/// with a tick of 20 ms.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_group_options {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// Number of members that found the group if there is none. 0 waits for a group to join. All
    /// possible founders give the same number: the count of all of them.
    pub founders: u8,
    /// Maximum number of members, 2 to COVALENT_GROUP_MEMBERS_MAX. 0 is 8. All members give the
    /// same number.
    pub members_max: u8,
    /// 1: the members' programs have no state that a joining member needs. All members give the
    /// same value.
    pub stateless: u8,
    /// 0.
    pub reserved: u8,
    /// An earlier incarnation whose multicasts are queried (COVALENT_GROUP_OUTCOME). 0 for none.
    pub former_incarnation: u64,
    /// Tick of an idle group: the interval at which it sends something. 1 ms to 1 s. 0 is 20 ms. A
    /// member is never declared failed because this time passed.
    pub tick_interval_ns: u64,
}

growing!(covalent_group_options, 24);

/// A member.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_group_member {
    /// Its node.
    pub node_guid: u64,
    /// Its incarnation: a random number.
    pub incarnation: u64,
    /// 1: it has the state, and counts towards a quorum.
    pub votes: u8,
    /// 0.
    pub reserved: [u8; 7],
}

/// Kind of an event.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_group_event_kind {
    /// There was none.
    COVALENT_GROUP_NONE = 0,
    /// From now on there are other members: covalent_group_read_view. `view` is its number.
    COVALENT_GROUP_VIEW = 1,
    /// A multicast: `data`, `sender_guid`, `sender_incarnation`, its `sequence` number for this
    /// sender, from 1, and its `position` in `view`.
    COVALENT_GROUP_DELIVERED = 2,
    /// Every member's program has taken all multicasts below `position` in `view`.
    COVALENT_GROUP_STABLE = 3,
    /// The member `sender_incarnation` needs the current state, from its beginning: call
    /// covalent_group_send_snapshot.
    COVALENT_GROUP_STATE_WANTED = 4,
    /// A piece of the state: `data`, which may be empty, and whether it is the `last`. It contains
    /// the own multicasts up to number `sequence`, which are not delivered here.
    COVALENT_GROUP_STATE = 5,
    /// Discard the pieces received so far. All pieces will be sent again.
    COVALENT_GROUP_STATE_VOID = 6,
    /// Delivery stopped, for the reason in `why`. Own multicasts from number `sequence` on are in
    /// doubt.
    COVALENT_GROUP_STOPPED = 7,
    /// The multicasts of the queried earlier incarnation up to number `sequence` were delivered.
    COVALENT_GROUP_OUTCOME = 8,
    /// This member left the group, as requested.
    COVALENT_GROUP_LEFT = 9,
}

/// Why nothing is delivered any more.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_group_stop {
    /// Delivery continues.
    COVALENT_STOP_NONE = 0,
    /// The reachable members are no quorum. Delivery continues if they become one.
    COVALENT_STOP_MINORITY = 1,
    /// The others went on without it: covalent_group_rejoin.
    COVALENT_STOP_EXCLUDED = 2,
    /// There is another group of this name, or others found one: covalent_group_rejoin.
    COVALENT_STOP_OTHER_GROUP = 3,
}

/// An event of a group. All events have one order. Fields that the kind does not name are 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_group_event {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// The kind.
    pub kind: covalent_group_event_kind,
    /// Of COVALENT_GROUP_STOPPED.
    pub why: covalent_group_stop,
    /// 1: the last piece of a state.
    pub last: u8,
    /// 0.
    pub reserved: [u8; 3],
    /// Number of the view.
    pub view: u64,
    /// Place of a batch in the view's order, from 0.
    pub position: u64,
    /// Number of a multicast among those of its sender's incarnation, from 1.
    pub sequence: u64,
    /// A member's node.
    pub sender_guid: u64,
    /// A member's incarnation.
    pub sender_incarnation: u64,
    /// Bytes; good until the group's next call of covalent_group_next. Null if there are none.
    pub data: *const u8,
    /// How many.
    pub length_bytes: usize,
}

growing!(covalent_group_event, 72);

impl covalent_group_event {
    const fn of(kind: covalent_group_event_kind) -> Self {
        Self {
            struct_bytes: 0,
            kind,
            why: covalent_group_stop::COVALENT_STOP_NONE,
            last: 0,
            reserved: [0; 3],
            view: 0,
            position: 0,
            sequence: 0,
            sender_guid: 0,
            sender_incarnation: 0,
            data: ptr::null(),
            length_bytes: 0,
        }
    }

    fn with_data(self, data: &[u8]) -> Self {
        Self {
            data: if data.is_empty() {
                ptr::null()
            } else {
                data.as_ptr()
            },
            length_bytes: data.len(),
            ..self
        }
    }
}

impl From<GroupEvent<'_>> for covalent_group_event {
    fn from(event: GroupEvent<'_>) -> Self {
        use covalent_group_event_kind::*;
        match event {
            GroupEvent::View(view) => Self {
                view: view.number,
                ..Self::of(COVALENT_GROUP_VIEW)
            },
            GroupEvent::Delivered {
                sender,
                sequence,
                view,
                position,
                data,
            } => Self {
                view,
                position,
                sequence,
                sender_guid: sender.guid,
                sender_incarnation: sender.incarnation.0,
                ..Self::of(COVALENT_GROUP_DELIVERED)
            }
            .with_data(data),
            GroupEvent::Stable { view, position } => Self {
                view,
                position,
                ..Self::of(COVALENT_GROUP_STABLE)
            },
            GroupEvent::StateWanted { to } => Self {
                sender_guid: to.guid,
                sender_incarnation: to.incarnation.0,
                ..Self::of(COVALENT_GROUP_STATE_WANTED)
            },
            GroupEvent::State {
                data,
                last,
                delivered_to,
            } => Self {
                last: u8::from(last),
                sequence: delivered_to,
                ..Self::of(COVALENT_GROUP_STATE)
            }
            .with_data(data),
            GroupEvent::StateVoid => Self::of(COVALENT_GROUP_STATE_VOID),
            GroupEvent::Stopped { why, undelivered } => Self {
                why: match why {
                    Stop::Minority { .. } => covalent_group_stop::COVALENT_STOP_MINORITY,
                    Stop::Excluded => covalent_group_stop::COVALENT_STOP_EXCLUDED,
                    Stop::OtherGroup { .. } => covalent_group_stop::COVALENT_STOP_OTHER_GROUP,
                },
                sequence: undelivered,
                ..Self::of(COVALENT_GROUP_STOPPED)
            },
            GroupEvent::Outcome { delivered_to } => Self {
                sequence: delivered_to,
                ..Self::of(COVALENT_GROUP_OUTCOME)
            },
            GroupEvent::Left => Self::of(COVALENT_GROUP_LEFT),
        }
    }
}

thread_local! {
    /// `None`: a new incarnation could not be started.
    static GROUPS: RefCell<Table<Held<Option<Group<'static>>>>> = RefCell::new(
        Table::new(Kind::Group, this_thread()),
    );
}

fn over() -> Failure {
    invalid("the group could not be joined again: close it, and join it again")
}

fn with<T>(
    group: covalent_group,
    body: impl FnOnce(&mut Group<'static>) -> Result<T>,
) -> Result<T> {
    GROUPS.with_borrow_mut(|groups| {
        let group = groups.get(group.handle)?;
        body(group.get().as_mut().ok_or_else(over)?)
    })
}

fn options(given: &covalent_group_options) -> Result<GroupOptions> {
    if given.reserved != 0 || given.stateless > 1 {
        return Err(invalid(
            "options of a group: `reserved` is 0, and `stateless` 0 or 1",
        ));
    }
    let mut options = GroupOptions::new()
        .founders(given.founders)
        .stateless(given.stateless == 1);
    if given.members_max != 0 {
        options = options.members_max(given.members_max);
    }
    if given.former_incarnation != 0 {
        options = options.former(Incarnation(given.former_incarnation));
    }
    if given.tick_interval_ns != 0 {
        options = options.tick_interval(Duration::from_nanos(given.tick_interval_ns));
    }
    Ok(options)
}

/// Joins the group `name`, or founds it with others, as a new incarnation. `name` is 1 to 30
/// letters, digits, `-`, `_` and `.`. Returns at once. The first COVALENT_GROUP_VIEW reports that
/// this member is in the group.
///
/// Returns COVALENT_REFUSED if another program of this node is in the group.
///
/// # Safety
/// `name` is a NUL-terminated string. `options` points to a covalent_group_options
/// whose `struct_bytes` is set. `group` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_join(
    device: covalent_device,
    name: *const c_char,
    options: *const covalent_group_options,
    group: *mut covalent_group,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (name, given, mut out) = unsafe {
            (
                text(name, "name")?,
                growing_value(options, "options")?,
                Out::new(group, "group")?,
            )
        };
        let options = self::options(&given)?;
        let device = self::device(device)?;
        let group = Held::open(&device, |device| device.group(name, options).map(Some))?;
        let handle = GROUPS.with_borrow_mut(|groups| groups.insert(group))?;
        out.set(covalent_group { handle });
        Ok(())
    })
}

/// A member that has not begun: the other members need its contact. Use it only on its device's
/// thread. A zero handle is invalid.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_group_builder {
    /// Opaque.
    pub handle: u64,
}

/// By which members reach one of them: plain data, which programs exchange by any means.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_group_contact {
    /// Its node.
    pub node_guid: u64,
    /// Its incarnation: a random number.
    pub incarnation: u64,
    /// Key of its receive queue.
    pub rkey: u32,
    /// 0.
    pub reserved: u32,
}

impl From<Contact> for covalent_group_contact {
    fn from(contact: Contact) -> Self {
        Self {
            node_guid: contact.guid,
            incarnation: contact.incarnation.0,
            rkey: contact.rkey,
            reserved: 0,
        }
    }
}

impl From<covalent_group_contact> for Contact {
    fn from(contact: covalent_group_contact) -> Self {
        Self {
            guid: contact.node_guid,
            incarnation: Incarnation(contact.incarnation),
            rkey: contact.rkey,
        }
    }
}

thread_local! {
    static BUILDERS: RefCell<Table<Held<GroupBuilder<'static>>>> = RefCell::new(
        Table::new(Kind::GroupBuilder, this_thread()),
    );
}

/// Opens a builder of the group `name`, whose members all start together with
/// covalent_group_builder_begin. Otherwise as covalent_group_join.
///
/// # Safety
/// As covalent_group_join; `builder` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_builder_open(
    device: covalent_device,
    name: *const c_char,
    options: *const covalent_group_options,
    builder: *mut covalent_group_builder,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (name, given, mut out) = unsafe {
            (
                text(name, "name")?,
                growing_value(options, "options")?,
                Out::new(builder, "builder")?,
            )
        };
        let options = self::options(&given)?;
        let device = self::device(device)?;
        let builder = Held::open(&device, |device| device.group_builder(name, options))?;
        let handle = BUILDERS.with_borrow_mut(|builders| builders.insert(builder))?;
        out.set(covalent_group_builder { handle });
        Ok(())
    })
}

/// Returns the contact of this member.
///
/// # Safety
/// `contact` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_builder_contact(
    builder: covalent_group_builder,
    contact: *mut covalent_group_contact,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(contact, "contact")? };
        let contact = BUILDERS.with_borrow_mut(|builders| -> Result<Contact> {
            Ok(builders.get(builder.handle)?.get().contact())
        })?;
        out.set(contact.into());
        Ok(())
    })
}

/// Starts the group with the contacts of all its members in any order, including the own one, and
/// closes the builder. All members must give the same contacts and the same options. A member that
/// gives others is in another group and receives nothing from this one. The first event is
/// COVALENT_GROUP_VIEW with number 1. Other members join later with covalent_group_join.
///
/// Returns COVALENT_INVALID if the own contact is not among them, if two are on one node, or if
/// there are more than `members_max`. The builder is closed then too.
///
/// # Safety
/// `contacts` points to `count` contacts. `group` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_builder_begin(
    builder: covalent_group_builder,
    contacts: *const covalent_group_contact,
    count: usize,
    group: *mut covalent_group,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (contacts, mut out) = unsafe {
            (
                values(contacts, count, "contacts")?,
                Out::new(group, "group")?,
            )
        };
        let contacts: Vec<Contact> = contacts.iter().map(|&contact| contact.into()).collect();
        let builder = BUILDERS.with_borrow_mut(|builders| builders.remove(builder.handle))?;
        let group = builder.try_map(|builder| builder.begin(&contacts).map(Some))?;
        let handle = GROUPS.with_borrow_mut(|groups| groups.insert(group))?;
        out.set(covalent_group { handle });
        Ok(())
    })
}

/// Closes a builder that did not begin.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_builder_close(builder: covalent_group_builder) -> c_int {
    call(|| {
        let closed = BUILDERS.with_borrow_mut(|builders| builders.remove(builder.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Starts a new incarnation in place of one that was excluded or is given up. The new incarnation
/// has another number and no state. It receives the outcome of its predecessor's multicasts
/// (COVALENT_GROUP_OUTCOME). If the call fails, the group can only be closed.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_rejoin(group: covalent_group) -> c_int {
    call(|| {
        GROUPS.with_borrow_mut(|groups| {
            let place = groups.get(group.handle)?.get();
            let ended = place.take().ok_or_else(over)?;
            *place = Some(ended.rejoin()?);
            Ok(())
        })
    })
}

/// Ends this member's incarnation at once: the other members detect that it is gone. To leave
/// gracefully, use covalent_group_leave.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_close(group: covalent_group) -> c_int {
    call(|| {
        let closed = GROUPS.with_borrow_mut(|groups| groups.remove(group.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Multicasts 1 to COVALENT_MULTICAST_BYTES_MAX bytes. `sequence` receives the number of this
/// multicast among the own ones, from 1, and may be null.
///
/// Does not wait and sends nothing by itself: the next covalent_group_next sends, even with a
/// timeout of 0. Returns COVALENT_FULL if there is no room now: take events first. Returns
/// COVALENT_STOPPED after COVALENT_GROUP_STOPPED and covalent_group_leave.
///
/// # Safety
/// `data` points to `length_bytes` bytes. `sequence` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_multicast(
    group: covalent_group,
    data: *const u8,
    length_bytes: usize,
    sequence: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (data, out) = unsafe {
            (
                values(data, length_bytes, "data")?,
                Out::optional(sequence, "sequence")?,
            )
        };
        let number = with(group, |group| Ok(group.multicast(data)?))?;
        if let Some(mut out) = out {
            out.set(number);
        }
        Ok(())
    })
}

/// Stores in `wait_ns` how long an event loop may sleep before it must call covalent_group_next
/// without a wake-up, in nanoseconds. 0 means at once. Each such call sets it anew. See
/// covalent_device_arm.
///
/// # Safety
/// `wait_ns` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_poll_within(
    group: covalent_group,
    wait_ns: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(wait_ns, "wait_ns")? };
        with(group, |group| {
            let wait = group.poll_at().saturating_duration_since(Instant::now());
            out.set(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
            Ok(())
        })
    })
}

/// Takes the next event. `timeout_ns`: 0 does not wait, and the event may be COVALENT_GROUP_NONE. A
/// negative value waits forever. Otherwise the call returns COVALENT_DEADLINE if no event arrives
/// in time.
///
/// # Safety
/// `event` points to a covalent_group_event whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_next(
    group: covalent_group,
    timeout_ns: i64,
    event: *mut covalent_group_event,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { GrowingOut::new(event, "event")? };
        let none = covalent_group_event_kind::COVALENT_GROUP_NONE;
        out.set(covalent_group_event::of(none));
        with(group, |group| {
            let event = match timeout(timeout_ns) {
                None => match group.try_next()? {
                    Some(event) => event,
                    None => return Ok(()),
                },
                Some(timeout) => group.next(timeout)?,
            };
            out.set(event.into());
            Ok(())
        })
    })
}

/// Gives a piece of the state to the member that needs it (COVALENT_GROUP_STATE_WANTED): 1 to
/// COVALENT_STATE_BYTES_MAX bytes, or 0 bytes if it is the `last` (0 or 1). All pieces belong to
/// the state at the moment of that event.
///
/// Does not wait. Returns COVALENT_FULL if two pieces are in flight: take events, then continue.
/// Returns COVALENT_STOPPED if no member waits for this state any more: discard the rest of it.
///
/// # Safety
/// `data` points to `length_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_send_snapshot(
    group: covalent_group,
    to_incarnation: u64,
    data: *const u8,
    length_bytes: usize,
    last: c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let data = unsafe { values(data, length_bytes, "data")? };
        let last = flag(last, "last")?;
        with(group, |group| {
            Ok(group.send_snapshot(Incarnation(to_incarnation), data, last)?)
        })
    })
}

/// A view of a group: its members from one event on.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_group_view {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// Which group: two that were founded under one name have different numbers.
    pub group: u64,
    /// 1 for the first view, then one more each time. 0 before the first.
    pub number: u64,
}

growing!(covalent_group_view, 24);

/// Returns the current view, and its members, oldest first, up to `capacity` of them. `count`
/// receives the number of members, 0 before the first view. `view` may be null.
///
/// # Safety
/// `members` is valid for writes of `capacity` elements, and `count` for writes. `view` is null or
/// points to a covalent_group_view whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_read_view(
    group: covalent_group,
    view: *mut covalent_group_view,
    members: *mut covalent_group_member,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (mut out, mut count, number) = unsafe {
            (
                Outs::new(members, capacity, "members")?,
                Out::new(count, "count")?,
                GrowingOut::optional(view, "view")?,
            )
        };
        with(group, |group| {
            let view = group.view().copied().unwrap_or_default();
            for (rank, member) in view.members.iter().enumerate() {
                out.set(
                    rank,
                    covalent_group_member {
                        node_guid: member.guid,
                        incarnation: member.incarnation.0,
                        votes: u8::from(view.voters.contains(rank)),
                        reserved: [0; 7],
                    },
                );
            }
            count.set(view.members.len());
            if let Some(mut number) = number {
                number.set(covalent_group_view {
                    struct_bytes: 0,
                    group: view.group,
                    number: view.number,
                });
            }
            Ok(())
        })
    })
}

/// Returns the number by which the other members identify this incarnation.
///
/// # Safety
/// `incarnation` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_incarnation(
    group: covalent_group,
    incarnation: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(incarnation, "incarnation")? };
        out.set(with(group, |group| Ok(group.incarnation().0))?);
        Ok(())
    })
}

/// Returns the member whose program the other members wait for: the incarnation that has taken the
/// least. 0 if all have taken the same.
///
/// # Safety
/// `incarnation` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_laggard(
    group: covalent_group,
    incarnation: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(incarnation, "incarnation")? };
        let slow = with(group, |group| Ok(group.laggard()))?;
        out.set(slow.map_or(0, |member| member.incarnation.0));
        Ok(())
    })
}

/// Suspects a member of blocking the group. A view change excludes it. Without a quorum the call
/// has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_suspect(group: covalent_group, incarnation: u64) -> c_int {
    call(|| {
        with(group, |group| {
            group.suspect(Incarnation(incarnation));
            Ok(())
        })
    })
}

/// Also searches for the group on the node `node_guid`. Neighbors are always searched, and each
/// member that is found names the members that it knows.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_add_seed(group: covalent_group, node_guid: u64) -> c_int {
    call(|| {
        let node = Guid::new(node_guid).ok_or_else(|| invalid("node_guid is 0"))?;
        with(group, |group| {
            group.add_seed(node);
            Ok(())
        })
    })
}

/// Returns the group's name.
///
/// # Safety
/// `name` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_name(
    group: covalent_group,
    name: *mut covalent_name,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(name, "name")? };
        out.set(with(group, |group| Ok(covalent_name::new(group.name())))?);
        Ok(())
    })
}

/// What a member does.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_group_standing {
    /// It has no view yet.
    COVALENT_STANDING_SEARCHING = 0,
    /// It is in a view, and delivers.
    COVALENT_STANDING_MEMBER = 1,
    /// It is in a view that is being replaced.
    COVALENT_STANDING_CHANGING = 2,
    /// It is in a view that must be replaced, but the members that it reaches are no quorum.
    COVALENT_STANDING_MINORITY = 3,
    /// It is out of the group permanently: COVALENT_GROUP_STOPPED reported the reason.
    COVALENT_STANDING_STOPPED = 4,
    /// It left.
    COVALENT_STANDING_LEFT = 5,
}

/// Returns what this member does now.
///
/// # Safety
/// `standing` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_read_standing(
    group: covalent_group,
    standing: *mut covalent_group_standing,
) -> c_int {
    use covalent_group_standing::*;
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(standing, "standing")? };
        out.set(match with(group, |group| Ok(group.standing()))? {
            GroupStanding::Searching => COVALENT_STANDING_SEARCHING,
            GroupStanding::Member => COVALENT_STANDING_MEMBER,
            GroupStanding::Changing => COVALENT_STANDING_CHANGING,
            GroupStanding::Minority => COVALENT_STANDING_MINORITY,
            GroupStanding::Stopped => COVALENT_STANDING_STOPPED,
            GroupStanding::Left => COVALENT_STANDING_LEFT,
        });
        Ok(())
    })
}

/// Counters of a member. A counter never decreases.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_group_counters {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
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
    /// Envelopes that were dropped because no member sends such.
    pub bad_envelopes: u64,
}

growing!(covalent_group_counters, 88);

impl From<&GroupCounters> for covalent_group_counters {
    fn from(counters: &GroupCounters) -> Self {
        Self {
            struct_bytes: 0,
            multicasts: counters.multicasts,
            batches: counters.batches,
            nulls: counters.nulls,
            deliveries: counters.deliveries,
            views: counters.views,
            envelopes_sent: counters.envelopes_sent,
            envelopes_resent: counters.envelopes_resent,
            envelopes_taken: counters.envelopes_taken,
            duplicates: counters.duplicates,
            bad_envelopes: counters.bad_envelopes.iter().sum(),
        }
    }
}

/// Returns this member's counters.
///
/// # Safety
/// `counters` points to a covalent_group_counters whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_read_counters(
    group: covalent_group,
    counters: *mut covalent_group_counters,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { GrowingOut::new(counters, "counters")? };
        out.set(with(group, |group| Ok(group.counters().into()))?);
        Ok(())
    })
}

/// Leaves once all own multicasts are delivered: go on taking events until COVALENT_GROUP_LEFT.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_leave(group: covalent_group) -> c_int {
    call(|| {
        with(group, |group| {
            group.leave();
            Ok(())
        })
    })
}
