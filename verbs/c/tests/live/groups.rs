//! Groups of C programs, and of C and Rust programs together.

use std::{
    ffi::{CStr, CString, c_int},
    mem::MaybeUninit,
    os::fd::BorrowedFd,
    ptr, slice, thread,
    time::Instant,
};

use covalent::{Device, Error, Group, GroupEvent, GroupOptions, Incarnation, STATE_BYTES_MAX};
use covalent_c::covalent_group_event_kind::*;
use covalent_c::*;
use nix::poll::{PollFd, PollFlags, poll};

use crate::{
    calls::{OK, SOON_NS, fails, ok, sized},
    mesh::Mesh,
    nodes::PATIENCE,
};

const INVALID: covalent_status = covalent_status::COVALENT_INVALID;

const NO_OPTIONS: covalent_group_options = covalent_group_options {
    struct_bytes: size_of::<covalent_group_options>() as u32,
    founders: 0,
    members_max: 0,
    stateless: 0,
    reserved: 0,
    former_incarnation: 0,
    tick_interval_ns: 0,
};

fn founders(count: u8) -> covalent_group_options {
    covalent_group_options {
        founders: count,
        ..NO_OPTIONS
    }
}

/// A device of a node.
fn attach(mesh: &Mesh, at: usize) -> covalent_device {
    let socket = CString::new(mesh.socket(at).to_str().unwrap()).unwrap();
    let mut device = covalent_device { handle: 0 };
    // SAFETY: strings are NUL-terminated. Out-pointers are valid for writes.
    unsafe {
        ok(covalent_device_attach(
            socket.as_ptr(),
            c"test".as_ptr(),
            0,
            &raw mut device,
        ));
    }
    device
}

fn join(device: covalent_device, options: &covalent_group_options) -> (c_int, covalent_group) {
    let mut group = covalent_group { handle: 0 };
    let options = &raw const *options;
    // SAFETY: the text ends in a zero, the options are such, `group` may be written.
    let status =
        unsafe { covalent_group_join(device, c"orders".as_ptr(), options, &raw mut group) };
    (status, group)
}

fn multicast(group: covalent_group, data: &[u8]) -> (c_int, u64) {
    let mut sequence = 0;
    // SAFETY: pointer and length belong to a slice. `sequence` is valid for writes.
    let status =
        unsafe { covalent_group_multicast(group, data.as_ptr(), data.len(), &raw mut sequence) };
    (status, sequence)
}

fn next(group: covalent_group, timeout_ns: i64) -> (c_int, covalent_group_event) {
    // SAFETY: zeros are no event, and `event` may be written.
    unsafe {
        let mut event = sized();
        let status = covalent_group_next(group, timeout_ns, &raw mut event);
        (status, event)
    }
}

fn bytes(event: &covalent_group_event) -> &[u8] {
    if event.length_bytes == 0 {
        assert!(event.data.is_null());
        return &[];
    }
    // SAFETY: the library guarantees that the bytes stay until the next call. The caller makes none
    // before.
    unsafe { slice::from_raw_parts(event.data, event.length_bytes) }
}

/// A member, in C or in Rust.
trait Member {
    fn turn(&mut self);
    fn multicast(&mut self, data: &[u8]);
    fn state(&self) -> &[u8];
    fn members(&self) -> usize;
}

/// The state that a member makes: all messages, one after the other; and states that it gives.
#[derive(Default)]
struct Book {
    state: Vec<u8>,
    giving: Vec<(u64, Vec<u8>)>,
    members: usize,
    pieces: usize,
    left: bool,
}

impl Book {
    /// Gives as many pieces as fit. `give` returns whether a piece was accepted, or `None` if no
    /// member waits for it.
    fn give(&mut self, mut give: impl FnMut(u64, &[u8], bool) -> Option<bool>) {
        self.giving.retain_mut(|(to, rest)| {
            loop {
                let piece = rest.len().min(STATE_BYTES_MAX);
                let last = piece == rest.len();
                match give(*to, &rest[..piece], last) {
                    Some(true) if !last => drop(rest.drain(..piece)),
                    Some(false) => return true,
                    _ => return false,
                }
            }
        });
    }
}

struct InC {
    device: covalent_device,
    group: covalent_group,
    book: Book,
}

