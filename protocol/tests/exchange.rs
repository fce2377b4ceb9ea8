//! Exchanges on a link that does not fail.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DownReason, MAX_PAYLOAD_BYTES, Mode, Refusal, SubmitError, wire::slice::Kind,
};
use support::{A, B, Bench, Ending, GUIDS, headers};

#[test]
fn a_two_phase_exchange_is_four_messages() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::TwoPhase, b"move 5", 7);

    bench.send(A);
    assert_eq!(bench.in_flight(B, 0), [Kind::Tentative]);
    assert!(bench.deliver(B, 0));
    assert!(
        bench.sides[B].host.executed.is_empty(),
        "kept, not executed"
    );
    bench.send(B);
    assert_eq!(bench.in_flight(A, 0), [Kind::Reflecting]);
    assert!(bench.deliver(A, 0));
    assert!(bench.sides[A].host.completed.is_empty());
    bench.send(A);
    assert_eq!(bench.in_flight(B, 0), [Kind::Commit]);
    assert!(bench.deliver(B, 0));
    assert_eq!(
        bench.sides[B].host.executed,
        [(GUIDS[A], b"move 5".to_vec())]
    );
    bench.send(B);
    assert_eq!(bench.in_flight(A, 0), [Kind::Committed]);
    assert!(bench.deliver(A, 0));
    let reply = bench.sides[B].host.reply_to(b"move 5");
    assert_eq!(
        bench.sides[A].host.completed,
        [(7, Ending::Committed(reply))]
    );
    bench.send(A);
    bench.send(B);
    assert!(
        bench.in_flight(A, 0).is_empty() && bench.in_flight(B, 0).is_empty(),
        "two round trips and no more"
    );
}

#[test]
fn a_one_phase_exchange_is_two_messages() {
    let mut bench = Bench::up(1);
    bench.submit(B, Mode::OnePhase, b"add 1", 8);
    bench.send(B);
    assert_eq!(bench.in_flight(A, 0), [Kind::Request]);
    assert!(bench.deliver(A, 0));
    assert_eq!(
        bench.sides[A].host.executed,
        [(GUIDS[B], b"add 1".to_vec())]
    );
    bench.send(A);
    assert_eq!(bench.in_flight(B, 0), [Kind::Reflecting]);
    assert!(bench.deliver(B, 0));
    let reply = bench.sides[A].host.reply_to(b"add 1");
    assert_eq!(
        bench.sides[B].host.completed,
        [(8, Ending::Committed(reply))]
    );
    bench.send(A);
    bench.send(B);
    assert!(
        bench.in_flight(A, 0).is_empty() && bench.in_flight(B, 0).is_empty(),
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
    assert_eq!(bench.in_flight(B, 0), [Kind::Request; 4]);
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
fn invalid_submissions_are_refused_at_once() {
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

/// The window has space for a short message but not for the next one, which is long. Nothing can be
/// sent, and `has_work` returns `false`.
#[test]
fn a_message_that_must_wait_is_no_work() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = Bench::up_with_slots(1, 64);
        for token in 0..20 {
            bench.submit(A, mode, &[7; 900], token);
        }
        bench.send(A);
        let records = bench.records_in_flight(B, 0);
        assert!(
            records > 150 && records + 20 > 192,
            "the window is not full, with {records}"
        );
        assert!(!bench.sides[A].node.has_work(0));
        bench.settle();
        assert_eq!(bench.sides[A].host.completed.len(), 20);
    }
}

/// With more exchanges than slots, every request carries a commit and every reply a reflection. An
/// exchange of four messages then costs as many records as one of two.
#[test]
fn under_load_the_confirm_rides() {
    const EXCHANGES: u64 = 6_400;
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = Bench::up_with_slots(1, 64);
        let before = [A, B].map(|side| bench.link(side, 0).counters.tx_records);
        let mut submitted = 0;
        while bench.sides[A].host.completed.len() < EXCHANGES as usize {
            while submitted < EXCHANGES && bench.sides[A].node.room() > 100 {
                submitted += 1;
                bench.submit(A, mode, &[7; 28], submitted);
            }
            for side in [A, B] {
                bench.send(side);
                while bench.deliver(1 - side, 0) {}
            }
        }
        for (side, before) in [A, B].into_iter().zip(before) {
            let records = bench.link(side, 0).counters.tx_records - before;
            // The first half of the slots, and the last, find nothing to ride on.
            assert!(
                (EXCHANGES..=EXCHANGES + 32).contains(&records),
                "{records} records of {side} for {EXCHANGES} exchanges in {mode:?}"
            );
        }
        assert_eq!(bench.sides[B].host.executed.len() as u64, EXCHANGES);
        assert!(bench.sides[B].host.admitted.is_empty());
    }
}

