//! Each of the eight nodes has a member of one group, over up to four hops. Cables are cut, the
//! rack is split, and nodes, daemons and applications are killed at random.
//!
//! The checkers of simulated groups judge the members' diaries. All survivors install the same
//! views and deliver the same messages in the same order, each once. A joining member receives the
//! state. A member without a quorum delivers nothing. The group reports the true outcome of each
//! member's own messages. At the same time applications add to far counters, as in
//! [`super::additions`].

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use covalent_sim::group::graph::Graph;

use super::{
    CABLES, NODES, Programs, Rack,
    additions::{LOADS, Load, MORTAL, finish, go_on, loads, pairs},
    diary::{Diary, Line, Reader, Record, Why, now_ns},
    judge::{Alone, judge},
    member::Member,
    on_a_rack,
};
use crate::{
    nodes::PATIENCE,
    noise::Noise,
    seeds::{lasts, seed},
};

const USUAL: Duration = Duration::from_secs(6);

/// The disturbances of the rack.
const DEEDS: [Deed; 5] = [
    Deed::Cut,
    Deed::Split,
    Deed::KillNode,
    Deed::KillDaemon,
    Deed::KillMember,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    /// One cable or two, for a moment.
    Cut,
    /// All cables between some nodes and the others.
    Split,
    /// A node's daemon, control and member.
    KillNode,
    /// A node's daemon and control. Its member attaches to the next daemon.
    KillDaemon,
    /// Only a member, on any node.
    KillMember,
}

/// A node's member and its diary.
struct Seat {
    guid: u64,
    diary: PathBuf,
    member: Option<Member>,
    reader: Reader,
    lines: Vec<Line>,
    seen: Seen,
}

/// The state that a member has reported in its current incarnation.
#[derive(Debug, Default, Clone)]
struct Seen {
    incarnation: Option<u64>,
    /// Group and number.
    view: Option<(u64, u64)>,
    /// Addresses, the oldest first.
    members: Vec<u64>,
    /// All of them vote.
    all_vote: bool,
    stopped: Option<Why>,
    own_sent: u64,
    /// Own messages that were delivered, here or to the members that gave the state.
    own_delivered: u64,
    /// Messages delivered in this view.
    delivered: u64,
    ended: bool,
}

/// The rack, its members, and applications that add.
struct Crowd<'d> {
    rack: Rack,
    seats: Vec<Seat>,
    loads: [Load<'d>; LOADS.len()],
    noise: Noise,
    alone: Vec<Alone>,
    done: [u32; DEEDS.len()],
    /// Splits of which one side went on.
    continued: u32,
    /// Splits during a view change that the test did not cause.
    unclear: u32,
    began: Instant,
    /// All messages are delivered to all survivors, and the judge uses this state. Once the first
    /// member stands still, a path failure leaves the others without its replies.
    is_settled: bool,
    /// The nodes of the members of each view, by group and number.
    views: BTreeMap<(u64, u64), Vec<u64>>,
}

#[test]
fn every_survivor_installs_the_same_views_and_delivers_the_same() {
    on_a_rack(survive);
}

fn survive(programs: &Programs) {
    let directory = tempfile::tempdir().unwrap();
    let noise = Noise::new(seed());
    let rack = Rack::build(directory.path(), programs);
    rack.await_all(&[]);
    let pairs = pairs(&rack);
    let loads = loads(&pairs);
    let mut crowd = Crowd::new(rack, directory.path(), loads, noise);
    crowd.await_in(&crowd.all_nodes());
    let end = Instant::now() + lasts(USUAL);
    while Instant::now() < end || crowd.done.contains(&0) {
        // Every kind occurs, whatever is drawn.
        let kind = match crowd.done.iter().position(|&count| count == 0) {
            Some(kind) if crowd.noise.below(2) == 0 => kind,
            _ => crowd.noise.below(2 * DEEDS.len() as u64) as usize,
        };
        let kind = if kind < DEEDS.len() { kind } else { 0 };
        crowd.do_deed(DEEDS[kind]);
        crowd.done[kind] += 1;
        let pause = crowd.noise.below(100);
        crowd.go_on(pause);
    }
    crowd.finish();
}

