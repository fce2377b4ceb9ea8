//! The queue: bounds, matching, doubt.

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Completion, Error, Mode, Outcome, Refusal, RemoteRegion, Rights, Target, Timeout, Verb, VerbId,
    Verbs,
};

use crate::nodes::{Nodes, eventually, soon};

const ADD: Verb<'_> = Verb::FetchAdd {
    offset_bytes: 0,
    delta: 1,
};

/// Takes completions until `count` final ones have come.
fn take(verbs: &mut Verbs<'_>, count: usize) -> Vec<Completion> {
    let mut taken = Vec::new();
    let mut completions = vec![Completion::default(); 16];
    while taken
        .iter()
        .filter(|completion: &&Completion| completion.outcome.is_final())
        .count()
        < count
    {
        let came = verbs.poll(&mut completions, soon()).unwrap();
        taken.extend_from_slice(&completions[..came]);
    }
    taken
}

#[test]
fn every_completion_bears_its_own_user_data() {
    let nodes = Nodes::start(&["p0", "p1"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("words", 8 * 100, Rights::ALL).unwrap();
    (0..100).for_each(|word| own.store(8 * word, 1000 + word).unwrap());
    let mut verbs = device.verbs().unwrap();
    let words = verbs
        .open_region(Target::Name("b"), "words", Timeout::FOREVER)
        .unwrap();
    let mut posted = HashMap::new();
    for word in 0..100 {
        let verb = Verb::FetchAdd {
            offset_bytes: 8 * word,
            delta: 0,
        };
        let mode = if word % 2 == 0 {
            Mode::OnePhase
        } else {
            Mode::TwoPhase
        };
        posted.insert(
            verbs.post(&words, verb, mode, u64::MAX - word).unwrap(),
            word,
        );
    }
    assert_eq!(verbs.outstanding(), 100);
    for completion in take(&mut verbs, 100) {
        let word = posted.remove(&completion.id).expect("each once");
        assert_eq!(completion.user_data, u64::MAX - word);
        assert_eq!(completion.outcome, Outcome::Old(1000 + word));
    }
    assert_eq!(verbs.outstanding(), 0);
}

#[test]
fn no_more_verbs_than_the_depth_are_in_flight() {
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut verbs = device.verbs_with_depth(4).unwrap();
    let counter = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    for user_data in 0..4 {
        verbs
            .post(&counter, ADD, Mode::TwoPhase, user_data)
            .unwrap();
    }
    let error = verbs.post(&counter, ADD, Mode::TwoPhase, 4).unwrap_err();
    assert!(
        matches!(
            error,
            Error::QueueFull {
                outstanding: 4,
                depth: 4
            }
        ),
        "{error}"
    );
    // Only taken completions make room, not arrived ones, so completions cannot pile up either.
    eventually("all are executed", || own.load(0).unwrap() == 4);
    assert!(verbs.post(&counter, ADD, Mode::TwoPhase, 4).is_err());
    assert_eq!(take(&mut verbs, 4).len(), 4);
    verbs.post(&counter, ADD, Mode::TwoPhase, 4).unwrap();
    assert_eq!(take(&mut verbs, 1)[0].user_data, 4);
    assert_eq!(own.load(0).unwrap(), 5);
}

#[test]
fn a_long_run_at_every_depth_is_exact() {
    let nodes = Nodes::start(&["p0", "p1"]);
    let host = nodes.attach("b");
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut expected = 0;
    for (depth, count) in [(1, 200), (7, 2000), (256, 5000), (4096, 5000)] {
        let device = nodes.attach("a");
        let mut verbs = device.verbs_with_depth(depth).unwrap();
        let counter = verbs
            .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
            .unwrap();
        let mut completions = vec![Completion::default(); 64];
        let (mut posted, mut ended) = (0, 0);
        while ended < count {
            while posted < count && verbs.post(&counter, ADD, Mode::TwoPhase, posted).is_ok() {
                posted += 1;
            }
            let taken = verbs.poll(&mut completions, soon()).unwrap();
            assert!(
                completions[..taken]
                    .iter()
                    .all(|completion| matches!(completion.outcome, Outcome::Old(_)))
            );
            ended += taken as u64;
        }
        expected += count;
        assert_eq!(own.load(0).unwrap(), expected, "depth {depth}");
    }
}

#[test]
fn blocking_calls_leave_the_completions_of_others_for_poll() {
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let _own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut verbs = device.verbs().unwrap();
    let counter = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    for user_data in 0..10 {
        verbs
            .post(&counter, ADD, Mode::TwoPhase, user_data)
            .unwrap();
    }
    verbs.fetch_add(&counter, 0, 1, Timeout::FOREVER).unwrap();
    let mut user_data: Vec<_> = take(&mut verbs, 10)
        .iter()
        .map(|completion| completion.user_data)
        .collect();
    user_data.sort_unstable();
    assert_eq!(user_data, (0..10).collect::<Vec<_>>());
    let mut completions = [Completion::default()];
    assert_eq!(
        verbs.poll(&mut completions, Timeout::FOREVER).unwrap(),
        0,
        "nothing is in flight, so there is nothing to wait for"
    );
    assert!(matches!(
        verbs.wait(VerbId::from_number(77), Timeout::FOREVER),
        Err(Error::Invalid(_))
    ));
}

#[test]
fn two_clients_on_both_nodes_count_exactly() {
    let nodes = Nodes::start(&["p0", "p1"]);
    let host = nodes.attach("b");
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    thread::scope(|scope| {
        for node in ["a", "a", "b", "b"] {
            let nodes = &nodes;
            scope.spawn(move || {
                let device = nodes.attach(node);
                let mut verbs = device.verbs().unwrap();
                let counter = verbs
                    .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
                    .unwrap();
                for _ in 0..500 {
                    verbs.fetch_add(&counter, 0, 1, soon()).unwrap();
                }
            });
        }
    });
    assert_eq!(own.load(0).unwrap(), 2000);
}

/// A queue with one verb of unknown outcome: the only cable is pulled.
fn doubted(nodes: &Nodes, verbs: &mut Verbs<'_>, counter: &RemoteRegion) -> VerbId {
    nodes.set_port("p0", false);
    let before = Instant::now();
    let error = verbs
        .fetch_add(counter, 0, 1, before + Duration::from_millis(100))
        .unwrap_err();
    assert!(before.elapsed() >= Duration::from_millis(100));
    let Error::InDoubt { id, .. } = error else {
        panic!("{error}")
    };
    id
}

#[test]
fn a_deadline_leaves_doubt_and_a_later_wait_ends_it() {
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut verbs = device.verbs().unwrap();
    let counter = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    for round in 0..5 {
        let id = doubted(&nodes, &mut verbs, &counter);
        assert_eq!(verbs.outstanding(), 1);
        let error = verbs
            .wait(id, Instant::now() + Duration::from_millis(5))
            .unwrap_err();
        assert!(
            matches!(error, Error::InDoubt { id: same, .. } if same == id),
            "{error}"
        );
        nodes.set_port("p0", true);
        assert_eq!(verbs.wait(id, soon()).unwrap().outcome, Outcome::Old(round));
        assert_eq!(own.load(0).unwrap(), round + 1, "exactly once");
        assert!(
            matches!(verbs.wait(id, Timeout::FOREVER), Err(Error::Invalid(_))),
            "it ended once"
        );
    }
}

#[test]
fn a_deadline_leaves_doubt_and_a_later_poll_ends_it() {
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut verbs = device.verbs().unwrap();
    let counter = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    let id = doubted(&nodes, &mut verbs, &counter);
    nodes.set_port("p0", true);
    let taken = take(&mut verbs, 1);
    assert!(taken.iter().all(|completion| completion.id == id));
    assert_eq!(taken.last().unwrap().outcome, Outcome::Old(0));
    assert_eq!(own.load(0).unwrap(), 1);
}

#[test]
fn verbs_survive_a_cut_of_one_of_two_cables() {
    let nodes = Nodes::start(&["p0", "p1"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut verbs = device.verbs().unwrap();
    let counter = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    let mut seen = Vec::new();
    let mut completions = vec![Completion::default(); 64];
    for turn in 0..400 {
        match turn {
            100 => nodes.set_port("p0", false),
            200 => nodes.set_port("p0", true),
            300 => nodes.set_port("p1", false),
            _ => {}
        }
        while verbs.post(&counter, ADD, Mode::TwoPhase, 0).is_ok() {}
        let taken = verbs.poll(&mut completions, soon()).unwrap();
        seen.extend(
            completions[..taken]
                .iter()
                .filter(|completion| completion.outcome.is_final())
                .cloned(),
        );
    }
    let in_flight = verbs.outstanding();
    seen.extend(
        take(&mut verbs, in_flight)
            .into_iter()
            .filter(|completion| completion.outcome.is_final()),
    );
    let mut values: Vec<_> = seen
        .iter()
        .map(|completion| match completion.outcome {
            Outcome::Old(value) => value,
            ref other => panic!("{other:?}"),
        })
        .collect();
    values.sort_unstable();
    assert!(
        values.iter().copied().eq(0..own.load(0).unwrap()),
        "each value was handed out exactly once"
    );
}

#[test]
fn no_wake_up_is_lost_when_client_and_lanes_sleep_each_time() {
    let nodes = Nodes::start_with(&["p0"], "[dataplane]\nidle = \"interrupt\"\n");
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    device.set_spin(Duration::ZERO);
    let mut verbs = device.verbs_with_depth(1).unwrap();
    for target in [Target::Name("b"), Target::Local] {
        let Ok(counter) = verbs.open_region(target, "counter", Timeout::FOREVER) else {
            continue;
        };
        for _ in 0..1000 {
            verbs.fetch_add(&counter, 0, 1, soon()).unwrap();
        }
    }
    assert_eq!(
        own.load(0).unwrap(),
        1000,
        "the own node has no such region"
    );
}

#[test]
fn a_batch_rings_once() {
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut verbs = device.verbs_with_depth(64).unwrap();
    let counter = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    for rung in [true, false] {
        let before = device.doorbells();
        let mut batch = verbs.batch();
        for user_data in 0..32 {
            batch
                .post(&counter, ADD, Mode::OnePhase, user_data)
                .unwrap();
        }
        if rung {
            batch.ring().unwrap();
        } else {
            drop(batch);
        }
        assert_eq!(device.doorbells() - before, 1);
        let mut ended: Vec<_> = take(&mut verbs, 32)
            .iter()
            .map(|completion| completion.user_data)
            .collect();
        ended.sort_unstable();
        assert!(ended.into_iter().eq(0..32));
    }
    let before = device.doorbells();
    for user_data in 0..32 {
        verbs
            .post(&counter, ADD, Mode::OnePhase, user_data)
            .unwrap();
    }
    assert_eq!(
        device.doorbells() - before,
        32,
        "without a batch, each rings"
    );
    take(&mut verbs, 32);
    assert_eq!(own.load(0).unwrap(), 96);

    // Verbs that do not fit are not in the batch. Verbs posted before are.
    let mut batch = verbs.batch();
    let posted = (0..70)
        .take_while(|&user_data| batch.post(&counter, ADD, Mode::OnePhase, user_data).is_ok())
        .count();
    batch.ring().unwrap();
    assert_eq!(posted, 64);
    take(&mut verbs, posted);
    assert_eq!(own.load(0).unwrap(), 160);
}

#[test]
fn busy_is_returned_to_pollers_and_retried_for_waiters() {
    const EACH: u64 = 300;
    let nodes = Nodes::start(&["p0"]);
    let host = nodes.attach("b");
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let swap = |expected| Verb::CompareAndSwap {
        offset_bytes: 0,
        expected,
        new: expected + 1,
    };
    let device = nodes.attach("a");
    let mut verbs = device.verbs().unwrap();
    let counter = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    // All in one frame: the first verb holds the word while the others request it.
    let mut batch = verbs.batch();
    for _ in 0..16 {
        batch.post(&counter, swap(0), Mode::TwoPhase, 0).unwrap();
    }
    batch.ring().unwrap();
    let ended = take(&mut verbs, 16);
    let count = |outcome: &Outcome| {
        ended
            .iter()
            .filter(|entry| entry.outcome == *outcome)
            .count()
    };
    assert_eq!(count(&Outcome::Old(0)), 1);
    assert!(count(&Outcome::Refused(Refusal::Busy)) > 0, "{ended:?}");
    assert_eq!(own.load(0).unwrap(), 1);

    let increment = |node: &'static str| {
        let device = nodes.attach(node);
        let mut verbs = device.verbs().unwrap();
        let counter = verbs
            .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
            .unwrap();
        let (mut believed, mut done) = (0, 0);
        while done < EACH {
            let done_now =
                verbs.compare_and_swap(&counter, 0, believed, believed + 1, Timeout::FOREVER);
            match done_now.unwrap() {
                Ok(_) => {
                    done += 1;
                    believed += 1;
                }
                Err(found) => believed = found,
            }
        }
    };
    thread::scope(|scope| {
        for node in ["a", "a", "a", "b"] {
            scope.spawn(move || increment(node));
        }
    });
    assert_eq!(own.load(0).unwrap(), 1 + 4 * EACH);
}
