//! Verbs on regions here and there, and through failures of links.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use covalent_api::{guid::Guid, request::Request};
use covalent_protocol::{
    Mode,
    verb::{MultiCommit, Status, Verb, Word},
};

use super::{
    client::{App, Ended, Verbs},
    node::{Node, PATIENCE, eventually, pair},
};

#[test]
fn local_verbs_are_executed_on_the_lane_and_seen_by_the_owner() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair(dir.path(), &["p0"]);
    let mut app = App::attach(&a.config.socket_path());
    let (rkey, memory) = app.register("bank", 4096);
    let mut verbs = Verbs::new(app);
    for target in [0, a.guid()] {
        let old = verbs.run(target, Mode::OnePhase, rkey, 8, Verb::FetchAdd { delta: 5 });
        assert_eq!(old.word(), if target == 0 { 0 } else { 5 });
    }
    assert_eq!(memory.load(8), Some(10));
    assert_eq!(memory.store(8, 100), Some(()));
    let cas = verbs.run(
        0,
        Mode::OnePhase,
        rkey,
        8,
        Verb::CompareAndSwap {
            expected: 100,
            new: 1,
        },
    );
    assert_eq!(cas.word(), 100);
    let refused = verbs.run(0, Mode::OnePhase, rkey, 4096, Verb::Swap { new: 1 });
    assert_eq!(refused, Ended::Other("Refused(OutOfBounds)".into()));
    let refused = verbs.run(0, Mode::OnePhase, rkey + 1, 0, Verb::Swap { new: 1 });
    assert_eq!(refused, Ended::Other("Refused(UnknownRegion)".into()));
    let to_no_peer = verbs.run(0xdead, Mode::OnePhase, rkey, 0, Verb::Swap { new: 1 });
    assert_eq!(to_no_peer, Ended::Other("NoSuchPeer".into()));
    let status = a.status();
    assert_eq!((status.verbs.submitted, status.verbs.completed), (6, 6));
    assert_eq!(status.verbs.executed["fetch_add"], 2);
    assert_eq!(status.verbs.refused["unknown_region"], 1);
}

#[test]
fn an_owner_that_scribbles_over_its_receive_queue_harms_itself_alone() {
    const QUEUE_BYTES: u64 = 4096;
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut owner = App::attach(&b.config.socket_path());
    let (hostile, memory) = owner.register_queue("hostile", QUEUE_BYTES);
    let mut other = App::attach(&b.config.socket_path());
    let (honest, its_memory) = other.register_queue("honest", QUEUE_BYTES);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut send = |rkey, round: u64| {
        let mode = [Mode::OnePhase, Mode::TwoPhase][round as usize % 2];
        let data = [round as u8; 90];
        verbs.run(b.guid(), mode, rkey, 0, Verb::Send { data: &data })
    };
    let full = Ended::Other("Refused(QueueFull)".into());
    let (mut taken, mut refused) = (0, 0);
    for round in 0..400_u64 {
        let word = [0, 1, u64::MAX, 1 << 63, QUEUE_BYTES, 128 * round][round as usize % 6];
        for offset in (0..QUEUE_BYTES).step_by(8) {
            memory.store(offset, word).expect("it lies within");
        }
        match send(hostile, round) {
            Ended::Committed {
                status: Status::Ok, ..
            } => {}
            ended if ended == full => refused += 1,
            ended => panic!("{ended:?}"),
        }
        let sent = send(honest, round);
        assert!(
            matches!(
                sent,
                Ended::Committed {
                    status: Status::Ok,
                    ..
                }
            ),
            "{sent:?}"
        );
        // 90 bytes and their header, up to a multiple of 8.
        taken += 128;
        assert_eq!(its_memory.load(0), Some(taken), "the tail");
        its_memory.store(64, taken).expect("the head");
    }
    assert!(refused > 0, "no word was impossible");
    let status = b.status();
    assert_eq!(status.verbs.refused["queue_full"], refused);
    assert_eq!(status.verbs.executed["send"], 800 - refused);
}

#[test]
fn malformed_submissions_are_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair(dir.path(), &["p0"]);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let messages: [(&[u8], u64); 4] = [
        (&[1], 0),
        (&[9; 24], 0x0909_0909_0909_0909),
        (&[3; 5000], 0x0303_0303_0303_0303),
        (&[4; 60], 0x0404_0404_0404_0404),
    ];
    for (message, user_data) in messages {
        assert!(verbs.post_raw(message));
        let ended = verbs.wait();
        assert_eq!(ended, [(user_data, Ended::Other("Malformed".into()))]);
    }
}