impl Seen {
    fn record(&mut self, record: &Record) {
        match *record {
            Record::Began { incarnation, .. } => {
                *self = Self {
                    incarnation: Some(incarnation),
                    ..Self::default()
                };
            }
            Record::Requested { .. } => self.own_sent += 1,
            Record::View {
                group,
                number,
                ref members,
                voters,
            } => {
                self.view = Some((group, number));
                self.members = members.iter().map(|member| member.0).collect();
                self.all_vote = voters.count_ones() as usize == members.len();
                self.stopped = None;
                self.delivered = 0;
            }
            Record::Delivered { sender, .. } => {
                self.delivered += 1;
                self.own_delivered += u64::from(Some(sender) == self.incarnation);
            }
            Record::Stopped { why, .. } => self.stopped = Some(why),
            Record::Ended { .. } => self.ended = true,
            Record::Died => *self = Self::default(),
            Record::State { delivered_to, .. } => {
                self.own_delivered = self.own_delivered.max(delivered_to)
            }
            Record::Stable { .. }
            | Record::StateWanted { .. }
            | Record::StateVoid
            | Record::Outcome { .. } => {}
        }
    }

    /// Whether it delivers nothing: it is searching for a group, or has no quorum.
    const fn waits(&self) -> bool {
        self.view.is_none() || self.stopped.is_some()
    }
}

impl<'d> Crowd<'d> {
    fn new(rack: Rack, directory: &Path, loads: [Load<'d>; LOADS.len()], mut noise: Noise) -> Self {
        let seat = |at: usize| {
            let diary = directory.join(format!("n{at}.diary"));
            Seat {
                guid: rack.status(at).guid.bits(),
                reader: Reader::new(diary.clone()),
                member: Some(Member::start(rack.socket(at), &diary, noise.next())),
                diary,
                lines: Vec::new(),
                seen: Seen::default(),
            }
        };
        Self {
            seats: (0..NODES).map(seat).collect(),
            rack,
            loads,
            noise,
            alone: Vec::new(),
            done: [0; DEEDS.len()],
            continued: 0,
            unclear: 0,
            began: Instant::now(),
            is_settled: false,
            views: BTreeMap::new(),
        }
    }

    fn all_nodes(&self) -> Vec<usize> {
        (0..self.seats.len()).collect()
    }

    fn go_on(&mut self, milliseconds: u64) {
        go_on(&mut self.loads, milliseconds);
    }

    /// Reads the new lines of the members.
    fn read_diaries(&mut self) {
        for seat in &mut self.seats {
            let lines = seat.reader.more();
            for line in lines {
                let counts = matches!(line.record, Record::Ended { .. }) && !seat.seen.ended;
                if self.is_settled && !counts {
                    continue;
                }
                seat.seen.record(&line.record);
                if let Record::View {
                    group,
                    number,
                    ref members,
                    ..
                } = line.record
                {
                    let nodes = members.iter().map(|member| member.0);
                    self.views
                        .entry((group, number))
                        .or_insert_with(|| nodes.collect());
                }
                seat.lines.push(line);
            }
        }
    }

    /// Whether a later view exists that no split into these parts explains. On a busy machine a
    /// path fails by itself; a split then meets a view change that only one part knows.
    fn is_strange(&self, view: (u64, u64), parts: &[Vec<usize>]) -> bool {
        let (group, number) = view;
        let mut later = self.views.range((group, number + 1)..=(group, u64::MAX));
        later.any(|(_, members)| {
            let is_it = |part: &&Vec<usize>| {
                part.len() == members.len()
                    && (part.iter()).all(|&at| members.contains(&self.seats[at].guid))
            };
            !parts.iter().any(|part| is_it(&part))
        })
    }

    /// Waits until something is so, while the applications go on.
    fn await_condition(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.read_diaries();
            if is_so(self) {
                return;
            }
            if Instant::now() >= deadline {
                let seen_by_node: Vec<String> = (self.seats.iter().enumerate())
                    .map(|(at, seat)| format!("n{at} {:x}: {:x?}", seat.guid, seat.seen))
                    .collect();
                for at in 0..NODES {
                    if let Some(status) = self.rack.try_status(at) {
                        let status = serde_json::to_string(&status).expect("plain data");
                        eprintln!("n{at}: {status}");
                    }
                }
                panic!("waited too long until {what}:\n{}", seen_by_node.join("\n"));
            }
            self.go_on(2);
        }
    }

