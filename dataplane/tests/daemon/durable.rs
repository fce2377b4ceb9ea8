//! Durable regions through the death of the daemon.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    request::{Reply, Request, Rights},
    status::JournalStatus,
};
use covalent_dataplane::Daemon;
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{
    Mode,
    verb::{MultiCommit, Status, Verb, Word},
};

use super::{
    client::{App, Client, Ended, Verbs},
    command,
    node::{Node, PATIENCE, eventually},
};

const REGION_BYTES: u64 = 4096;
/// The word to which all clients add.
const SUM: u32 = 0;
/// Pairs of words that change together: the pair of the client on this node, and that of the client
/// on the other node.
const HERE: u32 = 16;
const THERE: u32 = 32;
/// Additions that one client has in flight.
const ADDITIONS: usize = 24;

/// Incarnations of the daemon, and the maximum time for all of them.
const INCARNATIONS: u64 = 24;
const INCARNATIONS_TIME_MAX: Duration = Duration::from_secs(20);

pub fn with_journal(dir: &Path, name: &str) -> Node {
    let journal = format!(
        "[journal]\ndirectory = \"{}/{name}-journal\"\nfile_mib = 1\n",
        dir.display()
    );
    Node::new(dir, name, &["p0"], &journal)
}

/// One client of the region, and its knowledge.
struct Load {
    verbs: Verbs,
    target: u64,
    rkey: u32,
    pair: u32,
    next: u64,
    additions: usize,
    /// The verb in flight on the pair, and the pair's value as far as reported.
    pair_in_flight: Option<u64>,
    pair_value: u64,
    /// Additions that were acknowledged, and those with an unknown outcome.
    acknowledged: u64,
    unknown: u64,
    pair_unknown: bool,
}

impl Load {
    fn new(verbs: Verbs, target: u64, pair: u32) -> Self {
        Self {
            verbs,
            target,
            rkey: 0,
            pair,
            next: 0,
            additions: 0,
            pair_in_flight: None,
            pair_value: 0,
            acknowledged: 0,
            unknown: 0,
            pair_unknown: false,
        }
    }

    fn post(&mut self) {
        while self.additions < ADDITIONS {
            let mode = [Mode::OnePhase, Mode::TwoPhase][self.next as usize % 2];
            let verb = Verb::FetchAdd { delta: 1 };
            if !self
                .verbs
                .post(self.target, mode, self.next, self.rkey, SUM, verb)
            {
                return;
            }
            self.next += 1;
            self.additions += 1;
        }
        if self.pair_in_flight.is_none() {
            let words = [0, 8].map(|at| Word {
                offset: self.pair + at,
                expected: self.pair_value,
                new: self.pair_value + 1,
            });
            let verb = Verb::MultiCommit(MultiCommit::new(&words).expect("two words"));
            if self
                .verbs
                .post(self.target, Mode::TwoPhase, self.next, self.rkey, 0, verb)
            {
                self.pair_in_flight = Some(self.next);
                self.next += 1;
            }
        }
    }

