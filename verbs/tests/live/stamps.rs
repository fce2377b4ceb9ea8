//! Stamps: the order of executions on several nodes.

use std::{
    cmp::Ordering,
    sync::{Arc, Barrier},
    thread,
};

use covalent::{
    Completion, Mode, Outcome, Refusal, RemoteRegion, Rights, Stamp, Target, Verb, Verbs,
};

use crate::nodes::{Nodes, soon};

const ADD: Verb<'_> = Verb::FetchAdd {
    offset_bytes: 0,
    delta: 1,
};

/// Posts a verb and waits for its end.
fn run(verbs: &mut Verbs<'_>, region: &RemoteRegion, verb: Verb<'_>, mode: Mode) -> Completion {
    let id = verbs.post(region, verb, mode, 0).unwrap();
    let completion = verbs.wait(id, soon()).unwrap();
    assert_eq!(verbs.last_stamp(), completion.stamp);
    completion
}

#[test]
fn stamps_order_a_verb_after_every_completion_it_knows() {
    let nodes = Nodes::start(&["p0"]);
    let [a, b] = ["a", "b"].map(|name| nodes.attach(name));
    let _regions = [&a, &b].map(|device| device.register_region("log", 64, Rights::ALL).unwrap());
    let mut verbs = [a.verbs().unwrap(), b.verbs().unwrap()];
    let guids = [a.node().guid, b.node().guid];
    let mut before: Option<Stamp> = None;
    let mut counts = [[0; 2]; 2];
    for turn in 0..200 {
        // The initiator, the target and the mode of this turn. Each program acts after it learned
        // of the last completion.
        let (initiator, requested, mode) = (turn % 2, turn / 2 % 2, turn / 4 % 2);
        let mode = [Mode::OnePhase, Mode::TwoPhase][mode];
        let initiator_verbs = &mut verbs[initiator];
        let region = initiator_verbs
            .open_region(Target::Guid(guids[requested]), "log", soon())
            .unwrap();
        // The program learns from the memory of the other program's node, through a verb, that its
        // verb has completed.
        let node = ["a", "b"][1 - initiator];
        let there = initiator_verbs
            .open_region(Target::Name(node), "log", soon())
            .unwrap();
        run(initiator_verbs, &there, ADD, Mode::OnePhase);
        let completion = run(initiator_verbs, &region, ADD, mode);
        assert!(matches!(completion.outcome, Outcome::Old(_)));
        let stamp = completion.stamp;
        assert_eq!(stamp.executor, Some(guids[requested]));
        if let Some(before) = before.replace(stamp) {
            assert_eq!(
                before.order(&stamp),
                Some(Ordering::Less),
                "{before:?} {stamp:?}"
            );
        }
        let [by_executor, by_initiator] = &mut counts;
        for (count, now) in [
            (&mut by_executor[requested], stamp.executor_count),
            (&mut by_initiator[initiator], stamp.initiator_count),
        ] {
            assert!(now > *count, "{now} after {count}");
            *count = now;
        }
    }

    // A refused verb has no number, but has a position.
    let wrong = RemoteRegion::from_key(Some(guids[1]), 1, 64, Rights::ALL);
    let refused = run(&mut verbs[0], &wrong, ADD, Mode::TwoPhase);
    assert_eq!(refused.outcome, Outcome::Refused(Refusal::UnknownRegion));
    assert_eq!(
        (refused.stamp.executor, refused.stamp.executor_count),
        (Some(guids[1]), 0)
    );
    let wrong = RemoteRegion::from_key(None, 1, 64, Rights::ALL);
    let here = run(&mut verbs[0], &wrong, ADD, Mode::OnePhase);
    let last = run(&mut verbs[0], &wrong, ADD, Mode::OnePhase).stamp;
    let stamps = [before.unwrap(), refused.stamp, here.stamp, last];
    for pair in stamps.windows(2) {
        assert_eq!(pair[0].order(&pair[1]), Some(Ordering::Less), "{pair:?}");
    }
}

#[test]
fn executor_counts_follow_execution_order_for_all_clients_and_cuts() {
    const EACH: u64 = 300;
    const CLIENTS: [&str; 3] = ["a", "b", "a"];
    let nodes = Nodes::start(&["p0", "p1"]);
    let keeper = nodes.attach("b");
    let _region = keeper.register_region("log", 64, Rights::ALL).unwrap();
    // While no link is up, a node knows no other node by name: cut nothing before all clients have
    // looked up theirs.
    let requested = Arc::new(Barrier::new(CLIENTS.len() + 1));
    let clients: Vec<_> = CLIENTS
        .iter()
        .map(|name| {
            let (device, requested) = (nodes.socket(name), Arc::clone(&requested));
            thread::spawn(move || {
                let device = covalent::Device::attach(device, "test").unwrap();
                let mut verbs = device.verbs().unwrap();
                let log = verbs.open_region(Target::Name("b"), "log", soon()).unwrap();
                requested.wait();
                let mut taken = Vec::new();
                let mut completions = vec![Completion::default(); 16];
                let (mut posted, mut ended) = (0, 0);
                while ended < EACH {
                    while posted < EACH && verbs.outstanding() < 16 {
                        let mode = [Mode::OnePhase, Mode::TwoPhase][posted as usize / 16 % 2];
                        verbs.post(&log, ADD, mode, posted).unwrap();
                        posted += 1;
                    }
                    let came = verbs.poll(&mut completions, soon()).unwrap();
                    for completion in &completions[..came] {
                        if let Outcome::Old(old) = completion.outcome {
                            taken.push((old, completion.stamp));
                        }
                        ended += u64::from(completion.outcome.is_final());
                    }
                }
                taken
            })
        })
        .collect();
    requested.wait();
    for turn in 0..10 {
        let port = ["p0", "p1"][turn % 2];
        nodes.set_port(port, false);
        thread::sleep(std::time::Duration::from_millis(5));
        nodes.set_port(port, true);
    }
    let mut all = Vec::new();
    for client in clients {
        let taken = client.join().unwrap();
        let counts = taken.iter().map(|(_, stamp)| stamp.initiator_count);
        assert!(counts.is_sorted_by(|one, next| one < next));
        all.extend(taken);
    }
    assert_eq!(all.len() as u64, 3 * EACH);
    // The word's previous value gives the order in which the additions were executed.
    all.sort_by_key(|(old, _)| *old);
    for pair in all.windows(2) {
        let [(_, one), (_, next)] = [pair[0], pair[1]];
        assert!(one.executor_count < next.executor_count, "{one:?} {next:?}");
        assert_eq!(one.order(&next), Some(Ordering::Less), "{one:?} {next:?}");
    }
}
