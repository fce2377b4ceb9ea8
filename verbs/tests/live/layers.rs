//! What layers on the library are made of: lookups and watches in flight, waits for anything,
//! withdrawn queues, notices.

use std::{
    cell::Cell,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Client, Completion, Device, Error, GroupOptions, Guid, Match, Mode, NOTICE_WORDS, NOTICES_MAX,
    Outcome, Refusal, RemoteRegion, Rights, Target, Timeout, Verb, Verbs,
};

use crate::nodes::{Nodes, PATIENCE, eventually, soon};

const ADD: Verb<'_> = Verb::FetchAdd {
    offset_bytes: 0,
    delta: 1,
};

/// Takes `count` final completions: the outcome of each by its user data.
fn take<const COUNT: usize>(verbs: &mut Verbs<'_>) -> [Outcome; COUNT] {
    let mut outcomes = [None; COUNT];
    while outcomes.contains(&None) {
        let mut completions = [Completion::default(); 2];
        let taken = verbs.poll(&mut completions, soon()).unwrap();
        for completion in &completions[..taken] {
            assert!(completion.outcome.is_final());
            let place = &mut outcomes[completion.user_data as usize];
            assert_eq!(place.replace(completion.outcome), None, "once");
        }
    }
    outcomes.map(Option::unwrap)
}

fn found(outcome: Outcome) -> RemoteRegion {
    match outcome {
        Outcome::Region(region) => region,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lookups_in_flight_find_what_open_region_finds() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let there = Some(a.find_node("b").unwrap());
    assert_eq!(there, Some(b.address()));
    assert_eq!(a.find_node("a").unwrap(), a.address());
    let unknown = a.find_node("c").unwrap_err();
    assert!(
        matches!(&unknown, Error::UnknownNode { known, .. } if known == "a, b"),
        "{unknown}"
    );
    let words = b.register_region("words", 64, Rights::ALL).unwrap();
    let _orders = b.receive_queue("orders", 4096).unwrap();
    let _own = a.register_region("own", 8, Rights::ALL).unwrap();
    let mut verbs = a.verbs_with_depth(6).unwrap();
    let opened = [("b", "words"), ("b", "orders"), ("a", "own")].map(|(node, name)| {
        let target = Target::Name(node);
        verbs.open_region(target, name, Timeout::FOREVER).unwrap()
    });
    assert!(verbs.has_room());
    let mut batch = verbs.batch();
    batch.post_lookup(there, "words", 0).unwrap();
    batch.post_lookup(there, "orders", 1).unwrap();
    batch.post_lookup(None, "own", 2).unwrap();
    batch.post_lookup(there, "none", 3).unwrap();
    batch.post_lookup(Guid::new(0xdead), "words", 4).unwrap();
    assert!(batch.has_room());
    batch.post(&opened[0], ADD, Mode::OnePhase, 5).unwrap();
    assert!(!batch.has_room());
    let full = batch.post_lookup(there, "words", 6).unwrap_err();
    assert!(matches!(full, Error::QueueFull { depth: 6, .. }), "{full}");
    batch.ring().unwrap();
    let outcomes = take::<6>(&mut verbs);
    assert_eq!([0, 1, 2].map(|at| found(outcomes[at])), opened);
    assert_eq!(opened[0].node(), there);
    assert_eq!((opened[2].node(), opened[2].size_bytes()), (None, 8));
    assert_eq!(opened[1].rights(), Rights::SEND);
    assert_eq!(
        outcomes[3..],
        [
            Outcome::Refused(Refusal::UnknownRegion),
            Outcome::NoSuchPeer,
            Outcome::Old(0)
        ]
    );
    let words_there = found(outcomes[0]);
    assert_eq!(
        verbs
            .fetch_add(&words_there, 0, 4, Timeout::FOREVER)
            .unwrap(),
        1
    );
    assert_eq!(words.load(0).unwrap(), 5);
    assert!(verbs.post_lookup(there, "", 0).is_err());
    assert_eq!(verbs.outstanding(), 0);
}

#[test]
fn a_watch_completes_when_the_program_is_wrong_about_the_path() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b").address());
    let mut verbs = a.verbs().unwrap();
    let mut watch = |node, known_up, change: &dyn Fn()| {
        let id = verbs.post_watch(node, known_up, 7).unwrap();
        change();
        let ended = verbs.wait(id, soon()).unwrap();
        assert_eq!((ended.user_data, ended.id), (7, id));
        ended.outcome
    };
    let path = |up| Outcome::Path { up };
    assert_eq!(watch(b, false, &|| {}), path(true), "at once");
    assert_eq!(watch(a.address(), false, &|| {}), path(true), "this node");
    let never_met = Guid::new(0xdead).unwrap();
    assert_eq!(watch(never_met, true, &|| {}), path(false));
    assert_eq!(watch(b, true, &|| nodes.set_port("p0", false)), path(false));
    assert_eq!(watch(b, false, &|| nodes.set_port("p0", true)), path(true));
}

