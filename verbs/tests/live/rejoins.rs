//! Incarnations of group members: founding, joining with the application's state, leaving,
//! exclusion and rejoining.

use std::{thread, time::Instant};

use covalent::{
    Device, Error, Group, GroupEvent, GroupOptions, GroupStanding, Incarnation, STATE_BYTES_MAX,
    Stop,
};

use crate::{
    mesh::Mesh,
    nodes::{PATIENCE, eventually},
};

/// Events of a member, and the state that it builds from them: the concatenation of all messages.
#[derive(Debug, Default)]
struct Log {
    state: Vec<u8>,
    /// Pieces of state received.
    pieces: usize,
    /// States being given: the recipient, the bytes, and the number of bytes given so far.
    giving: Vec<(Incarnation, Vec<u8>, usize)>,
    views: Vec<(u64, Vec<Incarnation>)>,
    /// Position after the last delivered message, and the stable position, in the last view.
    behind: u64,
    stable: u64,
    stopped: Vec<Stop>,
    outcome: Option<u64>,
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
                (self.behind, self.stable) = (0, 0);
            }
            GroupEvent::Delivered { data, position, .. } => {
                self.state.extend_from_slice(data);
                self.behind = position + 1;
            }
            GroupEvent::Stable { position, .. } => self.stable = position,
            GroupEvent::StateWanted { to } => {
                self.giving
                    .retain(|(incarnation, ..)| *incarnation != to.incarnation);
                self.giving.push((to.incarnation, self.state.clone(), 0));
            }
            GroupEvent::State { data, .. } => {
                self.state.extend_from_slice(data);
                self.pieces += 1;
            }
            GroupEvent::StateVoid => self.state.clear(),
            GroupEvent::Stopped { why, .. } => self.stopped.push(why),
            GroupEvent::Outcome { delivered_to } => self.outcome = Some(delivered_to),
            GroupEvent::Left => self.left = true,
        }
    }

    fn members(&self) -> usize {
        self.views
            .last()
            .map_or(0, |(_, incarnations)| incarnations.len())
    }
}

struct Member<'d> {
    group: Option<Group<'d>>,
    log: Log,
}

impl<'d> Member<'d> {
    fn new(device: &'d Device, options: GroupOptions) -> Self {
        Self {
            group: Some(device.group("orders", options).unwrap()),
            log: Log::default(),
        }
    }

    fn turn(&mut self) {
        let Some(group) = &mut self.group else { return };
        while let Some(event) = group.try_next().unwrap() {
            self.log.record(&event);
        }
        self.log.giving.retain_mut(|(to, state, sent)| {
            loop {
                let end = state.len().min(*sent + STATE_BYTES_MAX);
                let last = end == state.len();
                match group.send_snapshot(*to, &state[*sent..end], last) {
                    Ok(()) => *sent = end,
                    Err(Error::GroupFull { .. }) => return true,
                    Err(Error::StateUnwanted { .. }) => return false,
                    Err(error) => panic!("{error}"),
                }
                if last {
                    return false;
                }
            }
        });
    }

    fn multicast(&mut self, data: &[u8]) {
        self.group.as_mut().unwrap().multicast(data).unwrap();
    }

    fn incarnation(&self) -> Incarnation {
        self.group.as_ref().unwrap().incarnation()
    }

    fn standing(&self) -> GroupStanding {
        self.group.as_ref().unwrap().standing()
    }

    fn rejoin(&mut self) {
        self.group = Some(self.group.take().unwrap().rejoin().unwrap());
        self.log = Log::default();
    }
}

/// Drives all members in turn until `enough` returns true.
fn turn_until(members: &mut [Member<'_>], what: &str, enough: impl Fn(&[Member<'_>]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !enough(members) {
        assert!(
            Instant::now() < deadline,
            "waited too long until {what}: {:?}",
            members
                .iter()
                .map(|member| (
                    member.group.as_ref().map(Group::standing),
                    &member.log.views,
                    member.log.state.len(),
                    &member.log.stopped
                ))
                .collect::<Vec<_>>()
        );
        members.iter_mut().for_each(Member::turn);
        thread::yield_now();
    }
}

/// All are in one view of so many, and have so many bytes of state.
fn settle(members: &mut [Member<'_>], count: usize, bytes: usize) {
    turn_until(members, "all are in and have the state", |members| {
        members.iter().all(|member| {
            member.log.members() == count
                && member.log.views.last() == members[0].log.views.last()
                && member.log.state.len() == bytes
        })
    });
    for member in members.iter() {
        assert_eq!(member.log.state, members[0].log.state);
    }
}

fn attach(mesh: &Mesh, count: usize) -> Vec<Device> {
    (0..count).map(|at| mesh.attach(at)).collect()
}

/// Three found the group, however late the third comes.
fn found<'d>(devices: &'d [Device]) -> Vec<Member<'d>> {
    let options = GroupOptions::new().founders(3);
    let (early, late) = devices[..3].split_at(2);
    let mut members: Vec<_> = early
        .iter()
        .map(|device| Member::new(device, options))
        .collect();
    for _ in 0..200 {
        members.iter_mut().for_each(Member::turn);
    }
    for member in &members {
        assert_eq!(member.standing(), GroupStanding::Searching);
    }
    members.push(Member::new(&late[0], options));
    settle(&mut members, 3, 0);
    assert_eq!(members[0].log.views.len(), 1);
    members
}