    fn take(&mut self) {
        for (user_data, how) in self.verbs.poll() {
            if how.is_doubt() {
                continue;
            }
            let is_done = match &how {
                Ended::Committed {
                    status: Status::Ok, ..
                } => true,
                Ended::Other(reported) if reported == "PeerRestarted" => {
                    if self.pair_in_flight == Some(user_data) {
                        self.pair_unknown = true;
                    } else {
                        self.unknown += 1;
                    }
                    false
                }
                Ended::Other(reported)
                    if ["NoResources", "UnknownRegion"]
                        .iter()
                        .any(|why| reported.contains(why)) =>
                {
                    false
                }
                other => panic!("{other:?}"),
            };
            if self.pair_in_flight == Some(user_data) {
                self.pair_in_flight = None;
                self.pair_value += u64::from(is_done);
            } else {
                self.additions -= 1;
                self.acknowledged += u64::from(is_done);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.additions == 0 && self.pair_in_flight.is_none()
    }

    /// The daemon of this client is dead: the outcome of unreported verbs is unknown.
    fn give_up(&mut self) {
        self.take();
        self.unknown += self.additions as u64;
        self.additions = 0;
        self.pair_unknown |= self.pair_in_flight.take().is_some();
    }

    /// The pair holds all that was acknowledged, whole.
    fn check_pair(&mut self, memory: &RegionMemory) {
        let [first, second] = [0, 8].map(|at| memory.load(u64::from(self.pair + at)));
        assert_eq!(first, second, "a commit of two words is there in part");
        let most = self.pair_value + u64::from(self.pair_unknown);
        let value = first.expect("a word");
        assert!(
            (self.pair_value..=most).contains(&value),
            "pair {}: {} commits were acknowledged, at most {most} were made, and there are \
             {value}",
            self.pair,
            self.pair_value
        );
        self.pair_value = value;
        self.pair_unknown = false;
    }
}

fn attach(node: &Node) -> App {
    let socket = node.config.socket_path();
    eventually("the daemon listens", || {
        covalent_ipc::seqpacket::Connection::connect(&socket).is_ok()
    });
    App::attach(&socket)
}

fn incarnation_time(incarnation: u64) -> Duration {
    // Of any length, and the same in each run.
    Duration::from_millis(20 + incarnation.wrapping_mul(0x9e37_79b9) % 180)
}

#[test]
fn no_acknowledged_commit_is_lost_by_repeated_kills() {
    let dir = tempfile::tempdir().expect("a directory");
    let a = Node::new(dir.path(), "a", &["p0"], "").start();
    let b = with_journal(dir.path(), "b");
    let path = command::file(dir.path(), &b);
    let mut there: Option<Load> = None;
    let mut here: Option<Load> = None;
    let mut floor = 0;
    let deadline = Instant::now() + INCARNATIONS_TIME_MAX;
    let mut incarnations = 0;
    while incarnations < INCARNATIONS && Instant::now() < deadline {
        let daemon = command::start(&["--config", &path]);
        let mut app = attach(&b);
        let target = app.client.status().guid.bits();
        let (rkey, memory) = app.register_durable("bank", REGION_BYTES);
        let (_, spare) = app.register_durable("spare", 64);
        assert_eq!(
            spare.load(0),
            Some(0),
            "generation {incarnations}: deleted data exists again"
        );
        let mut verbs = Verbs::new(app);
        let mut watch = Client::connect(&b.config.socket_path());
        eventually("the link is up", || {
            watch.status().links.iter().all(|link| link.state == "up")
        });
        let remote = there.get_or_insert_with(|| {
            Load::new(
                Verbs::new(App::attach(&a.config.socket_path())),
                target,
                THERE,
            )
        });
        let drained = Instant::now() + PATIENCE;
        while !remote.is_idle() {
            remote.take();
            assert!(
                Instant::now() < drained,
                "all verbs of the previous generation have ended"
            );
            thread::sleep(Duration::from_millis(1));
        }
        let mut local = here.take().map_or_else(
            || Load::new(Verbs::new(App::attach(&b.config.socket_path())), 0, HERE),
            |before| Load {
                verbs: Verbs::new(App::attach(&b.config.socket_path())),
                ..before
            },
        );
        let acknowledged = remote.acknowledged + local.acknowledged;
        let most = acknowledged + remote.unknown + local.unknown;
        let sum = memory.load(u64::from(SUM)).expect("a word");
        assert!(
            (acknowledged..=most).contains(&sum) && sum >= floor,
            "generation {incarnations}: {acknowledged} additions were acknowledged, at most {most} \
             were \
             made, and the sum is {sum}"
        );
        floor = sum;
        remote.check_pair(&memory);
        local.check_pair(&memory);
        (remote.rkey, local.rkey) = (rkey, rkey);
        let spare_rkey = watch
            .status()
            .regions
            .iter()
            .find(|region| region.name == "spare")
            .expect("it is registered")
            .rkey;
        verbs
            .run(
                0,
                Mode::OnePhase,
                spare_rkey,
                0,
                Verb::FetchAdd { delta: 1 },
            )
            .word();
        let end = Instant::now() + incarnation_time(incarnations);
        while Instant::now() < end {
            for load in [&mut *remote, &mut local] {
                load.post();
                load.take();
            }
            // The daemons have work for longer.
            thread::sleep(Duration::from_micros(200));
        }
        // The daemon reports the deletion and is killed at once.
        verbs.app.client.done(&delete("spare"));
        daemon.kill();
        local.give_up();
        here = Some(local);
        incarnations += 1;
    }
    assert!(
        incarnations >= 10,
        "only {incarnations} generations in time"
    );
    let (there, here) = (there.expect("a load"), here.expect("a load"));
    for (load, what) in [(&there, "the other node"), (&here, "the node itself")] {
        assert!(load.acknowledged > 300, "additions of {what}");
        assert!(load.pair_value > 30, "commits of {what}");
    }
}

#[test]
fn a_durable_region_waits_for_its_owner() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut b = with_journal(dir.path(), "b").start();
    let mut app = App::attach(&b.config.socket_path());
    let (rkey, _memory) = app.register_durable("bank", REGION_BYTES);
    let mut verbs = Verbs::new(app);
    for round in 1..=300 {
        let write = vec![round as u8; 512];
        let ended = verbs.run(0, Mode::OnePhase, rkey, 512, Verb::Write { data: &write });
        assert!(matches!(ended, Ended::Committed { .. }), "{ended:?}");
    }
    let journal = b.status().lanes[0].journal.clone().expect("a journal");
    assert_eq!((journal.regions, journal.kept, journal.held), (1, 0, 0));
    assert!(journal.durable > 300 && journal.failure.is_none());
    drop(verbs);
    let kept = |b: &Node| {
        b.status().lanes[0]
            .journal
            .clone()
            .map(|journal| journal.kept)
    };
    eventually("its owner has exited", || kept(&b) == Some(1));
    for _ in 0..2 {
        let mut client = b.client();
        let as_is = Request::RegisterRegion {
            name: "bank".into(),
            size_bytes: REGION_BYTES,
            rights: Rights::ALL,
            durable: false,
        };
        let mut app = App::attach(&b.config.socket_path());
        let why = app.client.refused(&as_is);
        assert!(why.contains("register it as one"), "{why}");
        let (rkey, memory) = app.register_durable("bank", REGION_BYTES);
        let why = app.client.refused(&Request::WithdrawRegion { rkey });
        assert!(why.contains("delete it"), "{why}");
        let mut bytes = [0; 1024];
        memory.read(256, &mut bytes).expect("it lies within");
        assert_eq!(bytes[..256], [0; 256]);
        assert_eq!(bytes[256..768], [(300 % 256) as u8; 512]);
        assert_eq!(bytes[768..], [0; 256]);
        client.status();
        drop((app, client));
        eventually("its owner has exited", || kept(&b) == Some(1));
        b.daemon.take().expect("it runs").stop();
        b = b.start();
    }
}

#[test]
fn a_receive_queue_is_refused_a_journal() {
    let dir = tempfile::tempdir().expect("a directory");
    let b = with_journal(dir.path(), "b").start();
    let mut app = App::attach(&b.config.socket_path());
    let durable_queue = Request::RegisterRegion {
        name: "queue".into(),
        size_bytes: 4096,
        rights: Rights::SEND,
        durable: true,
    };
    let (reply, _fds) = app.client.call(&durable_queue);
    assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
    let why = app.client.refused(&Request::Mapped);
    assert!(why.contains("receive queue cannot be durable"), "{why}");
    let journal = b.status().lanes[0].journal.clone().expect("a journal");
    assert_eq!((journal.regions, journal.appended), (0, journal.durable));
    app.register_queue("queue", 4096);
}

#[test]
fn without_a_journal_no_region_is_durable() {
    let dir = tempfile::tempdir().expect("a directory");
    let a = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut app = App::attach(&a.config.socket_path());
    let (reply, _fds) = app.client.call(&Request::RegisterRegion {
        name: "bank".into(),
        size_bytes: 64,
        rights: Rights::ALL,
        durable: true,
    });
    assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
    let why = app.client.refused(&Request::Mapped);
    assert!(why.contains("[journal]"), "{why}");
}

fn register(name: &str, size_bytes: u64, durable: bool) -> Request {
    Request::RegisterRegion {
        name: name.into(),
        size_bytes,
        rights: Rights::ALL,
        durable,
    }
}

fn delete(name: &str) -> Request {
    Request::DeleteRegion { name: name.into() }
}

fn journal(node: &Node) -> JournalStatus {
    node.status().lanes[0].journal.clone().expect("a journal")
}

#[test]
fn a_deleted_region_frees_its_name_and_its_space() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut b = with_journal(dir.path(), "b").start();
    // More than half of the space, so that there is none for another region before this one is
    // deleted.
    let large = 160 << 10;
    let mut app = App::attach(&b.config.socket_path());
    let (rkey, _memory) = app.register_durable("bank", large);
    let mut verbs = Verbs::new(app);
    let write = Verb::Write { data: &[7; 64] };
    let ended = verbs.run(0, Mode::OnePhase, rkey, 0, write);
    assert!(matches!(ended, Ended::Committed { .. }), "{ended:?}");
    let mut other = App::attach(&b.config.socket_path());
    let why = other.client.refused(&delete("bank"));
    assert!(why.contains("registered by session"), "{why}");
    let why = other.client.refused(&delete("bunk"));
    assert!(why.contains("no durable region `bunk`"), "{why}");
    let (reply, _fds) = other.client.call(&register("larger", large, true));
    assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
    let why = other.client.refused(&Request::Mapped);
    assert!(why.contains("make the journal's files larger"), "{why}");

