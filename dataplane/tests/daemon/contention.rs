//! Two neighbors of one node, each with its own cable, and an application of that node: all contend
//! for one word.

use std::{thread, time::Instant};

use covalent_api::request::Request;
use covalent_protocol::{
    Mode,
    verb::{Status, Verb},
};

use super::{
    client::{App, Ended, Verbs},
    node::{Node, PATIENCE, eventually},
};

/// Increments of each client.
const EACH: u64 = 400;
/// Compare-and-swaps that a client has in flight, of which at most one finds the expected value.
const DEPTH: u64 = 4;

/// Counts the word at 0 up by compare-and-swap. Gives how many verbs found it busy.
fn count(verbs: &mut Verbs, target: u64, rkey: u32) -> u64 {
    let deadline = Instant::now() + PATIENCE * 2;
    let (mut believed, mut done, mut busy, mut open) = (0, 0, 0, 0);
    while done < EACH || open > 0 {
        assert!(Instant::now() < deadline, "{done} increments in time");
        while open < DEPTH && done < EACH {
            let verb = Verb::CompareAndSwap {
                expected: believed,
                new: believed + 1,
            };
            assert!(verbs.post(target, Mode::TwoPhase, 0, rkey, 0, verb));
            open += 1;
        }
        for (_, how) in verbs.wait() {
            if how.is_doubt() {
                continue;
            }
            open -= 1;
            match &how {
                Ended::Committed {
                    status: Status::Ok, ..
                } => {
                    done += 1;
                    believed = how.word() + 1;
                }
                Ended::Committed {
                    status: Status::Mismatch,
                    data,
                    ..
                } => believed = u64::from_le_bytes(data[..].try_into().expect("a word")),
                Ended::Other(packed) if packed == "Refused(Busy)" => busy += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    // Verbs that were in flight at the last increment may have incremented too.
    busy + ((done - EACH) << 32)
}

#[test]
fn neighbors_on_two_links_and_the_node_itself_lose_no_increment() {
    let dir = tempfile::tempdir().expect("a directory");
    let start = |name, cables: &[&str]| Node::new(dir.path(), name, cables, "").start();
    let (keeper, a, c) = (
        start("k", &["p0", "p1"]),
        start("a", &["p0"]),
        start("c", &["p1"]),
    );
    let mut control = keeper.client();
    eventually("all links are up", || {
        control.status().links.iter().all(|link| link.state == "up")
    });
    let mut owner = App::attach(&keeper.config.socket_path());
    let (rkey, memory) = owner.register("bank", 64);
    let total = thread::scope(|scope| {
        let clients = [&a, &c, &keeper].map(|node| {
            let (socket, target) = (node.config.socket_path(), keeper.guid());
            scope.spawn(move || count(&mut Verbs::new(App::attach(&socket)), target, rkey))
        });
        // Cut the links on the way: verbs open there are reversed and must not hold the word.
        for round in 0..6 {
            eventually("the count continues", || {
                memory.load(0).is_some_and(|count| count > round * EACH / 4)
            });
            for enabled in [false, true] {
                control.done(&Request::SetPort {
                    port: ["p0", "p1"][round as usize % 2].to_owned(),
                    enabled,
                });
            }
        }
        clients.map(|client| client.join().expect("a client"))
    });
    let more: u64 = total.iter().map(|packed| packed >> 32).sum();
    let busy: u64 = total
        .iter()
        .map(|packed| packed & u64::from(u32::MAX))
        .sum();
    assert_eq!(memory.load(0), Some(3 * EACH + more));
    let refused = keeper.status().verbs.refused;
    assert!(busy > 0, "{refused:?}");
    // A refused verb is sent again if its link fails then, so more refusals may be counted than
    // reported.
    assert!(refused["busy"] >= busy, "{refused:?}, {busy}");
}
