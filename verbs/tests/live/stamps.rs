//! Stamps: the order of what several nodes executed.

use std::{
    cmp::Ordering,
    sync::{Arc, Barrier},
    thread,
};

use covalent_verbs::{
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
    let completion = verbs.wait_deadline(id, soon()).unwrap();
    assert_eq!(verbs.last_stamp(), completion.stamp);
    completion
}

#[test]
fn whoever_knows_of_a_completion_comes_after_it_on_every_node() {
    let nodes = Nodes::start(&["p0"]);
    let [a, b] = ["a", "b"].map(|name| nodes.attach(name));
    let _regions = [&a, &b].map(|device| device.register_region("log", 64, Rights::ALL).unwrap());
    let mut verbs = [a.verbs().unwrap(), b.verbs().unwrap()];
    let guids = [a.node().guid, b.node().guid];
    let mut before: Option<Stamp> = None;
    let mut counts = [[0; 2]; 2];
    for turn in 0..200 {
        // Who asks, whom, and how: one program after the other, each told of the last one's end.
        let (asker, asked, mode) = (turn % 2, turn / 2 % 2, turn / 4 % 2);
        let mode = [Mode::OnePhase, Mode::TwoPhase][mode];
        let asker_verbs = &mut verbs[asker];
        let region = asker_verbs
            .open_region_deadline(Target::Guid(guids[asked]), "log", soon())
            .unwrap();
        // That the other program's verb has ended is learned from the memory of its own node, through a verb.
        let node = ["a", "b"][1 - asker];
        let there = asker_verbs
            .open_region_deadline(Target::Name(node), "log", soon())
            .unwrap();
        run(asker_verbs, &there, ADD, Mode::OnePhase);
        let completion = run(asker_verbs, &region, ADD, mode);
        assert!(matches!(completion.outcome, Outcome::Old(_)));
        let stamp = completion.stamp;
        assert_eq!(stamp.executor, Some(guids[asked]));
        if let Some(before) = before.replace(stamp) {
            assert_eq!(
                before.order(&stamp),
                Some(Ordering::Less),
                "{before:?} {stamp:?}"
            );
        }
        let [by_executor, by_initiator] = &mut counts;
        for (count, now) in [
            (&mut by_executor[asked], stamp.executor_count),
            (&mut by_initiator[asker], stamp.initiator_count),
        ] {
            assert!(now > *count, "{now} after {count}");
            *count = now;
        }
    }

    // What is refused has no number, and a place all the same.
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
fn what_one_node_executed_is_counted_in_its_order_whoever_asked_and_through_cuts() {
    const EACH: u64 = 300;
    const CLIENTS: [&str; 3] = ["a", "b", "a"];
    let nodes = Nodes::start(&["p0", "p1"]);
    let keeper = nodes.attach("b");
    let _region = keeper.register_region("log", 64, Rights::ALL).unwrap();
    // While no link is up a node knows no other one by its name: nothing is cut before all have asked.
    let asked = Arc::new(Barrier::new(CLIENTS.len() + 1));
    let clients: Vec<_> = CLIENTS
        .iter()
        .map(|name| {
            let (device, asked) = (nodes.socket(name), Arc::clone(&asked));
            thread::spawn(move || {
                let device = covalent_verbs::Device::attach(device, "test").unwrap();
                let mut verbs = device.verbs().unwrap();
                let log = verbs
                    .open_region_deadline(Target::Name("b"), "log", soon())
                    .unwrap();
                asked.wait();
                let mut taken = Vec::new();
                let mut completions = vec![Completion::default(); 16];
                let (mut posted, mut ended) = (0, 0);
                while ended < EACH {
                    while posted < EACH && verbs.outstanding() < 16 {
                        let mode = [Mode::OnePhase, Mode::TwoPhase][posted as usize / 16 % 2];
                        verbs.post(&log, ADD, mode, posted).unwrap();
                        posted += 1;
                    }
                    let came = verbs.poll_deadline(&mut completions, soon()).unwrap();
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
    asked.wait();
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
    // What the word held before tells the order in which the additions were executed.
    all.sort_by_key(|(old, _)| *old);
    for pair in all.windows(2) {
        let [(_, one), (_, next)] = [pair[0], pair[1]];
        assert!(one.executor_count < next.executor_count, "{one:?} {next:?}");
        assert_eq!(one.order(&next), Some(Ordering::Less), "{one:?} {next:?}");
    }
}
