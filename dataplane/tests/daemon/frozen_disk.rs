//! A disk that stands still under load: the file system of a node's state and journal is frozen,
//! far longer than a link may be silent.

use std::{
    fs,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use covalent_api::{
    request::{Reply, Request, Rights},
    status::JournalStatus,
};
use covalent_ipc::seqpacket::Connection;
use covalent_protocol::{Mode, verb::Verb};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    client::{App, Client, Verbs},
    command::{self, Running},
    loop_disk::{LoopDisk, with_loop_disk},
    node::{Node, PATIENCE, eventually},
    stopped::{Additions, check_sums},
};

const BETWEEN: u64 = 300;
/// Durable additions that one client has in flight while the disk stalls: fewer than a link has
/// slots.
const IN_FLIGHT: u64 = 16;
const FROZEN: Duration = Duration::from_secs(3);
/// Longer than a round of a lane takes on a busy machine, shorter than [`FROZEN`].
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Returns two nodes whose links may be silent for half a second. The state and the journal of the
/// second are on `disk`.
fn nodes(dir: &Path, disk: &LoopDisk) -> (Node, Node) {
    let tick_config = "idle_tick_ms = 50\n";
    let a = Node::new(dir, "a", &["p0"], tick_config).start();
    let place = disk.path().display();
    let journal =
        format!("{tick_config}[journal]\ndirectory = \"{place}/journal\"\nfile_mib = 1\n");
    let mut b = Node::new(dir, "b", &["p0"], &journal);
    b.config.node.state_dir = disk.path().join("state");
    let silence = Duration::from_millis(b.config.link.idle_tick_ms.into());
    assert!(silence * b.config.link.keepalive_misses_max * 4 < FROZEN);
    (a, b)
}

fn start(dir: &Path, node: &Node, log: &Path) -> Running {
    let daemon = command::start_logging(&["--config", &command::file(dir, node)], log);
    let socket = node.config.socket_path();
    eventually("the daemon listens", || {
        Connection::connect(&socket).is_ok()
    });
    daemon
}

fn journal(client: &mut Client) -> JournalStatus {
    client.status().lanes[0].journal.clone().expect("a journal")
}

fn await_link(client: &mut Client) {
    eventually("the link is up", || {
        client.status().links.iter().all(|link| link.state == "up")
    });
}

/// One client, the region that it adds to, and the results.
struct Load {
    verbs: Verbs,
    target: u64,
    rkey: u32,
    additions: Additions,
}

impl Load {
    fn new(node: &Node, target: u64, rkey: u32) -> Self {
        Self {
            verbs: Verbs::new(App::attach(&node.config.socket_path())),
            target,
            rkey,
            additions: Additions::default(),
        }
    }

    fn go_on(&mut self, most: u64) {
        let Self {
            verbs,
            target,
            rkey,
            additions,
        } = self;
        additions.go_on(verbs, *target, *rkey, most);
    }
}

fn run_until_ended(loads: &mut [Load], enough: u64) {
    let deadline = Instant::now() + PATIENCE;
    while loads.iter().any(|load| load.additions.ended < enough) {
        let ended = loads.iter().map(|load| load.additions.ended);
        assert!(
            Instant::now() < deadline,
            "{:?} ended",
            ended.collect::<Vec<_>>()
        );
        loads.iter_mut().for_each(|load| load.go_on(enough));
    }
}