impl InC {
    fn join(mesh: &Mesh, at: usize, options: &covalent_group_options) -> Self {
        let device = attach(mesh, at);
        let (status, group) = join(device, options);
        ok(status);
        Self {
            device,
            group,
            book: Book::default(),
        }
    }
}

impl Member for InC {
    fn turn(&mut self) {
        loop {
            let (status, event) = next(self.group, 0);
            ok(status);
            let book = &mut self.book;
            match event.kind {
                COVALENT_GROUP_NONE => break,
                COVALENT_GROUP_VIEW => {
                    let mut members = [MaybeUninit::<covalent_group_member>::uninit(); 32];
                    let mut count = 0;
                    let mut view = covalent_group_view {
                        struct_bytes: size_of::<covalent_group_view>() as u32,
                        group: 0,
                        number: 0,
                    };
                    // SAFETY: all of these may be written.
                    ok(unsafe {
                        covalent_group_read_view(
                            self.group,
                            &raw mut view,
                            members.as_mut_ptr().cast(),
                            members.len(),
                            &raw mut count,
                        )
                    });
                    assert_eq!(view.number, event.view);
                    assert_ne!(view.group, 0);
                    // SAFETY: as many were written.
                    let first = unsafe { members[0].assume_init() };
                    assert!(first.node_guid != 0 && first.incarnation != 0 && first.votes == 1);
                    book.members = count;
                }
                COVALENT_GROUP_DELIVERED => {
                    assert!(event.sequence > 0 && event.sender_incarnation != 0);
                    book.state.extend_from_slice(bytes(&event));
                }
                COVALENT_GROUP_STATE => {
                    book.state.extend_from_slice(bytes(&event));
                    book.pieces += 1;
                }
                COVALENT_GROUP_STATE_VOID => book.state.clear(),
                COVALENT_GROUP_STATE_WANTED => {
                    let state = book.state.clone();
                    book.giving.push((event.sender_incarnation, state));
                }
                COVALENT_GROUP_LEFT => book.left = true,
                _ => {}
            }
        }
        let group = self.group;
        self.book.give(|to, piece, last| {
            let (data, length) = (piece.as_ptr(), piece.len());
            // SAFETY: pointer and length belong to a slice.
            let status =
                unsafe { covalent_group_send_snapshot(group, to, data, length, c_int::from(last)) };
            match status {
                OK => Some(true),
                full if full == covalent_status::COVALENT_FULL as c_int => Some(false),
                stopped => {
                    assert_eq!(stopped, covalent_status::COVALENT_STOPPED as c_int);
                    None
                }
            }
        });
    }

    fn multicast(&mut self, data: &[u8]) {
        ok(multicast(self.group, data).0);
    }

    fn state(&self) -> &[u8] {
        &self.book.state
    }

    fn members(&self) -> usize {
        self.book.members
    }
}

struct InRust<'d> {
    group: Group<'d>,
    book: Book,
}

impl Member for InRust<'_> {
    fn turn(&mut self) {
        let book = &mut self.book;
        while let Some(event) = self.group.try_next().unwrap() {
            match event {
                GroupEvent::View(view) => book.members = view.members.len(),
                GroupEvent::Delivered { data, .. } => book.state.extend_from_slice(data),
                GroupEvent::StateWanted { to } => {
                    let state = book.state.clone();
                    book.giving.push((to.incarnation.0, state));
                }
                _ => {}
            }
        }
        let group = &mut self.group;
        book.give(
            |to, piece, last| match group.send_snapshot(Incarnation(to), piece, last) {
                Ok(()) => Some(true),
                Err(Error::GroupFull { .. }) => Some(false),
                Err(_) => None,
            },
        );
    }

    fn multicast(&mut self, data: &[u8]) {
        self.group.multicast(data).unwrap();
    }

    fn state(&self) -> &[u8] {
        &self.book.state
    }

    fn members(&self) -> usize {
        self.book.members
    }
}

/// Drives all members in turn until `enough` returns true.
fn turn_until(
    members: &mut [&mut dyn Member],
    what: &str,
    enough: impl Fn(&[&mut dyn Member]) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while !enough(members) {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        members.iter_mut().for_each(|member| member.turn());
        thread::yield_now();
    }
}

