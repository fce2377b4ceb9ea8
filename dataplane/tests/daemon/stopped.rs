//! A daemon that is stopped under load, as by SIGSTOP, a debugger or a suspended machine. The tests
//! stop the whole process, at either end of the verbs, and one lane of it.

use std::{
    collections::BTreeSet,
    thread::sleep,
    time::{Duration, Instant},
};

use covalent_api::{
    request::{Reply, Request},
    rule::Match,
};
use covalent_ipc::seqpacket::Connection;
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{Mode, verb::Verb};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    client::{App, Client, Ended, Verbs},
    command,
    held::{Held, thread_of},
    node::{Node, PATIENCE, eventually},
};

const STOPS: u32 = 6;
const IN_FLIGHT_MAX: u64 = 64;
const BETWEEN: u64 = 300;

/// A process that stands still until this goes.
struct Stopped(Pid);

impl Stopped {
    fn stop(pid: Pid) -> Self {
        kill(pid, Signal::SIGSTOP).expect("it runs");
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill(self.0, Signal::SIGCONT).expect("it is stopped");
    }
}

fn is_up(client: &mut Client) -> bool {
    let links = client.status().links;
    links.iter().all(|link| link.state == "up")
}

/// Additions that are always in flight, and their results.
#[derive(Default)]
pub struct Additions {
    pub posted: u64,
    pub ended: u64,
    /// The word's value before each completed addition.
    words: BTreeSet<u64>,
    refused: u64,
    doubts: u64,
}

impl Additions {
    /// Takes finished additions and posts more, up to `most` in total.
    pub fn go_on(&mut self, verbs: &mut Verbs, target: u64, rkey: u32, most: u64) {
        while self.posted < most && self.posted - self.ended < IN_FLIGHT_MAX {
            let mode = [Mode::OnePhase, Mode::TwoPhase][usize::from(self.posted.is_multiple_of(2))];
            let add = Verb::FetchAdd { delta: 1 };
            if !verbs.post(target, mode, self.posted, rkey, 0, add) {
                break;
            }
            self.posted += 1;
        }
        let ended = verbs.poll();
        if ended.is_empty() {
            verbs.app.sleep(Duration::from_millis(5));
        }
        for (_, how) in ended {
            if how.is_doubt() {
                self.doubts += 1;
                continue;
            }
            self.ended += 1;
            match how {
                // Reported for verbs that were not begun because there was no link.
                Ended::Other(why) => {
                    assert!(why.starts_with("NoSuchPeer"), "{why}");
                    self.refused += 1;
                }
                done => assert!(self.words.insert(done.word()), "a word was returned twice"),
            }
        }
    }
}

/// Fails unless each addition that was reported done was done once, judged by the word that it
/// added to.
pub fn check_sums<const N: usize>(all: [(&str, &Additions, &RegionMemory); N]) {
    for (what, additions, word) in all {
        let done = additions.words.len() as u64;
        eprintln!(
            "{what}: {done} done, {} refused, {} in doubt for a while",
            additions.refused, additions.doubts
        );
        assert!(
            additions.words.iter().copied().eq(0..done),
            "a word is missing"
        );
        assert_eq!(word.load(0), Some(done));
    }
}

#[test]
fn a_stalled_daemon_under_load_loses_and_repeats_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let a = Node::new(dir.path(), "a", &["p0"], "").start();
    let b = Node::new(dir.path(), "b", &["p0"], "");
    let daemon = command::start(&["--config", &command::file(dir.path(), &b)]);
    let pid = Pid::from_raw(daemon.0.id().cast_signed());
    let socket = b.config.socket_path();
    eventually("the daemon listens", || {
        Connection::connect(&socket).is_ok()
    });
    let mut near = a.client();
    eventually("the link is up", || is_up(&mut near));
    let mut far = Client::connect(&socket);

    // Each node's application adds to a word of the other one.
    let mut owner_a = App::attach(&a.config.socket_path());
    let mut owner_b = App::attach(&socket);
    let (key_a, word_a) = owner_a.register("bank", 64);
    let (key_b, word_b) = owner_b.register("bank", 64);
    let (guid_a, guid_b) = (a.guid(), far.status().guid.bits());
    let mut from_a = Verbs::new(App::attach(&a.config.socket_path()));
    let mut from_b = Verbs::new(App::attach(&socket));
    let (mut out, mut back) = (Additions::default(), Additions::default());

    let mut failures = 0;
    for stop in 1..=STOPS {
        let enough = BETWEEN * u64::from(stop);
        let deadline = Instant::now() + PATIENCE;
        while out.ended < enough || back.ended < enough {
            assert!(
                Instant::now() < deadline,
                "{} and {} ended",
                out.ended,
                back.ended
            );
            out.go_on(&mut from_a, guid_b, key_b, enough + IN_FLIGHT_MAX);
            back.go_on(&mut from_b, guid_a, key_a, enough + IN_FLIGHT_MAX);
        }
        // While verbs are in flight. Every other time until the neighbor has given up the link.
        let stopped = Stopped::stop(pid);
        if stop.is_multiple_of(2) {
            eventually("the link is given up", || !is_up(&mut near));
            failures += 1;
        } else {
            sleep(Duration::from_millis(20));
        }
        // The other daemon keeps running.
        near.status();
        drop(stopped);
        eventually("the link is up again", || {
            is_up(&mut near) && is_up(&mut far)
        });
    }
    let deadline = Instant::now() + PATIENCE;
    while out.ended < out.posted || back.ended < back.posted {
        assert!(
            Instant::now() < deadline,
            "{} and {} ended",
            out.ended,
            back.ended
        );
        out.go_on(&mut from_a, guid_b, key_b, 0);
        back.go_on(&mut from_b, guid_a, key_a, 0);
    }
    eprintln!("{failures} failures of the link");
    check_sums([("a", &out, &word_b), ("b", &back, &word_a)]);
}