    /// Whether the members on these nodes are in one view of just them, and all count in it.
    fn are_in(&self, nodes: &[usize]) -> bool {
        let first = &self.seats[nodes[0]].seen;
        nodes.iter().all(|&at| {
            let seen = &self.seats[at].seen;
            let of_them = |guid: &u64| nodes.iter().any(|&at| self.seats[at].guid == *guid);
            !seen.waits()
                && seen.view == first.view
                && seen.members.len() == nodes.len()
                && seen.members.iter().all(of_them)
                && seen.all_vote
        })
    }

    fn await_in(&mut self, nodes: &[usize]) {
        let what = format!("{nodes:?} are in one view");
        self.await_condition(&what, |crowd| crowd.are_in(nodes));
    }

    fn do_deed(&mut self, deed: Deed) {
        eprintln!("{} {deed:?}", self.began.elapsed().as_millis());
        if deed != Deed::Cut {
            // A dead or isolated member takes its vote along: one deed at a time.
            self.await_in(&self.all_nodes());
        }
        match deed {
            Deed::Cut => {
                let cut = self.cut_some();
                let pause = self.noise.below(200);
                self.go_on(pause);
                self.mend(&cut);
            }
            Deed::Split => self.split(),
            Deed::KillNode | Deed::KillDaemon => {
                let at = MORTAL[self.noise.below(MORTAL.len() as u64) as usize];
                self.kill(at, deed);
            }
            Deed::KillMember => {
                // The oldest one leads.
                let oldest = self.seats[0].seen.members[0];
                let oldest = self.seats.iter().position(|seat| seat.guid == oldest);
                let any = self.noise.below(NODES as u64) as usize;
                let leads = self.noise.below(3) == 0;
                let at = oldest.filter(|_| leads).unwrap_or(any);
                self.kill(at, deed);
            }
        }
    }

    /// Cuts one cable or two.
    fn cut_some(&mut self) -> Vec<usize> {
        let count = 1 + self.noise.below(2);
        let cables = CABLES.len() as u64;
        let cut: Vec<usize> = (0..count)
            .map(|_| self.noise.below(cables) as usize)
            .collect();
        cut.iter().for_each(|&cable| self.rack.set(cable, "down"));
        cut
    }

    fn mend(&self, cut: &[usize]) {
        cut.iter().for_each(|&cable| self.rack.set(cable, "up"));
    }

    /// Kills the processes of `deed`, cuts cables too or not, and restarts the processes.
    fn kill(&mut self, at: usize, deed: Deed) {
        eprintln!("{} n{at}", self.began.elapsed().as_millis());
        let others: Vec<usize> = (0..NODES).filter(|&other| other != at).collect();
        if deed != Deed::KillMember {
            self.rack.kill(at);
        }
        if deed != Deed::KillDaemon {
            self.kill_member(at);
        }
        let cuts = self.noise.below(2) == 0;
        let cut = if cuts { self.cut_some() } else { Vec::new() };
        let pause = self.noise.below(200);
        self.go_on(pause);
        self.mend(&cut);
        // It comes again after the others have noticed, or before.
        if self.noise.below(2) == 0 {
            self.await_in(&others);
        }
        if deed != Deed::KillMember {
            self.rack.start(at);
        }
        if deed != Deed::KillDaemon {
            let seed = self.noise.next();
            let seat = &mut self.seats[at];
            seat.member = Some(Member::start(self.rack.socket(at), &seat.diary, seed));
        }
        self.await_in(&self.all_nodes());
    }

    fn kill_member(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        seat.member.take().expect("it lives").kill();
        Diary::open(&seat.diary).write(Record::Died);
    }

