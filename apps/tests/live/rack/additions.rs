//! Applications on four nodes add to counters two and three hops away, while cables are cut and
//! nodes are killed at random.
//!
//! In the end one node is dead and all cables are intact. Every survivor knows which nodes are
//! reachable, and each counter matches the completions of the applications.

use std::{
    array,
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Completion, Device, Error, Mode, Outcome, Region, RemoteRegion, Rights, Target, Timeout, Verb,
    Verbs,
};

use super::{CABLES, NODES, Rack, on_a_rack};
use crate::{
    nodes::eventually,
    noise::Noise,
    seeds::{lasts, seed},
};

/// Each adding node and the node of its counter. They are never neighbors.
pub(super) const LOADS: [(usize, usize); 4] = [(0, 4), (4, 2), (2, 6), (6, 0)];

/// The nodes whose daemons may die: they have no counters.
pub(super) const MORTAL: [usize; 4] = [1, 3, 5, 7];

const USUAL: Duration = Duration::from_secs(5);

/// Additions in flight of each application.
const IN_FLIGHT_MAX: u64 = 8;

/// An application that adds, and the owner of the counter.
pub(super) struct Pair {
    adds: Device,
    owner: Device,
    from: usize,
    to: usize,
}

/// An application that adds to a far counter.
pub(super) struct Load<'d> {
    verbs: Verbs<'d>,
    counter: RemoteRegion,
    own: Region,
    to: usize,
    posted: u64,
    seen: BTreeSet<u64>,
    completions: [Completion; 16],
}

#[test]
fn eight_nodes_agree_on_reachability_and_lose_or_double_nothing() {
    on_a_rack(|programs| {
        let directory = tempfile::tempdir().unwrap();
        let mut noise = Noise::new(seed());
        let mut rack = Rack::build(directory.path(), programs);
        rack.await_all(&[]);
        let pairs = pairs(&rack);
        let mut loads = loads(&pairs);
        let (mut cuts, mut kills) = (0_u32, 0_u32);
        let end = Instant::now() + lasts(USUAL);
        while Instant::now() < end || kills == 0 {
            if noise.below(4) == 0 {
                let at = MORTAL[noise.below(4) as usize];
                rack.kill(at);
                kills += 1;
                go_on(&mut loads, noise.below(200));
                rack.start(at);
            } else {
                let cut = [0; 2].map(|_| noise.below(CABLES.len() as u64) as usize);
                let cut = &cut[..1 + noise.below(2) as usize];
                cut.iter().for_each(|&cable| rack.set(cable, "down"));
                cuts += 1;
                go_on(&mut loads, noise.below(200));
                cut.iter().for_each(|&cable| rack.set(cable, "up"));
            }
            go_on(&mut loads, noise.below(200));
        }
        let dead = MORTAL[noise.below(4) as usize];
        rack.kill(dead);
        rack.await_all(&[dead]);
        let additions = finish(&rack, loads);
        for at in (0..NODES).filter(|&at| at != dead) {
            assert_eq!(rack.status(at).verbs.in_doubt, 0, "at node {at}");
            assert!(rack.reports_reached(at, NODES - 2), "control of node {at}");
        }
        eprintln!("{cuts} cuts, {kills} kills, {additions} additions over two and three hops");
    });
}

/// Runs the applications for some milliseconds.
pub(super) fn go_on(loads: &mut [Load<'_>], milliseconds: u64) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    loop {
        loads.iter_mut().for_each(|load| load.turn(true));
        if Instant::now() >= end {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The applications, attached.
pub(super) fn pairs(rack: &Rack) -> [Pair; LOADS.len()] {
    LOADS.map(|(from, to)| Pair {
        adds: Device::attach(rack.socket(from), "adds").unwrap(),
        owner: Device::attach(rack.socket(to), "owner").unwrap(),
        from,
        to,
    })
}

/// The loads of the applications.
pub(super) fn loads(pairs: &[Pair; LOADS.len()]) -> [Load<'_>; LOADS.len()] {
    array::from_fn(|at| Load::new(&pairs[at]))
}

/// Waits for all additions in flight. Compares each counter, and the number of executed additions
/// that its daemon reports, with the completions of the applications. Returns the number of
/// additions.
pub(super) fn finish(rack: &Rack, loads: [Load<'_>; LOADS.len()]) -> u64 {
    let finished = loads.into_iter().map(|mut load| {
        let posted = load.finish();
        let executed = rack.status(load.to).verbs.executed;
        assert_eq!(
            executed["fetch_add"], posted,
            "reported by node {}",
            load.to
        );
        posted
    });
    finished.sum()
}

impl<'d> Load<'d> {
    fn new(pair: &'d Pair) -> Self {
        let name = format!("of-{}", pair.from);
        let own = pair.owner.register_region(&name, 64, Rights::ALL).unwrap();
        let mut verbs = pair.adds.verbs().unwrap();
        let target = Target::Guid(pair.owner.address());
        Self {
            counter: verbs.open_region(target, &name, Timeout::FOREVER).unwrap(),
            verbs,
            own,
            to: pair.to,
            posted: 0,
            seen: BTreeSet::new(),
            completions: array::from_fn(|_| Completion::default()),
        }
    }

    /// Takes completions, and posts more additions if `posts`.
    fn turn(&mut self, posts: bool) {
        let taken = self.verbs.try_poll(&mut self.completions).unwrap();
        for completion in &self.completions[..taken] {
            match completion.outcome {
                Outcome::Old(old) => assert!(self.seen.insert(old), "an old value repeats"),
                Outcome::InDoubt(_) => {}
                _ => panic!("{completion:?}"),
            }
        }
        let add = Verb::FetchAdd {
            offset_bytes: 0,
            delta: 1,
        };
        while posts && self.posted - (self.seen.len() as u64) < IN_FLIGHT_MAX {
            let mode = [Mode::OnePhase, Mode::TwoPhase][(self.posted % 2) as usize];
            match self.verbs.post(&self.counter, add, mode, self.posted) {
                Ok(_) => self.posted += 1,
                Err(Error::QueueFull { .. }) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits for all additions in flight, and compares the counter with the completions. Returns
    /// the number of additions.
    fn finish(&mut self) -> u64 {
        eventually("every addition ends", || {
            self.turn(false);
            self.seen.len() as u64 == self.posted
        });
        assert!(self.posted > 0);
        assert_eq!(self.own.load(0).unwrap(), self.posted);
        assert!(self.seen.iter().copied().eq(0..self.posted));
        self.posted
    }
}