#[test]
fn three_found_a_group_and_a_fourth_joins_it_with_its_state() {
    let mesh = Mesh::start(4);
    let devices = attach(&mesh, 4);
    let mut members = found(&devices);
    let mut bytes = 0;
    for number in 0..60_usize {
        let message = vec![number as u8; 1000];
        members[number % 3].multicast(&message);
        bytes += message.len();
    }
    settle(&mut members, 3, bytes);
    turn_until(&mut members, "all know that all took it", |members| {
        let stable = |member: &Member<'_>| member.log.stable >= member.log.behind;
        members.iter().all(stable)
    });
    // This member gives no number of founders, so it waits for a group. Messages multicast
    // meanwhile follow the state.
    members.push(Member::new(&devices[3], GroupOptions::new()));
    for number in 0..40 {
        let message = [number; 300];
        members[usize::from(number) % 4].multicast(&message);
        bytes += message.len();
        members.iter_mut().for_each(Member::turn);
    }
    settle(&mut members, 4, bytes);
    assert!(members[3].log.pieces > 60_000 / STATE_BYTES_MAX);
    // It votes now: of four it takes two and the oldest, so the others may go but for one.
    turn_until(&mut members, "it votes", |members| {
        let view = members[3].group.as_ref().unwrap().view().unwrap();
        view.voters.len() == 4
    });
    let gone = members.split_off(2).remove(0);
    drop(gone);
}

#[test]
fn a_member_that_left_may_rejoin_from_the_same_device() {
    let mesh = Mesh::start(3);
    let devices = attach(&mesh, 3);
    let mut members = found(&devices);
    members[1].multicast(b"before");
    members[1].group.as_mut().unwrap().leave();
    turn_until(&mut members, "it left", |members| {
        members[1].log.left && members[0].log.members() == 2 && members[2].log.members() == 2
    });
    assert_eq!(members[1].log.state, b"before");
    let status = devices[1].status().unwrap();
    assert!(
        !status
            .regions
            .iter()
            .any(|region| region.name == "g.orders"),
        "its queue is given up"
    );
    members[0].multicast(b" after");
    let former = members[1].incarnation();
    members[1].rejoin();
    assert_ne!(members[1].incarnation(), former);
    settle(&mut members, 3, 12);
    assert_eq!(members[1].log.state, b"before after");
    assert_eq!(
        members[1].log.outcome,
        Some(1),
        "all its messages were delivered"
    );
}

#[test]
fn a_dropped_member_is_excluded_although_its_device_lives() {
    let mesh = Mesh::start(3);
    let devices = attach(&mesh, 3);
    let mut members = found(&devices);
    members[2].group = None;
    turn_until(&mut members[..2], "it is left out", |members| {
        members.iter().all(|member| member.log.members() == 2)
    });
    members[0].multicast(b"x");
    settle(&mut members[..2], 2, 1);
}

/// Both cables of the third member are pulled: it stops and reports it, and the others continue.
/// After they are plugged again, it learns that it was excluded. It rejoins, and receives the state
/// and the outcome of its messages.
#[test]
fn a_member_that_was_cut_off_rejoins_and_learns_its_messages_outcome() {
    let mesh = Mesh::start(3);
    let devices = attach(&mesh, 3);
    let mut members = found(&devices);
    for _ in 0..3 {
        members[2].multicast(b"c");
    }
    settle(&mut members, 3, 3);
    mesh.set_cables(&[2], &[0, 1], false);
    for _ in 0..4 {
        members[2].multicast(b"lost");
    }
    turn_until(&mut members, "it stopped, and they went on", |members| {
        let minority = |why: &Stop| matches!(why, Stop::Minority { .. });
        members[2].log.stopped.iter().any(minority)
            && members[..2].iter().all(|member| member.log.members() == 2)
    });
    members[0].multicast(b"a");
    members[1].multicast(b"b");
    settle(&mut members[..2], 2, 5);
    assert_eq!(members[2].log.state, b"ccc", "nothing is delivered alone");
    mesh.set_cables(&[2], &[0, 1], true);
    turn_until(&mut members, "it knows that it was left out", |members| {
        members[2].log.stopped.contains(&Stop::Excluded)
    });
    let stopped = members[2].group.as_mut().unwrap().multicast(b"x");
    assert!(matches!(stopped, Err(Error::GroupStopped { .. })));
    members[2].rejoin();
    settle(&mut members, 3, 5);
    assert_eq!(
        members[2].log.outcome,
        Some(3),
        "three of seven were delivered"
    );
    members[2].multicast(b"!");
    settle(&mut members, 3, 6);
}