#[test]
fn a_lookup_or_verb_without_an_answer_reports_its_object() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let bank = b.register_region("bank", 64, Rights::ALL).unwrap();
    let mut verbs = a.verbs().unwrap();
    let target = Target::Guid(b.address());
    let soon_over = Duration::from_millis(100);
    nodes.set_port("p0", false);
    eventually("the link is down", || {
        let status = a.status().unwrap();
        status.links.iter().all(|link| link.state == "down")
    });
    let error = verbs.open_region(target, "bank", soon_over).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    let text = error.to_string();
    for words in ["no path to it is up", "`covalent links`"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // That of a verb names its region.
    let key = RemoteRegion::from_key(Some(b.address()), bank.rkey(), 64, Rights::ALL);
    let error = verbs.fetch_add(&key, 0, 1, soon_over).unwrap_err();
    assert!(matches!(error, Error::InDoubt { .. }), "{error}");
    let text = error.to_string();
    let region = format!(
        "region with key {:#010x} of node {}",
        bank.rkey(),
        b.address()
    );
    for words in [&region, "`covalent links`"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // A short outage is survived: the lookup waits for the link.
    let mut client = Client::connect(nodes.socket("a"), "test").unwrap();
    let mended = thread::spawn(move || {
        thread::sleep(soon_over);
        client.set_port("p0", true).unwrap();
    });
    let late = verbs.open_region(target, "bank", soon()).unwrap();
    assert_eq!(late.size_bytes(), 64);
    mended.join().unwrap();
}

#[test]
fn a_watch_that_has_no_news_holds_its_entry_and_watches_are_bounded() {
    const MOST: u64 = 64;
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b").address());
    let mut verbs = a.verbs().unwrap();
    for user_data in 0..=MOST {
        verbs.post_watch(b, true, user_data).unwrap();
    }
    let mut completions = [Completion::default(); 2];
    assert_eq!(verbs.poll(&mut completions, soon()).unwrap(), 1);
    assert_eq!(completions[0].user_data, MOST);
    let refused = Outcome::Refused(Refusal::NoResources);
    assert_eq!(completions[0].outcome, refused);
    let late = verbs.poll(&mut completions, Duration::from_millis(20));
    assert!(matches!(late, Err(Error::Deadline { .. })), "{late:?}");
    assert_eq!(verbs.outstanding(), MOST as usize);
}

/// A frame that no other test's pipe takes.
fn frame() -> [u8; 100] {
    let mut frame = [0; 100];
    frame[12..14].copy_from_slice(&0x88b6_u16.to_be_bytes());
    frame
}

/// Frames, completions and messages, each after a pause in which the thread falls asleep. A wait
/// that lost a wake-up would stand still; one that does not sleep would look millions of times.
#[test]
fn a_wait_for_anything_misses_nothing_and_sleeps() {
    const EACH: usize = 100;
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    device.set_spin(Duration::ZERO);
    let words = host.register_region("words", 64, Rights::ALL).unwrap();
    let mut pipe = device.rx_pipe(1 << 16).unwrap();
    pipe.bind(&Match::EtherType { ethertype: 0x88b6 }).unwrap();
    let mut queue = device.receive_queue("news", 1 << 16).unwrap();
    let mut verbs = device.verbs().unwrap();
    let remote = verbs
        .open_region(Target::Name("b"), "words", Timeout::FOREVER)
        .unwrap();
    let looks = Cell::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let peer = nodes.attach("b");
            let mut out = peer.tx_pipe(1 << 16, "p0").unwrap();
            let mut verbs = peer.verbs().unwrap();
            let news = verbs
                .open_region(Target::Name("a"), "news", Timeout::FOREVER)
                .unwrap();
            for _ in 0..EACH {
                out.send(&frame(), soon()).unwrap();
                thread::sleep(Duration::from_micros(300));
                verbs.send(&news, b"news", soon()).unwrap();
                thread::sleep(Duration::from_micros(300));
            }
            out.flush(soon()).unwrap();
        });
        let (mut frames, mut messages, mut completed, mut posted) = (0, 0, 0, 0);
        while (frames, messages, completed) != (EACH, EACH, EACH) {
            // One at a time: each completion must end a sleep.
            if posted == completed && posted < EACH {
                verbs.post(&remote, ADD, Mode::TwoPhase, 0).unwrap();
                posted += 1;
            }
            let arrived = device.until(soon(), || {
                looks.set(looks.get() + 1);
                let mut arrived = [0; 3];
                while let Some(batch) = pipe.try_recv()? {
                    arrived[0] += batch.iter().count();
                }
                while queue.try_recv()?.is_some() {
                    arrived[1] += 1;
                }
                let mut completions = [Completion::default(); 4];
                arrived[2] = verbs.try_poll(&mut completions)?;
                Ok((arrived != [0; 3]).then_some(arrived))
            });
            let arrived = arrived.unwrap_or_else(|error| {
                panic!("{frames} frames, {messages}, {completed} of {posted}: {error}")
            });
            frames += arrived[0];
            messages += arrived[1];
            completed += arrived[2];
        }
    });
    assert_eq!(words.load(0).unwrap(), EACH as u64);
    // Each spins through 16 looks at least before it sleeps.
    assert!(looks.get() <= 100 * EACH, "{} looks", looks.get());
}

