//! Groups: three members on three nodes, each cabled to both others.

use std::{
    fs::File,
    io::Read,
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Contact, Device, Error, Group, GroupBuilder, GroupEvent, GroupOptions, GroupStanding, Guid,
    Incarnation, MULTICAST_BYTES_MAX, Mode, Outcome, Rights, Stop, Target, Timeout, Verb, Verbs,
};
use covalent_protocol::{
    group::{
        BadEnvelope, Members, Token,
        row::{Change, Frontier},
        wire::{Batch, Body, Envelope, Head, KnownContacts, Terms},
    },
    verb::SEND_BYTES_MAX,
};
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    unistd::{Gid, geteuid},
};

use crate::{
    nodes::{PATIENCE, soon},
    triangle::Triangle,
};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Links are given up after a second of silence: a machine that has much to do is no evidence here.
fn triangle() -> Triangle {
    Triangle::start_with("keepalive_misses_max = 200\n")
}

/// Events of a member.
#[derive(Debug, Default)]
struct Log {
    /// Number and members of each view.
    views: Vec<(u64, Vec<Incarnation>)>,
    /// Sender, its number, the bytes.
    delivered: Vec<(Incarnation, u64, Vec<u8>)>,
    stopped: Vec<Stop>,
    left: bool,
}

impl Log {
    fn record(&mut self, event: &GroupEvent<'_>) {
        match *event {
            GroupEvent::View(view) => {
                let incarnations = view
                    .members
                    .iter()
                    .map(|member| member.incarnation)
                    .collect();
                self.views.push((view.number, incarnations));
            }
            GroupEvent::Delivered {
                sender,
                sequence,
                data,
                ..
            } => self
                .delivered
                .push((sender.incarnation, sequence, data.to_vec())),
            GroupEvent::Stopped { why, .. } => self.stopped.push(why),
            GroupEvent::Left => self.left = true,
            _ => {}
        }
    }

    fn members(&self) -> usize {
        self.views
            .last()
            .map_or(0, |(_, incarnations)| incarnations.len())
    }
}

/// One member, driven by the test's only thread.
struct Member<'d> {
    verbs: Verbs<'d>,
    group: Group<'d>,
    log: Log,
}

impl Member<'_> {
    fn turn(&mut self) {
        while let Some(event) = self.group.try_next().unwrap() {
            self.log.record(&event);
        }
    }
}

fn begin<'d>(devices: &'d [Device; 3], name: &str) -> Vec<Member<'d>> {
    let builders = devices.each_ref().map(|device| builder(device, name));
    let contacts = builders.each_ref().map(GroupBuilder::contact);
    let members = builders.into_iter().zip(devices);
    members
        .map(|(builder, device)| member(builder, device, &contacts))
        .collect()
}

fn builder<'d>(device: &'d Device, name: &str) -> GroupBuilder<'d> {
    device.group_builder(name, GroupOptions::new()).unwrap()
}

fn member<'d>(builder: GroupBuilder<'d>, device: &'d Device, contacts: &[Contact]) -> Member<'d> {
    Member {
        verbs: device.verbs().unwrap(),
        group: builder.begin(contacts).unwrap(),
        log: Log::default(),
    }
}

/// Drives all members in turn until `enough` returns true.
fn turn_until(members: &mut [Member<'_>], what: &str, enough: impl Fn(&[Member<'_>]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !enough(members) {
        if Instant::now() >= deadline {
            let logs: Vec<_> = members
                .iter()
                .map(|member| {
                    let log = &member.log;
                    (
                        member.group.standing(),
                        &log.views,
                        log.delivered.len(),
                        &log.stopped,
                    )
                })
                .collect();
            panic!("waited too long until {what}: {logs:?}");
        }
        members.iter_mut().for_each(Member::turn);
        thread::yield_now();
    }
}

/// The message of that number: of each length there is, in its turn.
fn message(sender: usize, number: usize) -> Vec<u8> {
    let len = [1, 64, 499, MULTICAST_BYTES_MAX][number % 4];
    let mut bytes = vec![(16 * sender + number) as u8; len];
    bytes[0] = sender as u8;
    bytes
}