#[test]
fn remote_verbs_work_in_both_directions_and_modes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    for (host, client) in [(&a, &b), (&b, &a)] {
        let mut owner = App::attach(&host.config.socket_path());
        let (rkey, memory) = owner.register("bank", 4096);
        let mut verbs = Verbs::new(App::attach(&client.config.socket_path()));
        let lookup = verbs.run(
            host.guid(),
            Mode::OnePhase,
            0,
            0,
            Verb::Lookup { name: "bank" },
        );
        let Ended::Committed {
            status: Status::Ok,
            data,
            ..
        } = lookup
        else {
            panic!("{lookup:?}")
        };
        assert_eq!(data[8..12], rkey.to_le_bytes());
        for (round, mode) in [Mode::OnePhase, Mode::TwoPhase].into_iter().enumerate() {
            let old = verbs.run(host.guid(), mode, rkey, 16, Verb::FetchAdd { delta: 7 });
            assert_eq!(old.word(), 7 * round as u64);
            let data = vec![round as u8 + 1; 512];
            let wrote = verbs.run(host.guid(), mode, rkey, 101, Verb::Write { data: &data });
            assert_eq!(
                wrote,
                Ended::Committed {
                    status: Status::Ok,
                    index: 0,
                    data: vec![]
                }
            );
            let read = verbs.run(host.guid(), mode, rkey, 101, Verb::Read { len: 512 });
            assert_eq!(
                read,
                Ended::Committed {
                    status: Status::Ok,
                    index: 0,
                    data
                }
            );
            let words = [Word {
                offset: 0,
                expected: round as u64,
                new: round as u64 + 1,
            }];
            let words = MultiCommit::new(&words).expect("one word");
            let committed = verbs.run(host.guid(), mode, rkey, 0, Verb::MultiCommit(words));
            assert_eq!(
                committed,
                Ended::Committed {
                    status: Status::Ok,
                    index: 0,
                    data: vec![]
                }
            );
        }
        assert_eq!(memory.load(16), Some(14));
        assert_eq!(memory.load(0), Some(2));
    }
}

/// Submits `total` fetch-and-adds of 1 with up to 64 in flight. Calls `at` with the number
/// completed so far.
pub fn count_up(
    verbs: &mut Verbs,
    target: u64,
    rkey: u32,
    total: u64,
    mut at: impl FnMut(u64),
) -> (u64, u64) {
    let mut seen = BTreeMap::new();
    let (mut posted, mut done, mut doubts) = (0, 0, 0);
    let deadline = Instant::now() + PATIENCE * 2;
    while done < total {
        assert!(Instant::now() < deadline, "{done} of {total} verbs in time");
        while posted < total && posted - done < 64 {
            let mode = if posted.is_multiple_of(2) {
                Mode::TwoPhase
            } else {
                Mode::OnePhase
            };
            if !verbs.post(target, mode, posted, rkey, 0, Verb::FetchAdd { delta: 1 }) {
                break;
            }
            posted += 1;
        }
        let ended = verbs.poll();
        if ended.is_empty() {
            verbs.app.sleep(Duration::from_millis(5));
        }
        for (user_data, how) in ended {
            if how.is_doubt() {
                doubts += 1;
                continue;
            }
            // Each old value is returned once: no verb was lost, and none was executed twice.
            assert_eq!(
                seen.insert(how.word(), user_data),
                None,
                "an old value was returned twice"
            );
            done += 1;
        }
        at(done);
    }
    assert_eq!(
        seen.keys().copied().collect::<Vec<_>>(),
        (0..total).collect::<Vec<_>>()
    );
    (done, doubts)
}

#[test]
fn a_cut_link_loses_and_doubles_nothing_while_another_one_stands() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0", "p1"]);
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, memory) = owner.register("bank", 64);
    let mut control = a.client();
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut next = 1;
    count_up(&mut verbs, b.guid(), rkey, 20_000, |done| {
        // Cut and restore each link in turn, many times on the way.
        while done >= next * 1000 && next < 20 {
            let port = if (next - 1) / 2 % 2 == 0 { "p0" } else { "p1" };
            control.done(&Request::SetPort {
                port: port.to_owned(),
                enabled: next.is_multiple_of(2),
            });
            next += 1;
        }
    });
    assert_eq!(memory.load(0), Some(20_000));
    let status = a.status();
    let failures: u64 = status
        .links
        .iter()
        .flat_map(|link| link.failures.values())
        .sum();
    assert!(failures >= 9, "the cuts were seen: {failures}");
    assert_eq!(b.status().verbs.executed["fetch_add"], 20_000);
    assert!(
        status
            .links
            .iter()
            .any(|link| link.last_failover_ns.is_some_and(|gap| gap > 0))
    );
}