    /// Cuts all cables between some nodes and the others. Members without a quorum wait and deliver
    /// nothing; all others continue.
    fn split(&mut self) {
        let Some(before) = self.seats[0].seen.view else {
            return;
        };
        let side = self.draw_side();
        let mut graph = Graph::new(NODES, CABLES.map(|(a, b)| [a, b]).to_vec());
        graph.divide(&side);
        let cut: Vec<usize> = (0..CABLES.len())
            .filter(|&cable| graph.is_cut(cable))
            .collect();
        cut.iter().for_each(|&cable| self.rack.set(cable, "down"));
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for at in 0..NODES {
            let joined = |part: &&mut Vec<usize>| graph.hops(part[0], at).is_some();
            match parts.iter_mut().find(joined) {
                Some(part) => part.push(at),
                None => parts.push(vec![at]),
            }
        }
        let waits =
            |crowd: &Self, part: &[usize]| part.iter().all(|&at| crowd.seats[at].seen.waits());
        for part in &parts {
            let what = format!("parts without a quorum report it, the others continue: {part:?}");
            self.await_condition(&what, |crowd| match part.len() {
                _ if crowd.is_strange(before, &parts) => crowd.are_in(part) || waits(crowd, part),
                // More than half of the former members.
                5.. => crowd.are_in(part),
                // Half, with the oldest or without.
                4 => crowd.are_in(part) || waits(crowd, part),
                _ => waits(crowd, part),
            });
        }
        let is_strange = self.is_strange(before, &parts);
        self.unclear += u32::from(is_strange);
        let from_ns = now_ns();
        for part in &parts {
            if self.are_in(part) {
                self.continued += 1;
                self.await_progress(part);
            }
        }
        let pause = self.noise.below(200);
        self.go_on(pause);
        let to_ns = now_ns();
        self.mend(&cut);
        // Only the members of a half report whether it has the quorum, so halves do not count here.
        let alone = parts.iter().filter(|part| part.len() < 4 && !is_strange);
        let alone = alone.flatten();
        let alone = alone.map(|&node| Alone {
            node,
            from_ns,
            to_ns,
        });
        self.alone.extend(alone);
        self.await_in(&self.all_nodes());
    }

    /// Draws neighbors on the ring, or any nodes.
    fn draw_side(&mut self) -> Vec<u8> {
        if self.noise.below(3) > 0 {
            let (first, count) = (self.noise.below(8), 1 + self.noise.below(4));
            return (0..NODES as u64)
                .map(|at| u8::from((at + 8 - first) % 8 < count))
                .collect();
        }
        (0..NODES).map(|_| self.noise.below(2) as u8).collect()
    }

    /// Waits until each of them has delivered one more own message.
    fn await_progress(&mut self, part: &[usize]) {
        let before: Vec<u64> = part
            .iter()
            .map(|&at| self.seats[at].seen.own_delivered)
            .collect();
        self.await_condition("the continuing members receive more messages", |crowd| {
            let now = part.iter().map(|&at| crowd.seats[at].seen.own_delivered);
            now.zip(&before).all(|(now, before)| now > *before)
        });
    }

    /// One node dies for good, and the others multicast nothing more. Then the judge checks the
    /// diaries.
    fn finish(mut self) {
        self.await_in(&self.all_nodes());
        let dead = MORTAL[self.noise.below(MORTAL.len() as u64) as usize];
        self.rack.kill(dead);
        self.kill_member(dead);
        let rest: Vec<usize> = (0..NODES).filter(|&at| at != dead).collect();
        let members = |crowd: &mut Self, order: fn(&mut Member)| {
            let seats = crowd.seats.iter_mut();
            seats
                .filter_map(|seat| seat.member.as_mut())
                .for_each(order);
        };
        members(&mut self, Member::stop_sending);
        self.await_condition("every message is delivered to all live members", |crowd| {
            let first = &crowd.seats[rest[0]].seen;
            let has_all = |seen: &Seen| {
                seen.own_delivered == seen.own_sent && seen.delivered == first.delivered
            };
            crowd.are_in(&rest) && rest.iter().all(|&at| has_all(&crowd.seats[at].seen))
        });
        self.is_settled = true;
        members(&mut self, Member::stall);
        self.await_condition("the members have written their counts", |crowd| {
            rest.iter().all(|&at| crowd.seats[at].seen.ended)
        });
        let members = self.seats.iter_mut();
        members
            .filter_map(|seat| seat.member.take())
            .for_each(Member::end);
        self.rack.await_all(&[dead]);
        let additions = finish(&self.rack, self.loads);
        for &at in &rest {
            assert_eq!(self.rack.status(at).verbs.in_doubt, 0, "at node {at}");
        }
        let diaries: Vec<Vec<Line>> = self.seats.into_iter().map(|seat| seat.lines).collect();
        let report = judge(&diaries, &self.alone).unwrap_or_else(|why| panic!("{why}"));
        eprintln!(
            "{:?} of {DEEDS:?}; in {} splits a part continued, {} overlapped a change; {additions} \
             additions; {report:?}",
            self.done, self.continued, self.unclear
        );
        assert!(
            report.delivered > 0 && report.states > 0 && report.fates > 0,
            "{report:?}"
        );
    }
}