#[test]
fn a_wait_for_room_ends_and_one_for_nothing_ends_at_its_time() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("a");
    device.set_spin(Duration::ZERO);
    let mut out = device.tx_pipe(1 << 16, "p0").unwrap();
    let mut refused = 0;
    for turn in 1..=50 {
        // Full, and nothing is sent before it is published.
        while out.push(&frame()).is_ok() {}
        let sent = device.until(soon(), || match out.try_send(&frame()) {
            Ok(()) => Ok(Some(())),
            Err(Error::PipeFull { .. }) => {
                refused += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        });
        sent.unwrap();
        assert!(refused >= turn);
    }
    let (begun, mut looks) = (Instant::now(), 0);
    let never = device.until(Duration::from_millis(20), || {
        looks += 1;
        Ok(None::<()>)
    });
    assert!(matches!(never, Err(Error::Deadline { .. })), "{never:?}");
    assert!(begun.elapsed() >= Duration::from_millis(20));
    assert!(looks >= 2);
    let failed = device.until(soon(), || Err::<Option<()>, _>(Error::BadReply));
    assert!(matches!(failed, Err(Error::BadReply)), "{failed:?}");
}

/// Looks before a thread that does not spin announces its first sleep, or more.
const SPINNING_LOOKS: u32 = 16;

#[test]
fn a_wait_inside_a_look_costs_no_wake_up() {
    let nodes = Nodes::start(&["p0"]);
    let (device, peer) = (nodes.attach("a"), nodes.attach("b"));
    device.set_spin(Duration::ZERO);
    let mut queue = device.receive_queue("news", 4096).unwrap();
    let mut other = device.receive_queue("other", 4096).unwrap();
    let mut verbs = peer.verbs().unwrap();
    let news = verbs
        .open_region(Target::Name("a"), "news", Timeout::FOREVER)
        .unwrap();
    let mut looks = 0;
    let begun = Instant::now();
    let until = device.until(soon(), || {
        looks += 1;
        let found = queue.try_recv()?.is_some();
        if looks > SPINNING_LOOKS && !found {
            // The wait inside takes the wake-up for this message.
            verbs.send(&news, b"news", soon())?;
            let nothing = other.recv(Duration::from_millis(5));
            assert!(matches!(nothing, Err(Error::Deadline { .. })));
        }
        Ok(found.then_some(()))
    });
    until.unwrap();
    assert_eq!(looks, SPINNING_LOOKS + 2);
    // A wait that is over looks once more.
    assert!(begun.elapsed() < PATIENCE, "it slept");
}