#[test]
fn a_stalled_disk_delays_durable_verbs_and_nothing_else() {
    with_loop_disk(|dir, disk| {
        let (a, b) = nodes(dir, disk);
        let log = dir.join("log");
        let daemon = start(dir, &b, &log);
        let socket = b.config.socket_path();
        let (mut near, mut far) = (a.client(), Client::connect(&socket));
        await_link(&mut near);
        await_link(&mut far);
        let mut owner = App::attach(&socket);
        let (from_a, word_a) = owner.register_durable("from-a", 64);
        let (from_b, word_b) = owner.register_durable("from-b", 64);
        let (plain_a, plain_word_a) = owner.register("plain-a", 64);
        let (plain_b, plain_word_b) = owner.register("plain-b", 64);
        let target = far.status().guid.bits();
        let mut durable = [Load::new(&a, target, from_a), Load::new(&b, 0, from_b)];
        let mut plain = [Load::new(&a, target, plain_a), Load::new(&b, 0, plain_b)];
        run_until_ended(&mut durable, BETWEEN);
        run_until_ended(&mut plain, BETWEEN);
        let failures = |near: &mut Client, far: &mut Client| {
            let links = [near.status().links, far.status().links].concat();
            let of_link = |failures: &std::collections::BTreeMap<_, u64>| {
                failures.values().copied().sum::<u64>()
            };
            links
                .iter()
                .map(|link| of_link(&link.failures))
                .sum::<u64>()
        };
        let failures_before = failures(&mut near, &mut far);

        let frozen = disk.freeze();
        let begun = Instant::now();
        // Writes on their way to the disk stay there.
        for load in &mut durable {
            load.go_on(BETWEEN + IN_FLIGHT);
        }
        eventually("verbs wait for the disk", || {
            let journal = journal(&mut far);
            journal.held > 0 && journal.appended > journal.durable
        });
        let waiting = journal(&mut far);
        let mut late = Client::connect(&socket);
        let register = Request::RegisterRegion {
            name: "late".into(),
            size_bytes: 64,
            rights: Rights::ALL,
            durable: true,
        };
        let mut rounds = 0;
        let mut longest = Duration::ZERO;
        while begun.elapsed() < FROZEN {
            rounds += 1;
            let enough = BETWEEN * (1 + rounds);
            run_until_ended(&mut plain, enough);
            durable
                .iter_mut()
                .for_each(|load| load.go_on(BETWEEN + IN_FLIGHT));
            let requested = Instant::now();
            near.status();
            late.status();
            drop(App::attach(&socket));
            longest = longest.max(requested.elapsed());
        }
        eprintln!("{rounds} rounds, the longest answer took {longest:?}");
        assert!(rounds > 2 && longest < ANSWER_MAX);
        let still = journal(&mut far);
        assert_eq!(still.durable, waiting.durable);
        assert!(still.failure.is_none(), "{still:?}");
        for load in &durable {
            let open = load.additions.posted - load.additions.ended;
            assert!(open > 0 && open <= IN_FLIGHT, "{open} are open");
        }
        // A region is there when the disk has it.
        let mut late = App::of(late, 0);
        late.client.send(&register);
        let (reply, _fds) = late.client.receive().expect("the daemon answers");
        assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
        late.client.send(&Request::Mapped);
        assert_eq!(failures(&mut near, &mut far), failures_before);

        drop(frozen);
        run_until_ended(&mut durable, BETWEEN + IN_FLIGHT);
        run_until_ended(&mut durable, 2 * BETWEEN);
        let (reply, _fds) = late.client.receive().expect("the daemon answers");
        assert_eq!(reply, Reply::Done);
        let all = [
            ("durable from a", &durable[0].additions, &word_a),
            ("durable from b", &durable[1].additions, &word_b),
            ("plain from a", &plain[0].additions, &plain_word_a),
            ("plain from b", &plain[1].additions, &plain_word_b),
        ];
        check_sums(all);
        assert_eq!(failures(&mut near, &mut far), failures_before);

        // Reported additions are on the disk.
        let reported = durable.map(|load| load.additions.ended);
        daemon.kill();
        let _daemon = start(dir, &b, &log);
        let mut owner = App::attach(&socket);
        for (name, reported) in ["from-a", "from-b"].into_iter().zip(reported) {
            let (_, word) = owner.register_durable(name, 64);
            assert_eq!(word.load(0), Some(reported), "{name}");
        }
    });
}

#[test]
fn a_stopping_daemon_reports_that_it_waits_for_a_stalled_disk() {
    with_loop_disk(|dir, disk| {
        let (a, b) = nodes(dir, disk);
        let log = dir.join("log");
        let mut posted = 0;
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let mut daemon = start(dir, &b, &log);
            let socket = b.config.socket_path();
            let mut far = Client::connect(&socket);
            await_link(&mut far);
            let mut owner = App::attach(&socket);
            let (rkey, word) = owner.register_durable("bank", 64);
            let before = word.load(0).expect("a word");
            assert!(before == posted || before == posted.max(1) - 1, "{before}");
            posted = before;
            let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
            let target = far.status().guid.bits();
            let add = Verb::FetchAdd { delta: 1 };
            for _ in 0..10 {
                verbs.run(target, Mode::TwoPhase, rkey, 0, add).word();
                posted += 1;
            }

            let frozen = disk.freeze();
            assert!(verbs.post(target, Mode::TwoPhase, 1, rkey, 0, add));
            posted += 1;
            eventually("it waits for the disk", || {
                let journal = journal(&mut far);
                journal.appended > journal.durable
            });
            let begun = Instant::now();
            kill(Pid::from_raw(daemon.0.id().cast_signed()), signal).expect("it runs");
            let reported = || fs::read_to_string(&log).expect("a log");
            if signal == Signal::SIGTERM {
                eventually("it reports what it waits for", || {
                    reported().contains("waits for the disk")
                });
                eprintln!("reported after {:?}", begun.elapsed());
                let place = disk.path().join("journal/lane-0");
                let line = reported();
                let line = line.lines().find(|it| it.contains("waits for the disk"));
                let line = line.expect("it is there");
                assert!(line.contains(place.to_str().expect("text")), "{line}");
            }
            // A process with unfinished writes does not exit: the kernel waits for them.
            sleep(Duration::from_millis(500));
            assert!(daemon.0.try_wait().expect("a child").is_none());
            drop(frozen);
            let status = daemon.0.wait().expect("it ends");
            assert_eq!(
                status.success(),
                signal == Signal::SIGTERM,
                "{}",
                reported()
            );
        }
        let _daemon = start(dir, &b, &log);
        let mut owner = App::attach(&b.config.socket_path());
        let (_, word) = owner.register_durable("bank", 64);
        let sum = word.load(0).expect("a word");
        assert!((posted - 1..=posted).contains(&sum), "{sum} of {posted}");
    });
}