    // The owner deletes it and continues with an ordinary region.
    verbs.app.client.done(&delete("bank"));
    assert_eq!((journal(&b).regions, journal(&b).region_bytes), (0, 0));
    assert!(b.status().durable_regions.is_empty());
    let appended = journal(&b).appended;
    for _ in 0..10 {
        let ended = verbs.run(0, Mode::OnePhase, rkey, 0, write);
        assert!(matches!(ended, Ended::Committed { .. }), "{ended:?}");
    }
    assert_eq!(
        journal(&b).appended,
        appended,
        "it is in no journal any more"
    );
    let why = other.client.refused(&register("bank", 64, true));
    assert!(why.contains("registered already"), "{why}");
    let (_, _memory) = other.register_durable("larger", large);
    let session = other.session;
    let reported = b.status().durable_regions;
    assert_eq!(reported.len(), 1);
    assert_eq!(
        (reported[0].name.as_str(), reported[0].session),
        ("larger", Some(session))
    );
    drop((verbs, other));

    // One that waits for its owner is deleted without one, and is not there after a restart either.
    eventually("its owner has exited", || journal(&b).kept == 1);
    assert_eq!(b.status().durable_regions[0].session, None);
    b.client().done(&delete("larger"));
    b.daemon.take().expect("it runs").stop();
    b = b.start();
    assert_eq!((journal(&b).regions, journal(&b).kept), (0, 0));
    let mut app = App::attach(&b.config.socket_path());
    let (_, memory) = app.register_durable("bank", 64);
    assert_eq!(memory.load(0), Some(0), "it begins anew");
}