#[test]
fn members_in_c_and_in_rust_deliver_the_same_and_give_each_other_the_state() {
    let mesh = Mesh::start(3);
    let device: Device = mesh.attach(2);
    let options = GroupOptions::new().founders(2);
    let mut rust = InRust {
        group: device.group("orders", options).unwrap(),
        book: Book::default(),
    };
    let mut first = InC::join(&mesh, 0, &founders(2));
    turn_until(&mut [&mut first, &mut rust], "two found it", |members| {
        members.iter().all(|member| member.members() == 2)
    });
    let mut sent_bytes = 0;
    for number in 0..60_u8 {
        let message = [number; 500];
        first.multicast(&message);
        rust.multicast(&message[1..]);
        sent_bytes += 999;
        first.turn();
        rust.turn();
    }
    turn_until(
        &mut [&mut first, &mut rust],
        "all is delivered",
        |members| {
            members
                .iter()
                .all(|member| member.state().len() == sent_bytes)
        },
    );
    // The state needs more than one piece, whichever member gives it.
    let mut late = InC::join(&mesh, 1, &NO_OPTIONS);
    let all: &mut [&mut dyn Member] = &mut [&mut first, &mut rust, &mut late];
    turn_until(all, "the third has the state", |members| {
        members
            .iter()
            .all(|member| member.members() == 3 && member.state().len() == sent_bytes)
    });
    all[2].multicast(b"!");
    turn_until(all, "its message is delivered", |members| {
        members
            .iter()
            .all(|member| member.state().len() == sent_bytes + 1)
    });
    assert_eq!(first.state(), rust.state());
    assert_eq!(first.state(), late.state());
    assert!(late.book.pieces > sent_bytes / STATE_BYTES_MAX);
    ok(covalent_group_leave(late.group));
    let refused = multicast(late.group, b"x").0;
    fails(refused, covalent_status::COVALENT_STOPPED, "orders");
    let deadline = Instant::now() + PATIENCE;
    while !late.book.left {
        assert!(Instant::now() < deadline, "it did not leave");
        late.turn();
        first.turn();
        rust.turn();
    }
    // Another incarnation of the same program.
    let mut incarnations = [0; 2];
    for incarnation in &mut incarnations {
        // SAFETY: `incarnation` is valid for writes.
        ok(unsafe { covalent_group_incarnation(late.group, incarnation) });
        ok(covalent_group_rejoin(late.group));
    }
    assert_ne!(incarnations[0], incarnations[1]);
    ok(covalent_group_close(late.group));
}

#[test]
fn a_full_group_reports_that_and_names_its_laggard() {
    let mesh = Mesh::start(2);
    let mut first = InC::join(&mesh, 0, &founders(2));
    let mut slow = InC::join(&mesh, 1, &founders(2));
    turn_until(&mut [&mut first, &mut slow], "two found it", |members| {
        members.iter().all(|member| member.members() == 2)
    });
    let deadline = Instant::now() + PATIENCE;
    let mut sent_bytes = 0;
    loop {
        assert!(Instant::now() < deadline, "no bound was met");
        let (status, sequence) = multicast(first.group, &[7; 3000]);
        if status != OK {
            fails(status, covalent_status::COVALENT_FULL, "accepts no message");
            break;
        }
        sent_bytes += 1;
        assert_eq!(sequence, sent_bytes);
        first.turn();
    }
    turn_until(
        &mut [&mut first, &mut slow],
        "all is delivered",
        |members| {
            let all = 3000 * sent_bytes as usize;
            members.iter().all(|member| member.state().len() == all)
        },
    );
    let mut incarnation = 7;
    let deadline = Instant::now() + PATIENCE;
    while incarnation != 0 {
        assert!(Instant::now() < deadline, "it delays no member");
        first.turn();
        slow.turn();
        // SAFETY: `incarnation` is valid for writes.
        ok(unsafe { covalent_group_laggard(first.group, &raw mut incarnation) });
    }
}

/// Mistakes of C programs with groups: each is an error with a text, and none is a memory access.
/// Two members in one thread, each with an event loop's turn: arm, take, and a sleep no longer than
/// the group's clock allows.
#[test]
fn a_group_in_an_event_loop_sleeps_until_its_clock() {
    let mesh = Mesh::start(2);
    let mut members = [0, 1].map(|at| InC::join(&mesh, at, &founders(2)));
    let deadline = Instant::now() + PATIENCE;
    while members.iter().any(|member| member.members() < 2) {
        assert!(Instant::now() < deadline, "two never found it");
        for member in &mut members {
            ok(covalent_device_arm(member.device));
            member.turn();
            let (mut fd, mut wait_ns) = (-1, u64::MAX);
            // SAFETY: both may be written.
            unsafe {
                ok(covalent_device_fd(member.device, &raw mut fd));
                ok(covalent_group_poll_within(member.group, &raw mut wait_ns));
            }
            assert!(wait_ns <= 20_000_000, "{wait_ns}");
            // SAFETY: the device is open.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
            let wait_ms = u16::try_from(wait_ns / 1_000_000).unwrap();
            poll(&mut fds, wait_ms).unwrap();
        }
    }
}

