//! A result that is not on disk at the responder is never reported, wherever a link is cut.
//! Afterwards it is reported exactly once.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::Mode;
use support::{A, B, Bench, Ending};

const PAYLOAD: &[u8] = b"take 5 from 1, give them to 2";
const TOKEN: u64 = 42;

/// All links up, and B keeps a journal.
fn bench(cables: usize) -> Bench {
    let mut bench = Bench::up(cables);
    bench.sides[B].host.durable = true;
    bench
}

/// Takes `steps` steps of an exchange that A starts, as far as possible while B's disk makes no
/// progress.
fn walk(bench: &mut Bench, mode: Mode, steps: usize) {
    bench.submit(A, mode, PAYLOAD, TOKEN);
    for step in 0..steps {
        match step % 4 {
            0 => bench.send_on(A, 0),
            1 => drop(bench.deliver(B, 0)),
            2 => bench.send_on(B, 0),
            _ => drop(bench.deliver(A, 0)),
        }
    }
}

/// B's disk has done everything that was given to it.
fn sync(bench: &mut Bench) {
    let lsn = bench.sides[B].host.last_lsn;
    bench.sides[B].node.on_durable(lsn);
    bench.settle();
}

fn completed_tokens(bench: &Bench) -> Vec<u64> {
    let completed = &bench.sides[A].host.completed;
    completed.iter().map(|(token, _)| *token).collect()
}

fn assert_completed_once(bench: &Bench, what: &str) {
    let executed: Vec<_> = bench.sides[B].host.executed.iter().collect();
    assert_eq!(executed.len(), 1, "{what}");
    let reply = bench.sides[B].host.reply_to(PAYLOAD);
    let completed = &bench.sides[A].host.completed;
    assert_eq!(*completed, [(TOKEN, Ending::Committed(reply))], "{what}");
}

#[test]
fn a_cut_anywhere_reports_nothing_before_it_is_on_disk() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for cut in 0..=8 {
            for cables in [1, 2] {
                let what = format!("{mode:?}, cut behind step {cut}, {cables} cables");
                let mut bench = bench(cables);
                walk(&mut bench, mode, cut);
                bench.pull(0);
                // Long enough to give up the other link, if an unanswered query were a reason for
                // that.
                bench.run(20);
                assert!(completed_tokens(&bench).is_empty(), "{what}");
                bench.plug(0);
                bench.run(20);
                assert_eq!(bench.sides[B].host.executed.len(), 1, "{what}");
                assert!(completed_tokens(&bench).is_empty(), "{what}");
                bench.assert_up();
                let failures = bench.sides[A].host.downs().len();
                assert_eq!(failures, 1, "only the cut, {what}");
                sync(&mut bench);
                assert_completed_once(&bench, &what);
                bench.run(20);
                assert_completed_once(&bench, &what);
            }
        }
    }
}

#[test]
fn without_a_cut_the_answer_waits_for_the_disk_however_long() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = bench(1);
        walk(&mut bench, mode, 0);
        bench.run(50);
        assert_eq!(bench.sides[B].host.executed.len(), 1);
        assert!(completed_tokens(&bench).is_empty());
        assert!(bench.sides[A].host.downs().is_empty(), "nothing is lost");
        sync(&mut bench);
        assert_completed_once(&bench, &format!("{mode:?}"));
    }
}

#[test]
fn answers_on_disk_are_sent_and_later_ones_wait() {
    let mut bench = bench(1);
    for token in 1..=4 {
        let mode = [Mode::OnePhase, Mode::TwoPhase][token as usize % 2];
        bench.submit(A, mode, PAYLOAD, token);
        bench.settle();
    }
    let mut ends = vec![];
    for lsn in [2, 1, 3, 4] {
        bench.sides[B].node.on_durable(lsn);
        bench.settle();
        ends.push(completed_tokens(&bench));
    }
    assert_eq!(
        ends,
        [vec![1, 2], vec![1, 2], vec![1, 2, 3], vec![1, 2, 3, 4]]
    );
}

#[test]
fn an_exchange_that_is_already_on_disk_is_answered_at_once() {
    let mut bench = bench(1);
    bench.sides[B].node.on_durable(1);
    bench.submit(A, Mode::OnePhase, PAYLOAD, TOKEN);
    bench.settle();
    assert_completed_once(&bench, "on disk before");
}

#[test]
fn refusals_wait_for_nothing() {
    let mut bench = bench(1);
    bench.submit(A, Mode::OnePhase, PAYLOAD, 1);
    bench.settle();
    bench.sides[B].host.refuse = Some(covalent_protocol::Refusal::NoResources);
    bench.submit(A, Mode::OnePhase, PAYLOAD, 2);
    bench.settle();
    assert_eq!(completed_tokens(&bench), [2]);
    sync(&mut bench);
    assert_eq!(completed_tokens(&bench), [2, 1]);
}

#[test]
fn a_second_failure_drops_withheld_answers_and_queries_again() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = bench(2);
        walk(&mut bench, mode, 8);
        // Queried over the other link, which is pulled too while the reply is withheld there.
        bench.pull(0);
        bench.settle();
        bench.pull(1);
        bench.settle();
        sync(&mut bench);
        assert!(completed_tokens(&bench).is_empty(), "no link can report it");
        bench.plug(1);
        bench.settle();
        assert_completed_once(&bench, &format!("{mode:?}"));
    }
}