/// Confirmations that find no record to ride on are sent at once, two in a record.
#[test]
fn commits_and_reflections_without_a_carrier_go_in_pairs() {
    let mut bench = Bench::up_with_slots(1, 5);
    for token in 0..5 {
        bench.submit(A, Mode::TwoPhase, b"x", token);
    }
    bench.send(A);
    assert_eq!(bench.in_flight(B, 0), [Kind::Tentative; 5]);
    bench.deliver(B, 0);
    bench.send(B);
    assert_eq!(bench.in_flight(A, 0), [Kind::Reflecting; 3]);
    bench.deliver(A, 0);
    bench.send(A);
    assert_eq!(bench.in_flight(B, 0), [Kind::Commit; 3]);
    bench.deliver(B, 0);
    bench.send(B);
    assert_eq!(bench.in_flight(A, 0), [Kind::Committed; 5]);
    bench.deliver(A, 0);
    assert_eq!(bench.sides[A].host.completed.len(), 5);
}

/// A request of 4096 bytes and a reply of the same length take four frames each. All but the last
/// are full.
#[test]
fn a_long_message_is_cut_into_fragments() {
    let mut bench = Bench::up(1);
    bench.sides[B].host.reply_bytes = Some(MAX_PAYLOAD_BYTES);
    bench.submit(A, Mode::OnePhase, &[7; MAX_PAYLOAD_BYTES], 1);
    bench.submit(A, Mode::OnePhase, b"short", 2);
    for (side, kind) in [(A, Kind::Request), (B, Kind::Reflecting)] {
        bench.send(side);
        let sent = &bench.cables[0][1 - side];
        let fragments: Vec<_> = sent
            .iter()
            .flat_map(|frame| headers(frame))
            .map(|header| {
                assert_eq!(header.kind, kind);
                (
                    header.shape.fragment,
                    header.shape.more,
                    header.shape.records,
                )
            })
            .take(4)
            .collect();
        let full = |number| (number, true, 23);
        assert_eq!(fragments, [full(0), full(1), full(2), (3, false, 18)]);
        while bench.deliver(1 - side, 0) {}
    }
    assert_eq!(bench.sides[A].host.completed.len(), 2);
}

/// Many long messages in both directions pass through the window in turn, with keepalives between
/// their fragments.
#[test]
fn long_messages_wait_for_the_window_and_lose_nothing() {
    let mut bench = Bench::up_with_slots(1, 64);
    for token in 0..60 {
        for side in [A, B] {
            let mode = [Mode::OnePhase, Mode::TwoPhase][token as usize % 2];
            bench.submit(side, mode, &[token as u8; 3_000], token);
        }
    }
    // Each side fills its window before it receives from the other.
    bench.send(A);
    bench.send(B);
    for side in [A, B] {
        let in_flight = bench.records_in_flight(1 - side, 0);
        assert!((170..=192).contains(&in_flight), "{in_flight}");
    }
    bench.settle();
    for side in [A, B] {
        let host = &bench.sides[side].host;
        assert_eq!(host.downs(), []);
        assert_eq!((host.completed.len(), host.executed.len()), (60, 60));
        for (token, ending) in &host.completed {
            assert_eq!(*ending, Ending::Committed(vec![!(*token as u8); 3_000]));
        }
    }
}

#[test]
fn a_node_enforces_its_configured_message_size() {
    for message_bytes_max in [1, 64, 100, 2_000] {
        let mut bench = Bench::with_message_bytes(message_bytes_max);
        let max = usize::from(message_bytes_max);
        for (token, mode) in [(1, Mode::OnePhase), (2, Mode::TwoPhase)] {
            let long = vec![7; max + 1];
            assert_eq!(
                bench.sides[A].node.submit(GUIDS[B], mode, &long, token),
                Err(SubmitError::TooLong { len: max + 1, max })
            );
            bench.submit(A, mode, &long[1..], token);
        }
        bench.settle();
        assert_eq!(bench.sides[A].host.completed.len(), 2);
        // A peer with a higher limit sends a longer message, which is not received to its end.
        let mut peer = Bench::with_message_bytes(message_bytes_max);
        peer.sides[A] = Bench::new(1).sides.into_iter().next().unwrap();
        peer.carrier_at(A, 0, true);
        peer.run(2);
        peer.submit(A, Mode::OnePhase, &vec![7; max + 9], 1);
        peer.send(A);
        while peer.deliver(B, 0) {}
        assert_eq!(
            peer.sides[B].host.downs().last(),
            Some(&DownReason::Violation)
        );
        assert!(peer.sides[B].host.executed.is_empty());
    }
}

/// Lamport clocks: every event of a node before it sent a message has a smaller clock than every
/// event of the receiver after it.
#[test]
fn clocks_follow_received_clocks() {
    let mut bench = Bench::up(1);
    let clocks = |bench: &Bench| [A, B].map(|side| bench.sides[side].node.clock());
    let start = clocks(&bench);
    for token in 0..50 {
        bench.submit(A, Mode::OnePhase, b"x", token);
        bench.send(A);
        let message_clock = headers(&bench.cables[0][B][0])[0].clock;
        let [a, before] = clocks(&bench);
        assert_eq!(
            u64::from(message_clock),
            a,
            "a message has the clock of its sender"
        );
        bench.deliver(B, 0);
        let [_, b] = clocks(&bench);
        assert!(b > a && b > before, "{b} after {a} and {before}");
        bench.send(B);
        bench.deliver(A, 0);
        assert!(clocks(&bench)[A] > b);
    }
    assert!(clocks(&bench)[A] >= start[A] + 200);
}
