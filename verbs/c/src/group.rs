//! `covalent_group`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
    ptr,
    time::Duration,
};

use covalent_verbs::{Group, GroupEvent, GroupOptions, Life, Stop};

use crate::{
    argument::{Out, Outs, text, value, values},
    device::{covalent_device, device},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Failure, Result, call, invalid},
    timeout::Timeout,
    verb_queue::{self, covalent_verb_queue},
};

/// Most members of a group.
pub const COVALENT_GROUP_MEMBERS_MAX: usize = 32;
/// Most bytes of one multicast.
pub const COVALENT_MULTICAST_BYTES_MAX: usize = 3746;
/// Most bytes of one piece of state.
pub const COVALENT_STATE_BYTES_MAX: usize = 3732;

const _: () = assert!(
    COVALENT_GROUP_MEMBERS_MAX == covalent_verbs::MEMBERS_MAX
        && COVALENT_MULTICAST_BYTES_MAX == covalent_verbs::MULTICAST_BYTES_MAX
        && COVALENT_STATE_BYTES_MAX == covalent_verbs::STATE_BYTES_MAX
);

/// A stay in a group: multicasts that all members deliver in one order, and views, which tell who the members are. Every call with it is for its device's thread only. Zero names
/// nothing.
///
/// Nothing happens but inside covalent_group_next: a program that does not call it often holds the whole group up.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_group {
    /// Opaque.
    pub handle: u64,
}

/// How a group is joined. Zeroed memory joins a group of up to 8 members that have state, with a pace of 20 ms.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_group_options {
    /// With how many members the group is founded if there is none; 0 waits for one to join. The same number at all who may found it: that of all of
    /// them.
    pub founders: u8,
    /// For how many members there is room, 2 to COVALENT_GROUP_MEMBERS_MAX, the same at all; 0 is 8.
    pub members_max: u8,
    /// 1: the members' programs have no state that one who joins would need. The same at all.
    pub stateless: u8,
    /// 0.
    pub reserved: [u8; 5],
    /// An earlier stay whose multicasts are asked about (COVALENT_GROUP_FATE); 0 for none.
    pub former_life: u64,
    /// How often something is said in an idle group, 1 ms to 1 s; 0 is 20 ms. Nobody is ever taken for dead because it passed.
    pub pace_ns: u64,
}

/// A member.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_group_member {
    /// Its node.
    pub node_guid: u64,
    /// Its stay: a random number.
    pub life: u64,
    /// 1: it has the state, and counts towards a quorum.
    pub votes: u8,
    /// 0.
    pub reserved: [u8; 7],
}

/// What an event is.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_group_event_kind {
    /// There was none.
    COVALENT_GROUP_NONE = 0,
    /// From now on there are other members: covalent_group_members. `view` is its number.
    COVALENT_GROUP_VIEW = 1,
    /// A multicast: `data`, `sender_guid`, `sender_life`, its `sequence` among those of this sender from 1, and its `position` in `view`.
    COVALENT_GROUP_DELIVERED = 2,
    /// Every member's program has taken all multicasts below `position` in `view`.
    COVALENT_GROUP_STABLE = 3,
    /// The member `sender_life` needs the state as it is now, from its beginning: covalent_group_give_state.
    COVALENT_GROUP_STATE_WANTED = 4,
    /// A piece of the state: `data`, which may be empty, and whether it is the `last`. Own multicasts up to number `sequence` are in it and are not delivered here.
    COVALENT_GROUP_STATE = 5,
    /// Forget the pieces that came: they come anew.
    COVALENT_GROUP_STATE_VOID = 6,
    /// Nothing is delivered from now on; `why` says the reason. Own multicasts from number `sequence` on are in doubt.
    COVALENT_GROUP_STOPPED = 7,
    /// Of the former stay that was asked about, the multicasts up to number `sequence` were delivered.
    COVALENT_GROUP_FATE = 8,
    /// It is out of the group, as it asked.
    COVALENT_GROUP_LEFT = 9,
}

/// Why nothing is delivered any more.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_group_stop {
    /// It goes on.
    COVALENT_STOP_NONE = 0,
    /// Those whom it reaches are no quorum. It goes on if they become one.
    COVALENT_STOP_MINORITY = 1,
    /// The others went on without it: covalent_group_rejoin.
    COVALENT_STOP_EXCLUDED = 2,
    /// There is another group of this name, or others found one: covalent_group_rejoin.
    COVALENT_STOP_OTHER_GROUP = 3,
}