#[test]
fn misuse_of_groups_is_an_error() {
    let mesh = Mesh::start(2);
    let device = attach(&mesh, 0);
    let options = founders(1);
    let mut out = covalent_group { handle: 0 };
    let name = c"orders".as_ptr();
    // SAFETY: null pointers are rejected. All other pointers meet the functions' requirements.
    unsafe {
        let given = &raw const options;
        let status = covalent_group_join(device, ptr::null(), given, &raw mut out);
        fails(status, INVALID, "name is null");
        let status = covalent_group_join(device, name, ptr::null(), &raw mut out);
        fails(status, INVALID, "options is null");
        let status = covalent_group_join(device, name, given, ptr::null_mut());
        fails(status, INVALID, "group is null");
    }
    assert_eq!(out.handle, 0, "nothing was written");
    for (bad, text) in [
        (
            covalent_group_options {
                reserved: 1,
                ..options
            },
            "reserved",
        ),
        (
            covalent_group_options {
                stateless: 2,
                ..options
            },
            "stateless",
        ),
        (
            covalent_group_options {
                founders: 9,
                ..options
            },
            "founders",
        ),
        (
            covalent_group_options {
                members_max: 33,
                ..options
            },
            "2 to 32",
        ),
        (
            covalent_group_options {
                tick_interval_ns: 1,
                ..options
            },
            "1 ms",
        ),
    ] {
        fails(join(device, &bad).0, INVALID, text);
    }
    let (status, group) = join(device, &options);
    ok(status);
    let (status, _) = join(attach(&mesh, 0), &options);
    fails(status, covalent_status::COVALENT_REFUSED, "g.orders");
    // SAFETY: null is checked.
    unsafe {
        fails(
            covalent_group_next(group, 0, ptr::null_mut()),
            INVALID,
            "event is null",
        );
        fails(
            covalent_group_incarnation(group, ptr::null_mut()),
            INVALID,
            "incarnation is null",
        );
        let status = covalent_group_multicast(group, ptr::null(), 3, ptr::null_mut());
        fails(status, INVALID, "data is null");
        let mut count = 0;
        let status =
            covalent_group_read_view(group, ptr::null_mut(), ptr::null_mut(), 3, &raw mut count);
        fails(status, INVALID, "members is null");
        let status = covalent_group_send_snapshot(group, 1, ptr::null(), 0, 2);
        fails(status, INVALID, "last is 2");
        let status = covalent_group_send_snapshot(group, 1, ptr::null(), 0, 1);
        fails(status, covalent_status::COVALENT_STOPPED, "no member waits");
    }
    fails(multicast(group, &[]).0, INVALID, "expected 1 to");
    let long = [0; COVALENT_MULTICAST_BYTES_MAX + 1];
    fails(multicast(group, &long).0, INVALID, "expected 1 to");

    // Another thread's, another kind's, a number out of nowhere.
    thread::spawn(move || {
        fails(multicast(group, b"x").0, INVALID, "another thread");
        fails(covalent_group_close(group), INVALID, "another thread");
    })
    .join()
    .unwrap();
    for handle in [0, 77, device.handle] {
        fails(
            covalent_group_leave(covalent_group { handle }),
            INVALID,
            "no group",
        );
    }
    let as_device = covalent_device {
        handle: group.handle,
    };
    fails(
        covalent_device_check_connection(as_device),
        INVALID,
        "no device",
    );

    // The next event reuses the memory of this event's bytes: copy them first.
    ok(multicast(group, b"one").0);
    ok(multicast(group, b"two").0);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let (status, event) = next(group, SOON_NS);
        ok(status);
        if event.kind == COVALENT_GROUP_DELIVERED {
            seen.push((event.data, bytes(&event).to_vec()));
        }
    }
    assert_eq!(
        seen[0].0, seen[1].0,
        "the memory is the group's and is used again"
    );
    assert_eq!((&seen[0].1[..], &seen[1].1[..]), (&b"one"[..], &b"two"[..]));

    ok(covalent_group_close(group));
    fails(covalent_group_close(group), INVALID, "not open");
    fails(covalent_group_suspect(group, 1), INVALID, "not open");
    fails(covalent_group_rejoin(group), INVALID, "not open");
}

