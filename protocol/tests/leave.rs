//! A node that shuts down gracefully leaves nothing half done.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{Mode, Refusal};
use support::{A, B, Bench, Ending};

/// Exchanges of each side.
const EACH: u64 = 12;

fn submit_all(bench: &mut Bench, side: usize) {
    for token in 0..EACH {
        let mode = [Mode::OnePhase, Mode::TwoPhase][token as usize % 2];
        bench.submit(side, mode, &[side as u8, token as u8], token);
    }
}

/// B leaves at any step of exchanges that both sides have open and waiting. Open exchanges end. B's
/// next incarnation executes those that wait at A. Those that wait at B are done or given back.
/// Each ends once, and none remains in doubt or is reported as lost.
#[test]
fn a_node_that_leaves_at_any_step_leaves_nothing_half_done() {
    for steps in 0..24 {
        let mut bench = Bench::up_with_slots(1, 4);
        submit_all(&mut bench, A);
        submit_all(&mut bench, B);
        for step in 0..steps {
            match step % 4 {
                0 => bench.send(A),
                1 => drop(bench.deliver(B, 0)),
                2 => bench.send(B),
                _ => drop(bench.deliver(A, 0)),
            }
        }
        bench.sides[B].node.leave();
        bench.settle();
        assert!(bench.sides[B].node.is_settled(), "{steps} steps");
        assert!(bench.sides[B].host.admitted.is_empty(), "{steps} steps");
        let (before, of_b) = (
            bench.sides[A].host.completed.len(),
            bench.sides[B].host.completed.len(),
        );
        assert_eq!(of_b, EACH as usize, "A grants what B needs");
        assert_eq!(bench.sides[B].host.executed.len(), before);
        // Nothing more begins.
        bench.run(3);
        assert_eq!(bench.sides[A].host.completed.len(), before);
        bench.restart(B);
        bench.run(3);
        let completions = &bench.sides[A].host.completed;
        assert_eq!(completions.len(), EACH as usize, "{steps} steps");
        let is_done = |(_, ending): &(u64, Ending)| matches!(ending, Ending::Committed(_));
        assert!(
            completions.iter().all(is_done),
            "{steps} steps: {completions:?}"
        );
        assert!(bench.sides[A].host.in_doubt.is_empty());
        for side in [A, B] {
            let mut executed = bench.sides[side].host.executed.clone();
            executed.sort();
            executed.dedup();
            assert_eq!(executed.len(), EACH as usize, "{steps} steps: each once");
        }
    }
}

/// An exchange that never left is reported as not executed. Without a link to any peer, the node
/// waits for nothing.
#[test]
fn exchanges_that_were_never_sent_are_given_back() {
    let mut bench = Bench::up_with_slots(1, 4);
    // No peer accepts it.
    bench.sides[A].node.set_grant(0, 0);
    bench.settle();
    submit_all(&mut bench, B);
    bench.sides[B].node.leave();
    bench.settle();
    assert!(bench.sides[B].node.is_settled());
    let side = &mut bench.sides[B];
    side.node.give_back(&mut side.host);
    let back = Ending::Refused(Refusal::NoResources);
    let expected: Vec<(u64, Ending)> = (0..EACH).map(|token| (token, back.clone())).collect();
    assert_eq!(side.host.completed, expected);
    assert_eq!(bench.sides[A].host.executed, []);

    let mut bench = Bench::up_with_slots(1, 4);
    submit_all(&mut bench, B);
    bench.send(B);
    bench.pull(0);
    bench.sides[B].node.leave();
    assert!(
        bench.sides[B].node.is_settled(),
        "in doubt, and no node is there to query"
    );
}

/// While something is open the node is not settled.
#[test]
fn leaving_waits_for_open_exchanges() {
    let mut bench = Bench::up_with_slots(1, 4);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.send(A);
    assert!(bench.deliver(B, 0));
    bench.sides[B].node.leave();
    // Message 2 must be sent, and then message 3 is awaited.
    assert!(!bench.sides[B].node.is_settled());
    bench.send(B);
    assert!(!bench.sides[B].node.is_settled());
    bench.settle();
    assert!(bench.sides[B].node.is_settled());
    assert_eq!(bench.sides[B].host.executed.len(), 1);
}

/// The node waits for withheld replies, unless the host knows that the disk will never finish.
#[test]
fn leaving_waits_for_withheld_answers_while_the_journal_works() {
    let mut bench = Bench::up_with_slots(1, 4);
    bench.sides[B].host.durable = true;
    bench.submit(A, Mode::OnePhase, b"x", 1);
    bench.settle();
    bench.sides[B].node.leave();
    bench.settle();
    let node = &bench.sides[B].node;
    assert!(node.withholds_answers() && !node.is_settled());
    assert!(node.is_settled_but_for_withheld());
    bench.sides[B].node.on_durable(1);
    assert!(
        !bench.sides[B].node.is_settled_but_for_withheld(),
        "it is to be sent"
    );
    bench.settle();
    let node = &bench.sides[B].node;
    assert!(node.is_settled() && !node.withholds_answers());
    assert_eq!(bench.sides[A].host.completed.len(), 1);
}