#[test]
fn a_failover_counts_no_time_in_which_no_verb_waited() {
    const IDLE: Duration = Duration::from_secs(2);
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0", "p1"]);
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, _memory) = owner.register("bank", 64);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut add = || {
        verbs.run(
            b.guid(),
            Mode::OnePhase,
            rkey,
            0,
            Verb::FetchAdd { delta: 1 },
        )
    };
    assert_eq!(add().word(), 0);
    let set = |enabled| {
        let port = "p0".to_owned();
        a.client().done(&Request::SetPort { port, enabled });
        eventually("the link follows", || {
            (a.status().links[0].state == "up") == enabled
        });
    };
    let gap = || a.status().links[0].last_failover_ns;

    set(false);
    std::thread::sleep(IDLE);
    set(true);
    assert_eq!(add().word(), 1);
    assert_eq!(gap(), None, "no verb waited for this failure");

    set(false);
    std::thread::sleep(IDLE);
    assert_eq!(add().word(), 2);
    assert!(
        gap().is_some_and(|gap| u128::from(gap) < IDLE.as_nanos()),
        "{:?}",
        gap()
    );
}

/// A neighbor has a link to each of two lanes. Verbs open with one lane wait for its own link while
/// the other link is up.
#[test]
fn each_lane_executes_its_verbs_exactly_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut b = Node::new(dir.path(), "b", &["p0", "p1"], "[[lane]]\n[[lane]]\n");
    b.config.port[1].lane = 1;
    let b = b.start();
    let a = Node::new(dir.path(), "a", &["p0", "p1"], "").start();
    eventually("both links are up", || {
        a.status().links.iter().all(|link| link.state == "up")
    });
    let addresses = [b.guid(), b.guid() + 1];
    let links = a.status().links;
    for (link, (address, name)) in links.iter().zip(addresses.iter().zip(["b", "b.1"])) {
        assert_eq!(link.peer.map(Guid::bits), Some(*address));
        assert_eq!(link.peer_name.as_deref(), Some(name));
    }
    let reported: Vec<_> = b.status().lanes.iter().map(|lane| lane.address).collect();
    assert_eq!(reported, addresses.map(Guid::new));

    let socket = b.config.socket_path();
    let mut owners = [0, 1].map(|lane| App::attach_to_lane(&socket, lane));
    let [(left, left_memory), (right, right_memory)] = {
        let [first, second] = &mut owners;
        [first.register("left", 64), second.register("right", 64)]
    };
    let mut control = a.client();
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let wrong = verbs.run(addresses[1], Mode::OnePhase, left, 0, Verb::Swap { new: 1 });
    assert_eq!(wrong, Ended::Other("Refused(UnknownRegion)".into()));
    let mut set_p0 = |enabled| {
        control.done(&Request::SetPort {
            port: "p0".to_owned(),
            enabled,
        });
    };
    let (mut next, mut restore_at) = (1, None);
    count_up(&mut verbs, addresses[0], left, 2_000, |done| {
        if restore_at.is_some_and(|at| Instant::now() >= at) {
            set_p0(true);
            restore_at = None;
        }
        if restore_at.is_none() && done >= next * 400 && next < 5 {
            set_p0(false);
            restore_at = Some(Instant::now() + Duration::from_millis(20));
            next += 1;
        }
    });
    // How often depends on how many verbs go over the other link meanwhile.
    assert!(next > 1, "the link was cut");
    count_up(&mut verbs, addresses[1], right, 100, |_| {});
    assert_eq!(left_memory.load(0), Some(2_000));
    assert_eq!(right_memory.load(0), Some(100));
}