/// Something that a member is told, in one order with everything else. Fields that the kind does not name are 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct covalent_group_event {
    /// What it is.
    pub kind: covalent_group_event_kind,
    /// Of COVALENT_GROUP_STOPPED.
    pub why: covalent_group_stop,
    /// Number of the view.
    pub view: u64,
    /// Place of a batch in the view's order, from 0.
    pub position: u64,
    /// Number of a multicast among those of its sender's stay, from 1.
    pub sequence: u64,
    /// A member's node.
    pub sender_guid: u64,
    /// A member's stay.
    pub sender_life: u64,
    /// Bytes; good until the group's next call of covalent_group_next. Null if there are none.
    pub data: *const u8,
    /// How many.
    pub length_bytes: usize,
    /// 1: the last piece of a state.
    pub last: u8,
    /// 0.
    pub reserved: [u8; 7],
}

impl covalent_group_event {
    const fn of(kind: covalent_group_event_kind) -> Self {
        Self {
            kind,
            why: covalent_group_stop::COVALENT_STOP_NONE,
            view: 0,
            position: 0,
            sequence: 0,
            sender_guid: 0,
            sender_life: 0,
            data: ptr::null(),
            length_bytes: 0,
            last: 0,
            reserved: [0; 7],
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
                sender_life: sender.life.0,
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
                sender_life: to.life.0,
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
            GroupEvent::Fate { delivered_to } => Self {
                sequence: delivered_to,
                ..Self::of(COVALENT_GROUP_FATE)
            },
            GroupEvent::Left => Self::of(COVALENT_GROUP_LEFT),
        }
    }
}

/// A stay, and the queue that its verbs go through. `None`: a new stay could not be begun.
struct Stay {
    group: Held<Option<Group<'static>>>,
    verbs: covalent_verb_queue,
}

thread_local! {
    static GROUPS: RefCell<Table<Stay>> = RefCell::new(Table::new(Kind::Group, this_thread()));
}

fn over() -> Failure {
    invalid("the group could not be joined anew: close it, and join it again")
}

fn with<T>(
    group: covalent_group,
    body: impl FnOnce(&mut Group<'static>, covalent_verb_queue) -> Result<T>,
) -> Result<T> {
    GROUPS.with_borrow_mut(|groups| {
        let stay = groups.get(group.handle)?;
        let verbs = stay.verbs;
        body(stay.group.get().as_mut().ok_or_else(over)?, verbs)
    })
}

fn options(given: &covalent_group_options) -> Result<GroupOptions> {
    if given.reserved != [0; 5] || given.stateless > 1 {
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
    if given.former_life != 0 {
        options = options.former(Life(given.former_life));
    }
    if given.pace_ns != 0 {
        options = options.pace(Duration::from_nanos(given.pace_ns));
    }
    Ok(options)
}

/// Begins a stay in the group `name` (1 to 30 letters, digits, `-`, `_` and `.`): joins it where it runs, or founds it with others. Returns at once; the first
/// COVALENT_GROUP_VIEW tells that it is in. `verbs` is the device's verb queue, through which the group's verbs go; keep it open, with room for 10 verbs for each member
/// and 16 more. COVALENT_REFUSED when another program of this node is in the group.
///
/// # Safety
/// `name` is text that ends in a zero, `options` points to such; `group` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_join(
    device: covalent_device,
    verbs: covalent_verb_queue,
    name: *const c_char,
    options: *const covalent_group_options,
    group: *mut covalent_group,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (name, given, mut out) = unsafe {
            (
                text(name, "name")?,
                value(options, "options")?,
                Out::new(group, "group")?,
            )
        };
        let options = self::options(&given)?;
        verb_queue::with(verbs, |_| Ok(()))?;
        let device = self::device(device)?;
        let group = Held::open(&device, |device| device.group(name, options).map(Some))?;
        let handle = GROUPS.with_borrow_mut(|groups| groups.insert(Stay { group, verbs }))?;
        out.set(covalent_group { handle });
        Ok(())
    })
}

/// Begins a new stay in place of one that was left out, or is given up. It has another life and none of the state, and is told what became of the multicasts of the one before
/// (COVALENT_GROUP_FATE). If it fails, the group is good for nothing but to be closed.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_rejoin(group: covalent_group) -> c_int {
    call(|| {
        GROUPS.with_borrow_mut(|groups| {
            let place = groups.get(group.handle)?.group.get();
            let stay = place.take().ok_or_else(over)?;
            *place = Some(stay.rejoin()?);
            Ok(())
        })
    })
}