/// Stops one lane's thread of a daemon, not its process: the other lane, its link and the host
/// thread keep running.
#[test]
fn a_stalled_lane_delays_no_other_and_loses_and_repeats_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = |name| {
        let mut node = Node::new(dir.path(), name, &["p0", "p1"], "[[lane]]\n[[lane]]\n");
        node.config.port[1].lane = 1;
        node
    };
    let a = node("a").start();
    let b = node("b");
    let daemon = command::start(&["--config", &command::file(dir.path(), &b)]);
    let socket = b.config.socket_path();
    eventually("the daemon listens", || {
        Connection::connect(&socket).is_ok()
    });
    let mut near = a.client();
    eventually("the links are up", || is_up(&mut near));
    let lane_1 = thread_of(daemon.0.id(), "covalent-lane1");
    let guid = Client::connect(&socket).status().guid.bits();

    let loads = [0, 1].map(|lane| {
        let mut owner = App::attach_to_lane(&socket, lane);
        let (key, word) = owner.register(&format!("bank-{lane}"), 64);
        let verbs = Verbs::new(App::attach_to_lane(&a.config.socket_path(), lane));
        (owner, key, word, verbs, Additions::default())
    });
    let [
        (_owner_0, key_0, word_0, mut verbs_0, mut there),
        (_owner_1, key_1, word_1, mut verbs_1, mut held_up),
    ] = loads;
    let (address_0, address_1) = (guid, guid + 1);
    let mut enough = 0;
    for stop in 1..=STOPS {
        enough += BETWEEN;
        let deadline = Instant::now() + PATIENCE;
        while there.ended < enough || held_up.ended < enough {
            assert!(
                Instant::now() < deadline,
                "{} and {} ended",
                there.ended,
                held_up.ended
            );
            there.go_on(&mut verbs_0, address_0, key_0, enough + IN_FLIGHT_MAX);
            held_up.go_on(&mut verbs_1, address_1, key_1, enough + IN_FLIGHT_MAX);
        }
        let held = Held::hold(lane_1);
        let of_lane_1 = |client: &mut Client| {
            let links = client.status().links;
            links
                .iter()
                .any(|link| link.port == "p1" && link.state == "up")
        };
        if stop.is_multiple_of(2) {
            eventually("its link is given up", || !of_lane_1(&mut near));
        }
        // The other lane's verbs continue, and new clients can attach to it meanwhile.
        enough += BETWEEN;
        let deadline = Instant::now() + PATIENCE;
        while there.ended < enough {
            assert!(Instant::now() < deadline, "{} ended", there.ended);
            there.go_on(&mut verbs_0, address_0, key_0, enough + IN_FLIGHT_MAX);
        }
        let mut guest = App::attach(&socket);
        let vlan = u16::try_from(stop).expect("few");
        let (pipe, _rx) = guest.rx(Some("p0"));
        guest.bind(pipe, Match::Vlan { vlan });
        // A request that needs the stopped lane waits, and no other request waits with it.
        let waiting = Client::connect(&socket);
        waiting.send(&Request::Status);
        guest.unbind(pipe, Match::Vlan { vlan });
        drop(held);
        let mut waiting = waiting;
        let (reply, _) = waiting.receive().expect("the lane continues");
        assert!(matches!(reply, Reply::Status(_)), "{reply:?}");
        eventually("its link is up again", || of_lane_1(&mut near));
    }
    let deadline = Instant::now() + PATIENCE;
    while there.ended < there.posted || held_up.ended < held_up.posted {
        assert!(
            Instant::now() < deadline,
            "{} and {} ended",
            there.ended,
            held_up.ended
        );
        there.go_on(&mut verbs_0, address_0, key_0, 0);
        held_up.go_on(&mut verbs_1, address_1, key_1, 0);
    }
    check_sums([("lane 0", &there, &word_0), ("lane 1", &held_up, &word_1)]);
}