/// Each member on a thread of its own, which sleeps while there is nothing to do.
#[test]
fn all_members_deliver_everything_once_and_in_one_order() {
    const EACH: usize = 400;
    let triangle = triangle();
    let contacts = Mutex::new(Vec::new());
    let reported = Barrier::new(3);
    let done = AtomicUsize::new(0);
    let run = |at: usize| {
        let device = triangle.attach(NAMES[at]);
        let builder = device.group_builder("orders", GroupOptions::new()).unwrap();
        contacts.lock().unwrap().push(builder.contact());
        reported.wait();
        let all = contacts.lock().unwrap().clone();
        let mut group = builder.begin(&all).unwrap();
        let mut log = Log::default();
        let mut sent = 0;
        while log.delivered.len() < 3 * EACH {
            while sent < EACH {
                match group.multicast(&message(at, sent)) {
                    Ok(number) => {
                        sent += 1;
                        assert_eq!(number, sent as u64);
                    }
                    Err(Error::GroupFull { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            log.record(&group.next(soon()).unwrap());
        }
        // The others may lack a row of this one still.
        done.fetch_add(1, Ordering::SeqCst);
        while done.load(Ordering::SeqCst) < 3 {
            let all_done = || Ok(done.load(Ordering::SeqCst) == 3);
            let event = group.next_unless(soon(), all_done);
            if let Some(event) = event.unwrap() {
                log.record(&event);
            }
        }
        log
    };
    let run = &run;
    let logs: Vec<Log> = thread::scope(|scope| {
        let members: Vec<_> = (0..3).map(|at| scope.spawn(move || run(at))).collect();
        members
            .into_iter()
            .map(|member| member.join().unwrap())
            .collect()
    });
    for log in &logs {
        assert_eq!(log.delivered, logs[0].delivered);
        assert_eq!(log.views.len(), 1);
    }
    for sender in 0..3 {
        let of_sender = logs[0]
            .delivered
            .iter()
            .filter(|(_, _, data)| usize::from(data[0]) == sender);
        let mut count = 0;
        for (number, (_, sequence, data)) in of_sender.enumerate() {
            assert_eq!(*sequence, number as u64 + 1);
            assert!(*data == message(sender, number), "as it was sent");
            count += 1;
        }
        assert_eq!(count, EACH);
    }
}

/// A member whose application takes nothing blocks the others: they get the error that there is no
/// room, and nothing is lost.
#[test]
fn a_member_that_stands_still_holds_the_others_up_and_loses_nothing() {
    let triangle = triangle();
    let devices = NAMES.map(|name| triangle.attach(name));
    let mut members = begin(&devices, "orders");
    let mut sent = 0;
    let deadline = soon();
    loop {
        assert!(Instant::now() < deadline, "no bound was met");
        match members[0].group.multicast(&message(0, sent)) {
            Ok(_) => sent += 1,
            Err(Error::GroupFull { group }) => {
                assert_eq!(group, "orders");
                break;
            }
            Err(error) => panic!("{error}"),
        }
        members[..2].iter_mut().for_each(Member::turn);
    }
    for member in &members[..2] {
        assert_eq!(member.log.delivered.len(), 0, "not all have it");
        assert_eq!(member.group.standing(), GroupStanding::Member);
    }
    turn_until(&mut members, "everything is delivered", |members| {
        members
            .iter()
            .all(|member| member.log.delivered.len() == sent)
    });
}

/// The application's own verbs go through another queue of the device. Application and group each
/// receive their own completions.
#[test]
fn a_group_and_its_application_have_queues_of_their_own() {
    const EACH: u64 = 300;
    let triangle = triangle();
    let devices = NAMES.map(|name| triangle.attach(name));
    let region = devices[1].register_region("bank", 64, Rights::ALL).unwrap();
    let mut members = begin(&devices, "orders");
    let bank = members[0]
        .verbs
        .open_region(Target::Name("b"), "bank", Timeout::FOREVER)
        .unwrap();
    let add = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    let mut completions = vec![Default::default(); 8];
    let mut seen = Vec::new();
    for number in 0..EACH {
        members[0].group.multicast(&number.to_le_bytes()).unwrap();
        let first = &mut members[0];
        first
            .verbs
            .post(&bank, add, Mode::TwoPhase, number)
            .unwrap();
        assert_eq!(first.verbs.outstanding(), 1);
        first.turn();
        members[1..].iter_mut().for_each(Member::turn);
        while seen.len() as u64 <= number {
            let taken = members[0].verbs.poll(&mut completions, soon()).unwrap();
            for completion in &completions[..taken] {
                match completion.outcome {
                    Outcome::Old(_) => seen.push(completion.user_data),
                    // A link may fail on a machine that stalls for a while. The final completion
                    // follows.
                    Outcome::InDoubt(_) => {}
                    _ => panic!("{completion:?}"),
                }
            }
        }
        assert_eq!(seen.len() as u64, number + 1);
    }
    assert_eq!(members[0].verbs.outstanding(), 0);
    assert_eq!(region.load(0).unwrap(), EACH);
    turn_until(&mut members, "everything is delivered", |members| {
        members
            .iter()
            .all(|member| member.log.delivered.len() as u64 == EACH)
    });
}

fn multicast(member: &mut Member<'_>, data: &[u8]) {
    member.group.multicast(data).unwrap();
}

fn assert_same(members: &[Member<'_>]) {
    for member in members {
        assert_eq!(member.log.delivered, members[0].log.delivered);
        assert_eq!(member.log.views, members[0].log.views);
        assert!(member.log.stopped.is_empty(), "{:?}", member.log.stopped);
    }
}

/// In an idle group and in a busy one: the next envelope finds no queue.
#[test]
fn an_application_that_ends_is_left_out_and_the_others_go_on() {
    for busy in [false, true] {
        let triangle = triangle();
        let devices = [triangle.attach("a"), triangle.attach("b")];
        let last = triangle.attach("c");
        let its_builder = builder(&last, "orders");
        let builders = devices.each_ref().map(|device| builder(device, "orders"));
        let contacts = [
            its_builder.contact(),
            builders[0].contact(),
            builders[1].contact(),
        ];
        let mut members: Vec<_> = builders
            .into_iter()
            .zip(&devices)
            .map(|(builder, device)| member(builder, device, &contacts))
            .collect();
        let mut other = member(its_builder, &last, &contacts);
        if busy {
            for number in 0..50 {
                multicast(&mut members[0], &message(0, number));
                multicast(&mut other, &message(2, number));
            }
        }
        members.iter_mut().for_each(Member::turn);
        other.turn();
        drop(other);
        drop(last);
        turn_until(&mut members, "the third is left out", |members| {
            members.iter().all(|member| member.log.members() == 2)
        });
        multicast(&mut members[1], b"after");
        // Earlier messages of the first member are delivered too, before or after this one.
        let own = members[0].group.incarnation();
        let before = if busy { 50 } else { 0 };
        turn_until(&mut members, "they go on", |members| {
            let has_all = |member: &Member<'_>| {
                let delivered = &member.log.delivered;
                delivered.iter().any(|(.., data)| data == b"after")
                    && delivered
                        .iter()
                        .filter(|(incarnation, ..)| *incarnation == own)
                        .count()
                        == before
            };
            members.iter().all(has_all)
        });
        assert_same(&members);
    }
}

#[test]
fn a_leaving_member_gets_left_after_its_messages_are_delivered() {
    let triangle = triangle();
    let devices = NAMES.map(|name| triangle.attach(name));
    let mut members = begin(&devices, "orders");
    for number in 0..20 {
        multicast(&mut members[1], &message(1, number));
    }
    members[1].group.leave();
    assert!(matches!(
        members[1].group.multicast(b"x"),
        Err(Error::GroupStopped { .. })
    ));
    turn_until(&mut members, "it left", |members| {
        members[1].log.left && members[0].log.members() == 2 && members[2].log.members() == 2
    });
    assert_eq!(members[1].group.standing(), GroupStanding::Left);
    for member in &members {
        assert_eq!(member.log.delivered.len(), 20);
    }
}

#[test]
fn a_node_that_dies_is_left_out() {
    let mut triangle = triangle();
    let devices = NAMES.map(|name| triangle.attach(name));
    let mut members = begin(&devices, "orders");
    multicast(&mut members[2], b"before");
    turn_until(&mut members, "all have it", |members| {
        members.iter().all(|member| member.log.delivered.len() == 1)
    });
    triangle.stop("c");
    let mut dead = members.pop().unwrap();
    turn_until(&mut members, "it is left out", |members| {
        members.iter().all(|member| member.log.members() == 2)
    });
    assert_same(&members);
    let deadline = soon();
    let error = loop {
        assert!(Instant::now() < deadline, "it was not notified");
        if let Err(error) = dead.group.try_next() {
            break error;
        }
    };
    assert!(matches!(error, Error::DaemonGone { .. }), "{error}");
}

/// Both cables of c are pulled: c stops and reports it, and the others continue. After they are
/// plugged again, c learns that it was excluded.
#[test]
fn a_member_that_is_cut_off_stops_and_the_others_continue() {
    let triangle = triangle();
    let devices = NAMES.map(|name| triangle.attach(name));
    let mut members = begin(&devices, "orders");
    multicast(&mut members[0], b"before");
    turn_until(&mut members, "all have it", |members| {
        members.iter().all(|member| member.log.delivered.len() == 1)
    });
    for cable in ["ac", "cb"] {
        triangle.set_port("c", cable, false);
    }
    let gone = members[2].group.incarnation();
    let own_voice = members[2].log.views[0]
        .1
        .iter()
        .position(|incarnation| *incarnation == gone)
        .unwrap();
    multicast(&mut members[2], b"alone");
    turn_until(&mut members, "it stopped, and they went on", |members| {
        members[2].log.stopped.iter().any(|why| {
            matches!(
                why,
                Stop::Minority { reached, .. } if reached.len() == 1 && reached.contains(own_voice),
            )
        }) && members[..2].iter().all(|member| member.log.members() == 2)
    });
    multicast(&mut members[1], b"after");
    turn_until(&mut members, "they have it", |members| {
        members[..2]
            .iter()
            .all(|member| member.log.delivered.len() == 2)
    });
    assert_same(&members[..2]);
    assert_eq!(
        members[2].log.delivered.len(),
        1,
        "nothing was delivered alone"
    );
    for cable in ["ac", "cb"] {
        triangle.set_port("c", cable, true);
    }
    turn_until(&mut members, "it knows that it was left out", |members| {
        members[2].log.stopped.contains(&Stop::Excluded)
    });
    assert_eq!(members[2].group.standing(), GroupStanding::Stopped);
    assert_eq!(members[2].log.delivered.len(), 1);
}

/// Any application on the nodes may send to the queues: garbage, and replayed envelopes.
#[test]
fn garbage_in_the_queues_does_no_harm() {
    let triangle = triangle();
    let devices = NAMES.map(|name| triangle.attach(name));
    let mut members = begin(&devices, "orders");
    let stranger = triangle.attach("b");
    let mut verbs = stranger.verbs().unwrap();
    let queue = verbs
        .open_region(Target::Name("a"), "g.orders", Timeout::FOREVER)
        .unwrap();
    let mut accepted = 0;
    for number in 0..200_u64 {
        let len = 1 + (number * 37 % 4000) as usize;
        let mut garbage: Vec<u8> = (0..len as u64)
            .map(|at| (at * number + (at >> 3)) as u8)
            .collect();
        if number % 2 == 0 {
            // It begins as an envelope does.
            garbage[0] = 2;
            if let Some(kind) = garbage.get_mut(1) {
                *kind = (number / 2 % 8) as u8;
            }
        }
        // A full queue refuses non-members and still has room for members.
        accepted += u64::from(verbs.send(&queue, &garbage, Timeout::FOREVER).is_ok());
        multicast(&mut members[number as usize % 3], &number.to_le_bytes());
        members.iter_mut().for_each(Member::turn);
    }
    turn_until(&mut members, "everything is delivered", |members| {
        members
            .iter()
            .all(|member| member.log.delivered.len() == 200)
    });
    assert_same(&members);
    assert!(accepted > 0);
    let counters = members[0].group.counters();
    assert_eq!(counters.bad_envelopes.iter().sum::<u64>(), accepted);
}

/// Where the role below finds its daemon.
const SOCKET: &str = "COVALENT_TEST_SOCKET";
/// Rounds in which it forges an envelope of each kind for each other member.
const FORGERIES: u32 = 40;

/// Not a test: a process of another user on a member's node. It sends envelopes in that member's
/// name.
#[test]
#[ignore = "the process of a test"]
fn stranger() {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return;
    };
    let device = Device::attach(PathBuf::from(socket), "stranger").unwrap();
    let mut verbs = device.verbs().unwrap();
    let reported = device.status().unwrap().groups.remove(0);
    let own = verbs
        .open_region(Target::Local, "g.orders", Timeout::FOREVER)
        .unwrap();
    let rank = reported
        .members
        .iter()
        .position(|&node| node == device.address());
    let as_member = Head {
        from: Some(rank.unwrap() as u8),
        number: None,
        group: reported.id.0,
        view: reported.view,
        incarnation: Incarnation(reported.stay.0),
        rkey: own.rkey(),
        token: Token::NONE,
        grant: Token(7),
        taken: 0,
        members: reported.members.len() as u8,
        decided: false,
        frontier: Frontier::default(),
    };
    let queues: Vec<_> = ["a", "c"]
        .map(|node| {
            verbs
                .open_region(Target::Name(node), "g.orders", Timeout::FOREVER)
                .unwrap()
        })
        .into();
    let mut accepted = 0;
    for round in 0..FORGERIES {
        for queue in &queues {
            for envelope in forgeries(&as_member, device.address(), round) {
                // A full queue refuses. Challenges are accepted from any sender.
                let is_challenge = envelope[1] == 7;
                accepted += u64::from(
                    verbs.send(queue, &envelope, Timeout::FOREVER).is_ok() && !is_challenge,
                );
            }
        }
    }
    eprintln!("forged {accepted}");
}

/// One envelope of each harmful kind, with the number that comes next if it is in an order.
fn forgeries(as_member: &Head, node: Guid, round: u32) -> Vec<Vec<u8>> {
    let stranger = Head {
        from: None,
        members: 0,
        token: Token(u64::from(round)),
        ..*as_member
    };
    let ordered = Head {
        number: Some(round / 4 + 1),
        token: Token(u64::from(round)),
        ..*as_member
    };
    let contact = Contact {
        guid: node.bits(),
        incarnation: as_member.incarnation,
        rkey: as_member.rkey,
    };
    let known = |group, members, excluded| {
        let head = Head { group, ..stranger };
        let contacts = [(contact, Terms::default())];
        let contacts = KnownContacts::new(&contacts);
        encoded(
            head,
            Body::Known {
                members,
                excluded,
                contacts,
            },
        )
    };
    let batch = Head {
        frontier: Frontier {
            rounds: 1,
            ..Frontier::default()
        },
        ..ordered
    };
    vec![
        encoded(batch, Body::Flow(Batch::new(&[1, 0, 0x66]).unwrap())),
        known(stranger.group, 0, true),
        known(stranger.group + 1, 1, false),
        encoded(
            Head {
                group: stranger.group + 1,
                ..stranger
            },
            Body::Hello {
                contact,
                terms: Terms::default(),
                former: Incarnation(0),
                founders: 3,
            },
        ),
        encoded(stranger, Body::Challenge),
        encoded(
            ordered,
            Body::Change {
                change: Change {
                    attempt: 9,
                    ..Change::default()
                },
                known: Members::NONE,
                claims: [Members::NONE; 32],
            },
        ),
    ]
}

fn encoded(head: Head, body: Body<'_>) -> Vec<u8> {
    let mut buffer = [0; SEND_BYTES_MAX];
    let len = Envelope { head, body }.encode(&mut buffer);
    buffer[..len].to_vec()
}

/// Starts this program again, as a user without rights if this process is root. It is run by a
/// descriptor, because that user may not reach the directory where it was built.
fn start_stranger(socket: PathBuf, group: Option<&nix::unistd::Group>) -> Child {
    let program = File::open(std::env::current_exe().unwrap()).unwrap();
    fcntl(&program, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    if let Some(group) = group {
        command.uid(group.gid.as_raw()).gid(group.gid.as_raw());
    }
    command
        .args(["--exact", "groups::stranger", "--ignored", "--nocapture"])
        .env(SOCKET, socket)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The process has all published data. Everything that it sends in the member's name is dropped and
/// counted.
#[test]
fn a_strangers_process_on_a_members_node_cannot_forge_envelopes() {
    let is_root = geteuid().is_root();
    let unprivileged = is_root.then(|| nix::unistd::Group::from_gid(Gid::from_raw(65_534)));
    let unprivileged = unprivileged.and_then(|group| group.ok().flatten());
    let group = unprivileged.as_ref().map_or("", |group| &group.name);
    let triangle = Triangle::start_for(group, "keepalive_misses_max = 200\n");
    let devices = NAMES.map(|name| triangle.attach(name));
    let mut members = begin(&devices, "orders");
    multicast(&mut members[0], b"before");
    turn_until(&mut members, "all have it", |members| {
        members.iter().all(|member| member.log.delivered.len() == 1)
    });
    turn_until(&mut members, "the node reports its member", |_| {
        devices[1].status().unwrap().groups[0].view == 1
    });
    let mut process = start_stranger(triangle.socket("b"), unprivileged.as_ref());
    let mut sent = 0;
    let status = loop {
        if sent < 100 {
            multicast(&mut members[sent % 3], &sent.to_le_bytes());
            sent += 1;
        }
        members.iter_mut().for_each(Member::turn);
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
    };
    let mut reported = String::new();
    let mut errors = process.stderr.take().unwrap();
    errors.read_to_string(&mut reported).unwrap();
    assert!(status.success(), "{reported}");
    let forged: u64 = reported
        .lines()
        .find_map(|line| line.split_once("forged ")?.1.parse().ok())
        .unwrap_or_else(|| panic!("{reported}"));
    turn_until(&mut members, "everything is delivered", |members| {
        (members.iter()).all(|member| member.log.delivered.len() == sent + 1)
    });
    let unproven =
        |member: &Member<'_>| member.group.counters().bad_envelopes[BadEnvelope::Unproven.index()];
    assert!(forged > 0);
    turn_until(&mut members, "all that is forged is counted", |members| {
        unproven(&members[0]) + unproven(&members[2]) == forged
    });
    assert_eq!(unproven(&members[1]), 0);
    assert_same(&members);
    for member in &members {
        assert_eq!(member.log.views.len(), 1, "no member was removed");
        assert_eq!(member.log.stopped, []);
        assert_eq!(member.group.standing(), GroupStanding::Member);
    }
}

#[test]
fn impossible_groups_are_refused_with_the_cure() {
    let triangle = triangle();
    let device = triangle.attach("a");
    let other = triangle.attach("a");
    for name in ["", "no spaces", &"x".repeat(31)] {
        let error = device.group_builder(name, GroupOptions::new()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    let builder = device.group_builder("orders", GroupOptions::new()).unwrap();
    let taken = other
        .group_builder("orders", GroupOptions::new())
        .unwrap_err();
    assert!(taken.to_string().contains("g.orders"), "{taken}");
    let contact = builder.contact();
    assert_eq!(contact.guid, device.address().bits());
    let mut group = builder.begin(&[contact]).unwrap();
    for bad in [0, MULTICAST_BYTES_MAX + 1] {
        let error = group.multicast(&vec![0; bad]).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    // A single member needs no other.
    group.multicast(b"x").unwrap();
    let mut log = Log::default();
    while log.delivered.is_empty() {
        log.record(&group.next(soon()).unwrap());
    }
    assert_eq!(log.members(), 1);
    let soon_over = Instant::now() + Duration::from_millis(30);
    loop {
        match group.next(soon_over) {
            Ok(event) => log.record(&event),
            Err(error) => {
                assert!(matches!(error, Error::Deadline { .. }), "{error}");
                break;
            }
        }
    }
}

/// Status of the group on each node, as published by its member: standing, view and the nodes of
/// its members.
fn reported(devices: &[Device; 3]) -> Vec<Vec<(String, u64, Vec<Guid>)>> {
    devices
        .iter()
        .map(|device| {
            let groups = device.status().unwrap().groups;
            let stays = groups.into_iter().inspect(|stay| {
                assert_eq!(stay.group, "orders");
                assert_eq!(stay.session, device.session());
            });
            stays
                .map(|stay| (stay.standing, stay.view, stay.members))
                .collect()
        })
        .collect()
}

#[test]
fn a_node_reports_the_views_of_its_current_members() {
    let triangle = triangle();
    let devices = NAMES.map(|name| triangle.attach(name));
    assert_eq!(reported(&devices), [[], [], []]);
    let mut members = begin(&devices, "orders");
    members[1].group.multicast(b"counted").unwrap();
    turn_until(&mut members, "all have delivered", |members| {
        members.iter().all(|member| member.log.delivered.len() == 1)
    });
    let mut nodes = devices.each_ref().map(Device::address);
    nodes.sort_unstable();
    let in_view = |view, nodes: &[Guid]| vec![("member".to_owned(), view, nodes.to_vec())];
    turn_until(&mut members, "all report the first view", |_| {
        reported(&devices) == vec![in_view(1, &nodes); 3]
    });
    turn_until(&mut members, "the deliveries are reported", |_| {
        devices.iter().enumerate().all(|(at, device)| {
            let stay = device.status().unwrap().groups.remove(0);
            (stay.multicasts, stay.deliveries) == (u64::from(at == 1), 1)
        })
    });
    drop(members.pop());
    assert_eq!(reported(&devices)[2], [], "its membership has ended");
    let rest: Vec<Guid> = (nodes.iter().copied())
        .filter(|&node| node != devices[2].address())
        .collect();
    turn_until(&mut members, "both report the next view", |_| {
        reported(&devices) == [in_view(2, &rest), in_view(2, &rest), vec![]]
    });
    drop(members);
    assert_eq!(reported(&devices), [[], [], []]);
}
