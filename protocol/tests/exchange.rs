//! Exchanges on a link that does not fail.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{MAX_PAYLOAD_BYTES, Mode, Refusal, SubmitError, wire::slice::Kind};
use support::{A, B, Bench, Ending, GUIDS};

#[test]
fn a_two_phase_exchange_is_four_messages() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::TwoPhase, b"move 5", 7);

    bench.send(A);
    assert_eq!(bench.under_way(B, 0), [Kind::Tentative]);
    assert!(bench.deliver(B, 0));
    assert!(
        bench.sides[B].host.executed.is_empty(),
        "kept, not executed"
    );
    bench.send(B);
    assert_eq!(bench.under_way(A, 0), [Kind::Reflecting]);
    assert!(bench.deliver(A, 0));
    assert!(bench.sides[A].host.completed.is_empty());
    bench.send(A);
    assert_eq!(bench.under_way(B, 0), [Kind::Commit]);
    assert!(bench.deliver(B, 0));
    assert_eq!(
        bench.sides[B].host.executed,
        [(GUIDS[A], b"move 5".to_vec())]
    );
    bench.send(B);
    assert_eq!(bench.under_way(A, 0), [Kind::Committed]);
    assert!(bench.deliver(A, 0));
    let reply = bench.sides[B].host.reply_to(b"move 5");
    assert_eq!(
        bench.sides[A].host.completed,
        [(7, Ending::Committed(reply))]
    );
    bench.send(A);
    bench.send(B);
    assert!(
        bench.under_way(A, 0).is_empty() && bench.under_way(B, 0).is_empty(),
        "two round trips and no more"
    );
}

#[test]
fn a_one_phase_exchange_is_two_messages() {
    let mut bench = Bench::up(1);
    bench.submit(B, Mode::OnePhase, b"add 1", 8);
    bench.send(B);
    assert_eq!(bench.under_way(A, 0), [Kind::Request]);
    assert!(bench.deliver(A, 0));
    assert_eq!(
        bench.sides[A].host.executed,
        [(GUIDS[B], b"add 1".to_vec())]
    );
    bench.send(A);
    assert_eq!(bench.under_way(B, 0), [Kind::Reflecting]);
    assert!(bench.deliver(B, 0));
    let reply = bench.sides[A].host.reply_to(b"add 1");
    assert_eq!(
        bench.sides[B].host.completed,
        [(8, Ending::Committed(reply))]
    );
    bench.send(A);
    bench.send(B);
    assert!(
        bench.under_way(A, 0).is_empty() && bench.under_way(B, 0).is_empty(),
        "one round trip and no more"
    );
}

#[test]
fn a_refusal_returns_the_ownership_and_leaves_no_trace() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = Bench::up(1);
        bench.sides[B].host.refuse = Some(Refusal::NoRight);
        bench.submit(A, mode, b"x", 1);
        bench.settle();
        assert_eq!(
            bench.sides[A].host.completed,
            [(1, Ending::Refused(Refusal::NoRight))]
        );
        assert!(bench.sides[B].host.executed.is_empty());
        bench.sides[B].host.refuse = None;
        bench.submit(A, mode, b"x", 2);
        bench.settle();
        assert_eq!(bench.sides[A].host.completed[1].0, 2);
        assert_eq!(bench.sides[B].host.executed.len(), 1);
        assert_eq!(bench.link(A, 0).counters.refused, 1);
    }
}

#[test]
fn payloads_of_every_length_arrive_byte_for_byte() {
    let mut bench = Bench::up(1);
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for len in 1..=MAX_PAYLOAD_BYTES {
            let payload: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            bench.sides[B].host.reply_bytes = Some(MAX_PAYLOAD_BYTES + 1 - len);
            bench.submit(A, mode, &payload, len as u64);
            bench.settle();
            assert_eq!(
                bench.sides[B].host.executed.pop(),
                Some((GUIDS[A], payload.clone()))
            );
            let reply = bench.sides[B].host.reply_to(&payload);
            assert_eq!(
                bench.sides[A].host.completed.pop(),
                Some((len as u64, Ending::Committed(reply)))
            );
        }
    }
    assert!(bench.sides[A].host.downs().is_empty());
}

#[test]
fn more_exchanges_than_slots_wait_their_turn_and_share_frames() {
    let mut bench = Bench::up_with_slots(2, 4);
    for token in 0..100 {
        for side in [A, B] {
            bench.submit(side, Mode::OnePhase, &[token as u8], token);
        }
    }
    bench.send_on(A, 0);
    assert_eq!(bench.cables[0][B].len(), 1, "four slots, one frame");
    assert_eq!(bench.under_way(B, 0), [Kind::Request; 4]);
    bench.settle();
    for side in &bench.sides {
        assert_eq!(
            (side.host.executed.len(), side.host.completed.len()),
            (100, 100)
        );
        let mut tokens: Vec<u64> = side
            .host
            .completed
            .iter()
            .map(|(token, _)| *token)
            .collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn what_cannot_be_taken_is_refused_at_once() {
    let mut bench = Bench::up(1);
    let node = &mut bench.sides[A].node;
    assert_eq!(
        node.submit(99, Mode::OnePhase, b"x", 0),
        Err(SubmitError::NoSuchPeer)
    );
    assert_eq!(
        node.submit(GUIDS[B], Mode::OnePhase, b"", 0),
        Err(SubmitError::Empty)
    );
    let long = [0; MAX_PAYLOAD_BYTES + 1];
    assert_eq!(
        node.submit(GUIDS[B], Mode::OnePhase, &long, 0),
        Err(SubmitError::TooLong {
            len: long.len(),
            max: MAX_PAYLOAD_BYTES
        })
    );
    let room = node.room();
    for token in 0..u64::from(room) {
        assert_eq!(node.submit(GUIDS[B], Mode::OnePhase, b"x", token), Ok(()));
    }
    assert_eq!(
        node.submit(GUIDS[B], Mode::OnePhase, b"x", 0),
        Err(SubmitError::Full)
    );
    bench.settle();
    assert_eq!(bench.sides[A].host.completed.len(), room as usize);
    assert_eq!(bench.sides[A].node.room(), room);
}

/// The window has room for a short message but not for the next, which is long: nothing can be sent, and a caller that
/// asks is told so.
#[test]
fn a_message_that_must_wait_is_no_work() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = Bench::up_with_slots(1, 64);
        for token in 0..20 {
            bench.submit(A, mode, &[7; 900], token);
        }
        bench.send(A);
        let records = bench.records_under_way(B, 0);
        assert!(
            records > 150 && records + 20 > 192,
            "the window is not full, with {records}"
        );
        assert!(!bench.sides[A].node.has_work(0));
        bench.settle();
        assert_eq!(bench.sides[A].host.completed.len(), 20);
    }
}