#[test]
fn a_wait_whose_look_finds_the_next_daemon_is_woken_by_that() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    device.set_spin(Duration::ZERO);
    device.set_reconnect(Some(PATIENCE));
    let mut queue = device.receive_queue("news", 4096).unwrap();
    let socket = nodes.socket("a");
    let (found, is_found) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            is_found.recv().unwrap();
            // Long enough for the wait to sleep. If it does not, the test is only easier to pass.
            thread::sleep(Duration::from_millis(50));
            let peer = Device::attach(&socket, "test").unwrap();
            let mut verbs = peer.verbs().unwrap();
            let news = verbs
                .open_region(Target::Name("b"), "news", Timeout::FOREVER)
                .unwrap();
            verbs.send(&news, b"after", soon()).unwrap();
        });
        let (mut looks, mut reconnections) = (0, 0);
        let begun = Instant::now();
        let message = device.until(soon(), || {
            looks += 1;
            if looks == SPINNING_LOOKS + 1 {
                nodes.stop("b");
                nodes.respawn("b");
                // Longer than a call without news trusts the connection.
                thread::sleep(Duration::from_millis(5));
            }
            let message = queue.try_recv()?.map(|message| message.data.to_vec());
            if device.next_reconnection().is_some() {
                reconnections += 1;
                found.send(()).unwrap();
            }
            Ok(message)
        });
        assert_eq!(message.unwrap(), b"after");
        assert_eq!(reconnections, 1);
        assert!(begun.elapsed() < PATIENCE, "it was not woken");
    });
}

#[test]
fn a_withdrawn_queue_refuses_and_its_name_is_free() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let queue = b.receive_queue("orders", 4096).unwrap();
    let mut verbs = a.verbs().unwrap();
    let open = |verbs: &mut Verbs<'_>| {
        verbs
            .open_region(Target::Name("b"), "orders", Timeout::FOREVER)
            .unwrap()
    };
    let first = open(&mut verbs);
    verbs.send(&first, b"lost", soon()).unwrap();
    queue.withdraw().unwrap();
    let refused = verbs.send(&first, b"late", soon()).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::VerbRefused {
                refusal: Refusal::UnknownRegion,
                ..
            }
        ),
        "{refused}"
    );
    let mut queue = b.receive_queue("orders", 4096).unwrap();
    let second = open(&mut verbs);
    assert_ne!(second.rkey(), first.rkey());
    verbs.send(&second, b"new", soon()).unwrap();
    assert_eq!(queue.try_recv().unwrap().unwrap().data, b"new");
}

#[test]
fn a_notice_is_in_the_status_until_it_is_dropped() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("a");
    device.set_reconnect(Some(PATIENCE));
    let reported = || {
        let groups = device.status().unwrap().groups;
        let groups = groups.into_iter().map(|it| (it.group, it.session));
        groups.collect::<Vec<_>>()
    };
    let mut notice = device.notice().unwrap();
    assert_eq!(reported(), []);
    let mut words = [0; NOTICE_WORDS];
    words[0] = 1 | 6 << 16;
    words[5] = u64::from_le_bytes(*b"orders\0\0");
    notice.publish(&words).unwrap();
    assert_eq!(reported(), [("orders".to_owned(), device.session())]);
    notice.publish(&[u64::MAX; NOTICE_WORDS]).unwrap();
    assert_eq!(reported(), [], "no member's");
    notice.publish(&words).unwrap();
    drop(notice);
    assert_eq!(reported(), []);

    // Groups share the places.
    let group = device.group("g", GroupOptions::new()).unwrap();
    let notices: Vec<_> = (1..NOTICES_MAX).map(|_| device.notice().unwrap()).collect();
    let error = device.notice().unwrap_err();
    assert!(error.to_string().contains("7 notices"), "{error}");
    let error = device.group("h", GroupOptions::new()).unwrap_err();
    assert!(
        error.to_string().contains("group `h`: 7 notices"),
        "{error}"
    );
    drop((group, notices));
    let notice = device.notice().unwrap();
    nodes.stop("a");
    nodes.respawn("a");
    let gone = device.status().unwrap_err();
    assert!(matches!(gone, Error::DaemonGone { .. }), "{gone}");
    drop(notice);
    assert_eq!(reported(), [], "it reconnects without a notice");
}

#[test]
fn a_status_that_comes_late_is_not_waited_for() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("a");
    assert_eq!(device.status_timeout(soon()).unwrap().node, "a");
    let late = device.status_timeout(Instant::now()).unwrap_err();
    assert!(matches!(late, Error::Deadline { .. }), "{late}");
    assert_eq!(device.status().unwrap().node, "a", "its answer is skipped");
    device.check_process().unwrap();
}