/// Two and two: the half with the oldest member continues. The other half stops and rejoins.
#[test]
fn the_half_with_the_oldest_member_continues() {
    let mesh = Mesh::start(4);
    let devices = attach(&mesh, 4);
    let mut members = found(&devices);
    members.push(Member::new(&devices[3], GroupOptions::new()));
    settle(&mut members, 4, 0);
    turn_until(&mut members, "all vote", |members| {
        let voters = |member: &Member<'_>| {
            let view = member.group.as_ref().unwrap().view();
            view.is_some_and(|view| view.voters.len() == 4)
        };
        members.iter().all(voters)
    });
    let incarnations = members[0].log.views.last().unwrap().1.clone();
    let oldest = members
        .iter()
        .position(|m| m.incarnation() == incarnations[0])
        .unwrap();
    // The oldest is kept with one other.
    members.swap(0, oldest);
    let at: Vec<usize> = members
        .iter()
        .map(|member| node_of(&devices, member))
        .collect();
    mesh.set_cables(&at[..2], &at[2..], false);
    turn_until(
        &mut members,
        "one half went on, the other stopped",
        |members| {
            let stopped = |member: &Member<'_>| member.standing() == GroupStanding::Minority;
            members[..2].iter().all(|member| member.log.members() == 2)
                && members[2..].iter().all(stopped)
        },
    );
    members[1].multicast(b"only here");
    settle(&mut members[..2], 2, 9);
    for member in &members[2..] {
        assert_eq!(member.log.members(), 4, "no view of its own");
        assert!(member.log.state.is_empty());
    }
    mesh.set_cables(&at[..2], &at[2..], true);
    turn_until(
        &mut members,
        "they know that they were left out",
        |members| {
            let is_excluded = |member: &Member<'_>| member.log.stopped.contains(&Stop::Excluded);
            members[2..].iter().all(is_excluded)
        },
    );
    members[2].rejoin();
    members[3].rejoin();
    settle(&mut members, 4, 9);
}

fn node_of(devices: &[Device], member: &Member<'_>) -> usize {
    let view = member.group.as_ref().unwrap().view().unwrap();
    let own = view
        .members
        .iter()
        .find(|one| one.incarnation == member.incarnation());
    let guid = own.unwrap().guid;
    devices
        .iter()
        .position(|device| device.address().bits() == guid)
        .unwrap()
}

/// A daemon that ends takes its member with it; started again, that joins anew.
#[test]
fn a_node_that_dies_is_left_out_of_a_founded_group() {
    let mut mesh = Mesh::start(3);
    let devices = attach(&mesh, 3);
    let mut members = found(&devices);
    mesh.stop(2);
    let mut dead = members.pop().unwrap();
    turn_until(&mut members, "it is left out", |members| {
        members.iter().all(|member| member.log.members() == 2)
    });
    eventually("it was reported", || {
        let group = dead.group.as_mut().unwrap();
        matches!(group.try_next(), Err(Error::DaemonGone { .. }))
    });
}

/// A group of one: a sole founder needs no other member. A second application of the node is
/// refused.
#[test]
fn one_member_founds_alone_and_a_node_has_one_member() {
    let mesh = Mesh::start(2);
    let devices = [mesh.attach(0), mesh.attach(0), mesh.attach(1)];
    let alone = GroupOptions::new().founders(1);
    let mut members = vec![Member::new(&devices[0], alone)];
    settle(&mut members, 1, 0);
    members[0].multicast(b"x");
    settle(&mut members, 1, 1);
    let error = devices[1].group("orders", alone).unwrap_err();
    assert!(error.to_string().contains("g.orders"), "{error}");
    members.push(Member::new(&devices[2], GroupOptions::new()));
    settle(&mut members, 2, 1);
    let error = devices[1]
        .group("bills", GroupOptions::new().founders(9))
        .unwrap_err();
    assert!(error.to_string().contains("founders"), "{error}");
}

/// Members that have no state to give: a joining member votes at once.
#[test]
fn a_member_that_joins_a_stateless_group_gets_no_state() {
    let mesh = Mesh::start(2);
    let devices = attach(&mesh, 2);
    let stateless = GroupOptions::new().stateless(true);
    let mut members = vec![Member::new(&devices[0], stateless.founders(1))];
    settle(&mut members, 1, 0);
    members[0].multicast(b"before");
    settle(&mut members, 1, 6);
    members.push(Member::new(&devices[1], stateless));
    turn_until(&mut members, "it is in", |members| {
        members[1].log.members() == 2
    });
    members[0].multicast(b"after");
    turn_until(&mut members, "it is reported", |members| {
        !members[1].log.state.is_empty()
    });
    assert_eq!(members[1].log.state, b"after");
    assert_eq!(members[1].log.views.len(), 1, "it voted at once");
    assert_eq!(members[1].log.pieces, 0);
}