/// Ends a stay at once: the others find it gone. covalent_group_leave is the polite end.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_close(group: covalent_group) -> c_int {
    call(|| {
        let closed = GROUPS.with_borrow_mut(|groups| groups.remove(group.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Multicasts 1 to COVALENT_MULTICAST_BYTES_MAX bytes and tells their number among the own ones, from 1 (`sequence` may be null). Does not wait, and sends nothing by itself: the next
/// covalent_group_next does, also one that does not wait. COVALENT_FULL when there is no room now: take events. COVALENT_STOPPED after COVALENT_GROUP_STOPPED and
/// covalent_group_leave.
///
/// # Safety
/// `data` points to so many bytes; `sequence` is null or may be written.
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
        let number = with(group, |group, _| Ok(group.multicast(data)?))?;
        if let Some(mut out) = out {
            out.set(number);
        }
        Ok(())
    })
}

/// Takes the next event. `timeout_ns`: 0 does not wait, and then it may be COVALENT_GROUP_NONE; negative waits for ever; else COVALENT_DEADLINE when none came in time.
///
/// # Safety
/// `event` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_next(
    group: covalent_group,
    timeout_ns: i64,
    event: *mut covalent_group_event,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(event, "event")? };
        let none = covalent_group_event_kind::COVALENT_GROUP_NONE;
        out.set(covalent_group_event::of(none));
        with(group, |group, queue| {
            verb_queue::with(queue, |verbs| {
                let event = match Timeout::new(timeout_ns) {
                    Timeout::None => match group.poll(verbs)? {
                        Some(event) => event,
                        None => return Ok(()),
                    },
                    Timeout::Until(deadline) => group.next_deadline(verbs, deadline)?,
                    Timeout::Forever => group.next(verbs)?,
                };
                out.set(event.into());
                Ok(())
            })
        })
    })
}

/// Gives a piece of the state to the member that wants it (COVALENT_GROUP_STATE_WANTED): 1 to COVALENT_STATE_BYTES_MAX bytes, none are possible if it is the `last` (0 or 1). All pieces are of the state as it was when it was wanted. Does not wait: COVALENT_FULL when two pieces are on their way; take events, then go on. COVALENT_STOPPED when nobody waits for
/// this state any more: forget what is left of it.
///
/// # Safety
/// `data` points to so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_give_state(
    group: covalent_group,
    to_life: u64,
    data: *const u8,
    length_bytes: usize,
    last: c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let data = unsafe { values(data, length_bytes, "data")? };
        if !(0..=1).contains(&last) {
            return Err(invalid(format!("last is {last}: expected 0 or 1")));
        }
        with(group, |group, _| {
            Ok(group.give_state(Life(to_life), data, last == 1)?)
        })
    })
}

/// Tells who belongs to the view that this member is in, the oldest first, as many as there is room for; `count` gets how many they are, 0 before the first view, and `view` its number (it may
/// be null).
///
/// # Safety
/// `members` may be written `capacity` times, `count` once; `view` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_members(
    group: covalent_group,
    members: *mut covalent_group_member,
    capacity: usize,
    count: *mut usize,
    view: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (mut out, mut count, number) = unsafe {
            (
                Outs::new(members, capacity, "members")?,
                Out::new(count, "count")?,
                Out::optional(view, "view")?,
            )
        };
        with(group, |group, _| {
            let view = group.view().copied().unwrap_or_default();
            for (rank, member) in view.members.iter().enumerate() {
                out.set(
                    rank,
                    covalent_group_member {
                        node_guid: member.guid,
                        life: member.life.0,
                        votes: u8::from(view.voters.contains(rank)),
                        reserved: [0; 7],
                    },
                );
            }
            count.set(view.members.len());
            if let Some(mut number) = number {
                number.set(view.number);
            }
            Ok(())
        })
    })
}

/// Tells by which number the others know this stay.
///
/// # Safety
/// `life` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_life(group: covalent_group, life: *mut u64) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(life, "life")? };
        out.set(with(group, |group, _| Ok(group.life().0))?);
        Ok(())
    })
}

/// Tells for whose program the others wait: the life of the member that has taken least; 0 if all took the same.
///
/// # Safety
/// `life` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_group_holds_up(group: covalent_group, life: *mut u64) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(life, "life")? };
        let slow = with(group, |group, _| Ok(group.holds_up()))?;
        out.set(slow.map_or(0, |member| member.life.0));
        Ok(())
    })
}

/// Judges that a member holds everybody up: it is put out, by a change of view like any other. Without a quorum nothing comes of it.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_suspect(group: covalent_group, life: u64) -> c_int {
    call(|| {
        with(group, |group, _| {
            group.suspect(Life(life));
            Ok(())
        })
    })
}

/// Leaves once all own multicasts are delivered: go on taking events until COVALENT_GROUP_LEFT.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_group_leave(group: covalent_group) -> c_int {
    call(|| {
        with(group, |group, _| {
            group.leave();
            Ok(())
        })
    })
}