fn contact_of(builder: covalent_group_builder) -> covalent_group_contact {
    let mut contact = covalent_group_contact {
        node_guid: 0,
        incarnation: 0,
        rkey: 0,
        reserved: 9,
    };
    // SAFETY: it may be written.
    ok(unsafe { covalent_group_builder_contact(builder, &raw mut contact) });
    contact
}

fn build(device: covalent_device, name: &CStr) -> covalent_group_builder {
    let mut builder = covalent_group_builder { handle: 0 };
    // SAFETY: the text ends in a zero, the options are some, and `builder` may be written.
    ok(unsafe {
        covalent_group_builder_open(device, name.as_ptr(), &NO_OPTIONS, &raw mut builder)
    });
    builder
}

fn begin(
    builder: covalent_group_builder,
    contacts: &[covalent_group_contact],
) -> (c_int, covalent_group) {
    let mut group = covalent_group { handle: 0 };
    // SAFETY: pointer and length belong to a slice, and `group` may be written.
    let status = unsafe {
        covalent_group_builder_begin(builder, contacts.as_ptr(), contacts.len(), &raw mut group)
    };
    (status, group)
}

#[test]
fn members_that_exchange_contacts_start_together() {
    let mesh = Mesh::start(2);
    let [a, b] = [attach(&mesh, 0), attach(&mesh, 1)];
    let builders = [build(a, c"pair"), build(b, c"pair")];
    let contacts = builders.map(contact_of);
    assert!(contacts[0].node_guid != 0 && contacts[0].reserved == 0);
    let groups = builders.map(|builder| {
        let (status, group) = begin(builder, &contacts);
        ok(status);
        fails(covalent_group_builder_close(builder), INVALID, "not open");
        group
    });
    for (group, contact) in groups.iter().zip(contacts) {
        let (status, event) = next(*group, SOON_NS);
        ok(status);
        assert_eq!((event.kind, event.view), (COVALENT_GROUP_VIEW, 1));
        let mut name = covalent_name {
            text: [1; COVALENT_NAME_ROOM_BYTES],
        };
        let mut standing = covalent_group_standing::COVALENT_STANDING_LEFT;
        let mut incarnation = 0;
        // SAFETY: all of them may be written, and the name ends in a zero.
        unsafe {
            ok(covalent_group_name(*group, &raw mut name));
            assert_eq!(CStr::from_ptr(name.text.as_ptr()), c"pair");
            ok(covalent_group_read_standing(*group, &raw mut standing));
            ok(covalent_group_incarnation(*group, &raw mut incarnation));
        }
        assert_eq!(standing, covalent_group_standing::COVALENT_STANDING_MEMBER);
        assert_eq!(incarnation, contact.incarnation);
        ok(covalent_group_add_seed(*group, contacts[0].node_guid));
        fails(
            covalent_group_add_seed(*group, 0),
            INVALID,
            "node_guid is 0",
        );
    }
    ok(multicast(groups[0], b"both").0);
    let deadline = Instant::now() + PATIENCE;
    let mut delivered = 0;
    while delivered < 2 {
        assert!(Instant::now() < deadline);
        for group in groups {
            let (status, event) = next(group, 0);
            ok(status);
            delivered += u32::from(event.kind == COVALENT_GROUP_DELIVERED);
        }
    }
    // SAFETY: it is made of numbers, and may be written.
    let counters: covalent_group_counters = unsafe {
        let mut counters = sized();
        ok(covalent_group_read_counters(groups[0], &raw mut counters));
        counters
    };
    assert_eq!(
        (counters.multicasts, counters.deliveries, counters.views),
        (1, 1, 1)
    );
    assert_eq!(counters.bad_envelopes, 0);

    // A member that is not among the contacts does not begin, and its builder is gone.
    let stranger = build(a, c"other");
    fails(begin(stranger, &contacts[1..]).0, INVALID, "other");
    fails(covalent_group_builder_close(stranger), INVALID, "not open");
    let unused = build(a, c"other");
    ok(covalent_group_builder_close(unused));
}