#[test]
fn a_durable_region_belongs_to_its_lane() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut b = with_journal(dir.path(), "b");
    b.config.lane.push(b.config.lane[0].clone());
    b = b.start();
    let mut app = App::attach_to_lane(&b.config.socket_path(), 1);
    let (_, memory) = app.register_durable("bank", 64);
    drop((app, memory));
    for _ in 0..2 {
        eventually("its owner has exited", || {
            b.status().durable_regions[0].session.is_none()
        });
        assert_eq!(b.status().durable_regions[0].lane, 1);
        let mut app = App::attach_to_lane(&b.config.socket_path(), 0);
        for durable in [false, true] {
            let why = app.client.refused(&register("bank", 64, durable));
            let remedy = if durable {
                "on lane 1"
            } else {
                "register it as one"
            };
            assert!(why.contains(remedy) && why.contains("`bank`"), "{why}");
        }
        let mut app = App::attach_to_lane(&b.config.socket_path(), 1);
        app.register_durable("bank", 64);
        drop(app);
        b.daemon.take().expect("it runs").stop();
        b = b.start();
    }
    // Without its lane it would be missing, and its name free: the daemon does not start.
    b.daemon.take().expect("it runs").stop();
    let mut fewer = b.config.clone();
    fewer.lane.pop();
    let why = Daemon::start(fewer)
        .expect_err("a lane is missing")
        .to_string();
    assert!(why.contains("lane-1") && why.contains("[[lane]]"), "{why}");
}