#[test]
fn verbs_wait_in_doubt_for_the_only_link_and_end_exactly_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, memory) = owner.register("bank", 64);
    let mut control = a.client();
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut next = 1;
    let mut restore_at = None;
    count_up(&mut verbs, b.guid(), rkey, 3_000, |done| {
        if restore_at.is_some_and(|at| Instant::now() >= at) {
            control.done(&Request::SetPort {
                port: "p0".to_owned(),
                enabled: true,
            });
            restore_at = None;
        }
        if restore_at.is_none() && done >= next * 500 && next < 6 {
            control.done(&Request::SetPort {
                port: "p0".to_owned(),
                enabled: false,
            });
            restore_at = Some(Instant::now() + Duration::from_millis(20));
            next += 1;
        }
    });
    assert_eq!(memory.load(0), Some(3_000));
    assert_eq!(a.status().verbs.in_doubt, 0);
}

#[test]
fn many_verbs_without_reading_completions_are_held_back_and_none_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, _memory) = owner.register("bank", 4096);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut posted = 0;
    // The replies are 64 times as long as the completion pipe could hold if all were admitted.
    while posted < 8000
        && verbs.post(
            b.guid(),
            Mode::OnePhase,
            posted,
            rkey,
            0,
            Verb::Read { len: 512 },
        )
    {
        posted += 1;
    }
    assert!(posted > 2000);
    std::thread::sleep(Duration::from_millis(100));
    let mut ended = 0;
    while ended < posted {
        for (user_data, how) in verbs.wait() {
            assert!(user_data < posted);
            assert!(
                matches!(
                    how,
                    Ended::Committed {
                        status: Status::Ok,
                        ..
                    }
                ),
                "{how:?}"
            );
            ended += 1;
        }
    }
    assert_eq!(ended, posted);
}

#[test]
fn verbs_to_an_unreachable_node_leave_space_for_others() {
    const EACH: u64 = 600;
    let dir = tempfile::tempdir().expect("a directory");
    let start = |name, cables: &[&str]| Node::new(dir.path(), name, cables, "").start();
    let (a, b, c) = (
        start("a", &["p0", "p1"]),
        start("b", &["p0"]),
        start("c", &["p1"]),
    );
    let mut control = a.client();
    eventually("all links are up", || {
        control.status().links.iter().all(|link| link.state == "up")
    });
    let mut owner = App::attach(&b.config.socket_path());
    let (far, counter) = owner.register("bank", 64);
    let mut other = App::attach(&c.config.socket_path());
    let (near, _memory) = other.register("bank", 64);
    control.done(&Request::SetPort {
        port: "p0".to_owned(),
        enabled: false,
    });
    // More verbs than the lane may have in flight, and more of each application than it may have
    // there.
    let mut stuck: Vec<Verbs> = Vec::new();
    for _ in 0..6 {
        let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
        for number in 0..EACH {
            let add = Verb::FetchAdd { delta: 1 };
            assert!(verbs.post(b.guid(), Mode::OnePhase, number, far, 0, add));
        }
        stuck.push(verbs);
    }
    eventually("the lane has taken its maximum", || {
        let status = control.status().verbs;
        status.submitted - status.completed >= 1024
    });
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    for round in 0..2000 {
        let old = verbs.run(
            c.guid(),
            Mode::OnePhase,
            near,
            0,
            Verb::FetchAdd { delta: 1 },
        );
        assert_eq!(old.word(), round);
    }
    control.done(&Request::SetPort {
        port: "p0".to_owned(),
        enabled: true,
    });
    for verbs in &mut stuck {
        let mut ended = 0;
        while ended < EACH {
            for (_, how) in verbs.wait() {
                if !how.is_doubt() {
                    how.word();
                    ended += 1;
                }
            }
        }
    }
    assert_eq!(counter.load(0), Some(6 * EACH));
}

/// One verb at a time: the links take turns, whatever else the lane does between two verbs.
#[test]
fn two_links_to_the_same_node_share_its_verbs() {
    const ROUNDS: u64 = 1000;
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0", "p1"]);
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, memory) = owner.register("bank", 64);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    for round in 0..ROUNDS {
        let add = Verb::FetchAdd { delta: 1 };
        let old = verbs.run(b.guid(), Mode::OnePhase, rkey, 0, add);
        assert_eq!(old.word(), round);
    }
    assert_eq!(memory.load(0), Some(ROUNDS));
    let committed: Vec<u64> = a.status().links.iter().map(|link| link.committed).collect();
    assert_eq!(committed.iter().sum::<u64>(), ROUNDS);
    // A keepalive of an idle link takes a turn as well.
    assert!(
        committed.iter().all(|&count| count >= ROUNDS * 4 / 10),
        "{committed:?}"
    );
}
