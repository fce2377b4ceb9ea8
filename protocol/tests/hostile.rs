//! Peers that lie under a valid CRC. The worst effect is a failed link, and a failed link comes
//! back.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, DownReason, FRAME_BYTES_MAX, LinkState, MAX_PAYLOAD_BYTES, Mode,
    wire::{
        FRAME_PAYLOAD_BYTES_MAX, MESSAGE_PAYLOAD_BYTES_MAX,
        frame::FrameWriter,
        message,
        record::{Header, NO_PIGGYBACK, Shape},
        slice::{self, Kind},
    },
};
use proptest::{collection::vec, prelude::*};
use support::{A, B, Bench, Ending, GUIDS, forge, headers, kinds};

/// A record arrives at A that B could send next, except for the changes of `change`.
fn inject_record(bench: &mut Bench, payload: &[u8], change: impl FnOnce(&mut Header)) {
    let mut header = Header {
        kind: Kind::Keepalive,
        yours: 0,
        epoch: bench.link(A, 0).epoch,
        record_sequence: (bench.link(A, 0).counters.rx_records) as u32,
        slot_sequence: 0,
        slot: 0,
        piggyback: NO_PIGGYBACK,
        clock: 0,
        shape: Shape::whole(payload.len()),
    };
    change(&mut header);
    let mut buffer = [0; FRAME_BYTES_MAX];
    let mut writer = FrameWriter::new(&mut buffer).unwrap();
    message::write(&header, payload, &mut writer);
    let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
    bench.inject(A, 0, &buffer[..len]);
}

/// A keepalive of B.
fn keepalive(owes: bool) -> Vec<u8> {
    let mut bench = Bench::up(1);
    bench.tick();
    bench.send(B);
    let frame = bench.cables[0][A].pop_front().unwrap();
    assert_eq!(kinds(&frame), [Kind::Keepalive]);
    let mut bytes = frame[14 + 28..14 + 56].to_vec();
    bytes[0] = u8::from(owes);
    bytes
}

/// A handshake frame of a node that claims to be `guid`, for the epoch that the link at `side`
/// proposes or holds next.
fn hello(
    bench: &Bench,
    side: usize,
    cable: usize,
    template: &[u8],
    guid: u64,
    echo: bool,
) -> Vec<u8> {
    let link = bench.link(side, cable);
    let epoch = (link.epoch + u32::from(link.state == LinkState::Up)).to_le_bytes();
    let mut frame = template.to_vec();
    forge(&mut frame, 0, |record| {
        record[8..12].copy_from_slice(&epoch);
        record[28..36].copy_from_slice(&guid.to_le_bytes());
        record[36..44].copy_from_slice(&1u64.to_le_bytes());
        record[44..52].copy_from_slice(&(100 + side as u64).to_le_bytes());
        record[52..56].copy_from_slice(&epoch);
    });
    forge(&mut frame, 1, |record| {
        record[8 + 3] = u8::from(echo) | 0b10;
    });
    frame
}

/// The stranger `guid` makes the link at `side` believe that it is the neighbor.
fn introduce(bench: &mut Bench, side: usize, cable: usize, template: &[u8], guid: u64) {
    if bench.link(side, cable).state == LinkState::Up {
        // It echoes the handshake of the end that is up with another peer.
        let epoch = bench.link(side, cable).epoch.to_le_bytes();
        let mut frame = hello(bench, side, cable, template, guid, true);
        forge(&mut frame, 0, |record| {
            record[8..12].copy_from_slice(&epoch);
            record[52..56].copy_from_slice(&epoch);
        });
        bench.inject(side, cable, &frame);
        assert_eq!(bench.link(side, cable).state, LinkState::Init);
    }
    for echo in [false, true] {
        let frame = hello(bench, side, cable, template, guid, echo);
        bench.inject(side, cable, &frame);
        bench.tick();
        bench.send(side);
    }
    assert_eq!(bench.link(side, cable).peer, Some(guid));
    bench.lose(cable);
}

/// The link came back and works fully: each slot, both directions, both modes.
fn assert_reconverges(bench: &mut Bench) {
    bench.run(12);
    bench.assert_up();
    let before = bench.sides.each_ref().map(|side| side.host.completed.len());
    for token in 0..32 {
        let mode = if token % 2 == 0 {
            Mode::OnePhase
        } else {
            Mode::TwoPhase
        };
        bench.submit(A, mode, b"afterwards", 1_000_000 + token);
        bench.submit(B, mode, b"afterwards", 1_000_000 + token);
    }
    bench.run(12);
    for (side, before) in bench.sides.iter().zip(before) {
        assert_eq!(side.host.completed.len(), before + 32);
        assert_eq!((side.node.room(), side.node.in_doubt()), (300, 0));
    }
}

#[test]
fn messages_that_no_peer_sends_fail_the_link_and_nothing_else() {
    type Lie = (&'static str, Vec<u8>, fn(&mut Header));
    let lies: Vec<Lie> = vec![
        ("a slot beyond the grant", vec![1], |header| {
            header.kind = Kind::Request;
            (header.slot, header.slot_sequence) = (4, 1);
        }),
        ("a request without a payload", vec![], |header| {
            header.kind = Kind::Tentative;
            header.slot_sequence = 1;
        }),
        ("a commit of nothing", vec![], |header| {
            header.kind = Kind::Commit
        }),
        ("an answer to nothing", vec![1], |header| {
            header.kind = Kind::Reflecting
        }),
        ("a reply to nothing", vec![1], |header| {
            header.kind = Kind::Committed
        }),
        ("a refusal of nothing", vec![1], |header| {
            header.kind = Kind::Refused
        }),
        ("an answer to no question", vec![0; 8], |header| {
            header.kind = Kind::Resolved
        }),
        ("half an answer", vec![0; 7], |header| {
            header.kind = Kind::Resolved
        }),
        ("half a question", vec![0; 7], |header| {
            header.kind = Kind::Resolve
        }),
        ("a question about no slot", vec![0; 8], |header| {
            header.kind = Kind::Resolve;
            header.slot = 255;
        }),
        ("half a question to pass on", vec![0; 20], |header| {
            header.kind = Kind::Relay
        }),
        ("an answer through it to nothing", vec![0; 8], |header| {
            header.kind = Kind::Relayed
        }),
        ("an answer from no place", vec![0; 8], |header| {
            header.kind = Kind::Relayed;
            header.slot = 255;
        }),
    ];
    for (what, payload, change) in lies {
        let mut bench = Bench::up(1);
        inject_record(&mut bench, &payload, change);
        assert_eq!(
            bench.sides[A].host.downs(),
            [DownReason::Violation],
            "{what}"
        );
        assert!(
            bench.sides[A].host.executed.is_empty() && bench.sides[A].host.completed.is_empty(),
            "{what}"
        );
        assert_reconverges(&mut bench);
    }
}

/// A piggybacked commit or acknowledgment is checked as if it had come by itself.
#[test]
fn a_piggyback_for_a_slot_in_another_state_fails_the_link() {
    let kinds_of_request = [Kind::Request, Kind::Tentative];
    for kind in kinds_of_request {
        for (piggyback, fails) in [
            (0, true),
            (1, true),
            (3, true),
            (4, true),
            (254, true),
            (NO_PIGGYBACK, false),
        ] {
            let mut bench = Bench::up(1);
            inject_record(&mut bench, &[1], |header| {
                header.kind = kind;
                (header.slot, header.slot_sequence, header.piggyback) = (0, 1, piggyback);
            });
            let downs = if fails {
                vec![DownReason::Violation]
            } else {
                vec![]
            };
            assert_eq!(
                bench.sides[A].host.downs(),
                downs,
                "{kind:?} with {piggyback}"
            );
            assert_eq!(
                bench.sides[A].host.executed.len(),
                usize::from(!fails && kind == Kind::Request)
            );
            assert_reconverges(&mut bench);
        }
    }
    // A commit of a kept request before message 2 was sent; then one after it; and the latter
    // again.
    let mut bench = Bench::up(1);
    for (slot, sends, fails) in [(1, false, true), (1, true, false)] {
        let mut bench = Bench::up(1);
        inject_record(&mut bench, &[7], |header| {
            header.kind = Kind::Tentative;
            (header.slot, header.slot_sequence) = (slot, 1);
        });
        if sends {
            bench.send(A);
        }
        inject_record(&mut bench, &[8], |header| {
            header.kind = Kind::Request;
            (header.slot, header.slot_sequence, header.piggyback) = (2, 1, slot);
        });
        let downs = if fails {
            vec![DownReason::Violation]
        } else {
            vec![]
        };
        assert_eq!(bench.sides[A].host.downs(), downs);
        let executed: Vec<_> = bench.sides[A]
            .host
            .executed
            .iter()
            .map(|(_, payload)| payload[0])
            .collect();
        assert_eq!(executed, if fails { vec![] } else { vec![7, 8] });
        assert_reconverges(&mut bench);
    }
    // A reflection of a slot that waits for no message 2: a free one, an executing one, one beyond
    // the grant.
    for piggyback in [0, 1, 4, 254] {
        let mut bench = Bench::up(1);
        bench.submit(A, Mode::OnePhase, b"x", 1);
        bench.submit(A, Mode::OnePhase, b"y", 2);
        bench.send(A);
        let first = headers(&bench.cables[0][B].pop_front().unwrap())[0];
        inject_record(&mut bench, &[1], |header| {
            header.kind = Kind::Reflecting;
            header.yours = first.mine();
            (header.slot, header.slot_sequence, header.piggyback) = (first.slot, 1, piggyback);
        });
        assert_eq!(
            bench.sides[A].host.downs(),
            [DownReason::Violation],
            "{piggyback}"
        );
        assert!(bench.sides[A].host.completed.is_empty());
        assert_reconverges(&mut bench);
    }
    // A keepalive carries no piggybacked slot.
    inject_record(&mut bench, &keepalive(false), |header| header.piggyback = 1);
    assert_eq!(bench.link(A, 0).counters.drops.malformed, 1);
    assert_reconverges(&mut bench);
}

/// Fragments arrive one after the other, with nothing but keepalives between them. Otherwise the
/// link fails and no part of the message has any effect.
#[test]
fn fragments_out_of_order_fail_the_link() {
    type Fragment = (u8, bool, u8, u32, Kind);
    let whole = FRAME_PAYLOAD_BYTES_MAX;
    let request = |number, more| (number, more, 0, 1, Kind::Request);
    let lies: [(&str, Vec<Fragment>, bool); 8] = [
        ("in order", vec![request(0, true), request(1, false)], false),
        ("the second first", vec![request(1, false)], true),
        (
            "one left out",
            vec![request(0, true), request(2, false)],
            true,
        ),
        (
            "the first again",
            vec![request(0, true), request(0, true)],
            true,
        ),
        (
            "another message before the rest",
            vec![request(0, true), request(0, false)],
            true,
        ),
        (
            "of another slot",
            vec![request(0, true), (1, false, 1, 1, Kind::Request)],
            true,
        ),
        (
            "of another exchange",
            vec![request(0, true), (1, false, 0, 2, Kind::Request)],
            true,
        ),
        (
            "of another kind",
            vec![request(0, true), (1, false, 0, 1, Kind::Tentative)],
            true,
        ),
    ];
    for (what, fragments, fails) in lies {
        let mut bench = Bench::up(1);
        let mut received = 0;
        for (number, more, slot, sequence, kind) in fragments {
            let payload = vec![number; if more { whole } else { 5 }];
            let records = received;
            inject_record(&mut bench, &payload, |header| {
                header.kind = kind;
                header.record_sequence = records;
                (header.slot, header.slot_sequence) = (slot, sequence);
                header.shape = Shape::fragment(payload.len(), number, more);
            });
            received += if more { 23 } else { 1 };
            if more && !fails {
                let records = received;
                inject_record(&mut bench, &keepalive(true), |header| {
                    header.record_sequence = records
                });
                received += 1;
                assert!(bench.sides[A].host.executed.is_empty(), "{what}");
            }
        }
        let downs = if fails {
            vec![DownReason::Violation]
        } else {
            vec![]
        };
        assert_eq!(bench.sides[A].host.downs(), downs, "{what}");
        let executed = &bench.sides[A].host.executed;
        assert_eq!(executed.len(), usize::from(!fails), "{what}");
        assert!(fails || executed[0].1.len() == whole + 5);
        assert_reconverges(&mut bench);
    }
}

#[test]
fn slot_sequences_advance_by_one() {
    for (sequence, fails) in [
        (2, false),
        (1, true),
        (0, true),
        (3, true),
        (u32::MAX, true),
    ] {
        let mut bench = Bench::up(1);
        inject_record(&mut bench, &[1], |header| {
            header.kind = Kind::Request;
            header.slot_sequence = 1;
        });
        bench.send(A);
        let yours = headers(&bench.cables[0][B].pop_front().unwrap())[0].mine();
        assert_ne!(yours, 0);
        inject_record(&mut bench, &[1], |header| {
            header.kind = Kind::Request;
            header.slot_sequence = sequence;
            header.yours = yours;
        });
        assert_eq!(
            bench.sides[A].host.downs(),
            if fails {
                vec![DownReason::Violation]
            } else {
                vec![]
            },
            "{sequence}"
        );
        assert_reconverges(&mut bench);
    }
}

#[test]
fn a_slot_in_use_is_not_used_again() {
    for second in [Kind::Request, Kind::Tentative, Kind::Commit] {
        let mut bench = Bench::up(1);
        for (kind, sequence, payload) in [(Kind::Tentative, 1, &[1][..]), (second, 2, &[2])] {
            let (sequence, payload) = if kind == Kind::Commit {
                (1, &[][..])
            } else {
                (sequence, payload)
            };
            inject_record(&mut bench, payload, |header| {
                header.kind = kind;
                header.slot_sequence = sequence;
            });
        }
        assert_eq!(
            bench.sides[A].host.downs(),
            [DownReason::Violation],
            "{second:?} before the answer was sent"
        );
        assert!(bench.sides[A].host.executed.is_empty());
        assert_reconverges(&mut bench);
    }
}

#[test]
fn more_questions_than_slots_are_not_remembered() {
    let mut bench = Bench::up(1);
    for slot in 0..5 {
        assert!(bench.sides[A].host.downs().is_empty());
        inject_record(&mut bench, &[0; 8], |header| {
            header.kind = Kind::Resolve;
            header.slot = slot % 4;
            header.slot_sequence = 1;
        });
    }
    assert_eq!(bench.sides[A].host.downs(), [DownReason::Violation]);
    assert_reconverges(&mut bench);
}

#[test]
fn a_reflection_of_a_record_never_sent_fails_the_link() {
    let keepalives = |bench: &mut Bench| {
        bench.tick();
        bench.send(A);
        bench.cables[0][B]
            .drain(..)
            .flat_map(|frame| headers(&frame))
            .collect::<Vec<_>>()
    };
    let check = |yours: fn(u32) -> u32, fails: bool| {
        let mut bench = Bench::up(1);
        let keepalive_headers = keepalives(&mut bench);
        assert_eq!(keepalive_headers.len(), 1);
        inject_record(&mut bench, &keepalive(false), |header| {
            header.yours = yours(keepalive_headers[0].mine())
        });
        assert_eq!(
            bench.sides[A].host.downs(),
            if fails {
                vec![DownReason::ReflectionMismatch]
            } else {
                vec![]
            }
        );
        assert_reconverges(&mut bench);
    };
    check(|mine| mine, false);
    check(|_| 0, false);
    check(|mine| mine ^ 1 << 8, true);
    check(|mine| mine ^ 1 << 24, true);
    check(|_| slice::mine(Kind::Commit, 0, 0), true);
    check(|_| slice::mine(Kind::Keepalive, 255, 0), true);

    // A reflection must not go back to an earlier record.
    let mut bench = Bench::up(1);
    let first = keepalives(&mut bench)[0].mine();
    let second = keepalives(&mut bench)[0].mine();
    inject_record(&mut bench, &keepalive(false), |header| {
        header.yours = second
    });
    assert!(bench.sides[A].host.downs().is_empty());
    inject_record(&mut bench, &keepalive(false), |header| header.yours = first);
    assert_eq!(
        bench.sides[A].host.downs(),
        [DownReason::ReflectionMismatch]
    );
}

#[test]
fn a_peer_that_received_message_2_and_owes_nothing_forgot_its_exchange() {
    let mut bench = Bench::up(1);
    bench.submit(B, Mode::TwoPhase, b"x", 1);
    bench.send(B);
    while bench.deliver(A, 0) {}
    // Before message 2 left it is no wonder.
    inject_record(&mut bench, &keepalive(false), |_| {});
    assert!(bench.sides[A].host.downs().is_empty());
    bench.send(A);
    let message_2 = headers(&bench.cables[0][B].pop_front().unwrap());
    let yours = message_2.last().unwrap().mine();
    inject_record(&mut bench, &keepalive(true), |header| header.yours = yours);
    assert!(bench.sides[A].host.downs().is_empty());
    inject_record(&mut bench, &keepalive(false), |header| header.yours = yours);
    assert_eq!(bench.sides[A].host.downs(), [DownReason::Unanswered]);
    assert_eq!(bench.sides[A].host.reversed.len(), 1);
}

/// A question about an exchange that B started in slot 0 arrives at A.
fn query(bench: &mut Bench, epoch: u32, sequence: u32) {
    let mut question = vec![0; 4];
    question.extend(epoch.to_le_bytes());
    inject_record(bench, &question, |header| {
        header.kind = Kind::Resolve;
        header.slot_sequence = sequence;
    });
}

#[test]
fn a_query_about_a_later_exchange_of_a_slot_reverses_the_kept_one() {
    let mut bench = Bench::up(1);
    bench.submit(B, Mode::TwoPhase, b"x", 1);
    bench.send(B);
    while bench.deliver(A, 0) {}
    assert_eq!(bench.sides[A].host.admitted.len(), 1);
    let epoch = bench.link(A, 0).epoch;
    query(&mut bench, epoch, 2);
    assert_eq!(bench.sides[A].host.reversed.len(), 1);
    assert!(bench.sides[A].host.admitted.is_empty());
}

#[test]
fn a_query_of_another_epoch_blocks_no_request_of_this_epoch() {
    for back in [0, 1] {
        let mut bench = Bench::up(1);
        let epoch = bench.link(A, 0).epoch - back;
        query(&mut bench, epoch, 1);
        inject_record(&mut bench, b"x", |header| {
            header.kind = Kind::Request;
            header.slot_sequence = 1;
        });
        // The answer to a question is for good in the epoch that it is about.
        assert_eq!(bench.sides[A].host.executed.len(), back as usize);
    }
}

#[test]
fn a_peer_that_owes_nothing_has_answered_everything() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.send(A);
    let yours = headers(&bench.cables[0][B].pop_front().unwrap())[0].mine();
    inject_record(&mut bench, &keepalive(true), |header| header.yours = yours);
    assert!(
        bench.sides[A].host.downs().is_empty(),
        "it reports that it owes something"
    );
    inject_record(&mut bench, &keepalive(false), |header| header.yours = yours);
    assert_eq!(bench.sides[A].host.downs(), [DownReason::Unanswered]);
    assert_reconverges(&mut bench);
    assert_eq!(
        bench.sides[B]
            .host
            .executed
            .iter()
            .filter(|(_, payload)| payload == b"x")
            .count(),
        1
    );
}

/// The peer has received only a part of a departing message: that it owes nothing for it is no
/// evidence.
#[test]
fn a_peer_owes_nothing_for_half_a_message() {
    let mut bench = Bench::up_with_slots(1, 4);
    // Three long messages fit into the window, and a part of the fourth.
    for token in 0..4 {
        bench.submit(A, Mode::OnePhase, &[7; 2_500], token);
    }
    bench.send(A);
    let frames = bench.cables[0][B].iter();
    let last = frames.flat_map(|frame| headers(frame)).last().unwrap();
    assert!(last.shape.more, "the window is full");
    while bench.deliver(B, 0) {}
    bench.send(B);
    while bench.deliver(A, 0) {}
    assert_eq!(bench.sides[A].host.completed.len(), 3);
    inject_record(&mut bench, &keepalive(false), |header| {
        header.yours = last.mine_at(22)
    });
    assert_eq!(bench.sides[A].host.downs(), []);
    bench.pull(0);
    bench.plug(0);
    assert_reconverges(&mut bench);
    let executed = bench.sides[B].host.executed.iter();
    assert_eq!(
        executed
            .filter(|(_, payload)| payload.len() == 2_500)
            .count(),
        4
    );
    for side in &bench.sides {
        assert_eq!(
            side.host.downs(),
            [DownReason::CarrierLost],
            "the rest of it is not sent in another epoch"
        );
    }
}

#[test]
fn a_jump_of_the_record_sequence_fails_the_link() {
    for jump in [1, 100, i32::MAX as u32] {
        let mut bench = Bench::up(1);
        inject_record(&mut bench, &keepalive(false), |header| {
            header.record_sequence += jump
        });
        assert_eq!(
            bench.sides[A].host.downs(),
            [DownReason::SequenceGap],
            "{jump}"
        );
        assert_reconverges(&mut bench);
    }
}

/// The peer forged its slots far ahead, so this side's exchanges look old to it. The slots catch
/// up.
#[test]
fn slots_that_disagree_find_together() {
    for sequence in [
        100,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0x8000_0002,
        0xffff_fff0,
    ] {
        let mut bench = Bench::up(1);
        for slot in 0..4 {
            inject_record(&mut bench, &[0; 8], |header| {
                header.kind = Kind::Resolve;
                (header.slot, header.slot_sequence) = (slot, sequence);
            });
        }
        // B never sent that, so it fails the link because of it.
        bench.run(2);
        for token in 0..8 {
            bench.submit(B, Mode::TwoPhase, b"x", token);
        }
        bench.run(4);
        assert_eq!(
            bench.sides[B].host.completed.len(),
            8,
            "each ended, if only as unknown"
        );
        assert_reconverges(&mut bench);
    }
}

/// Both ends propose epochs on opposite sides of the sequence circle, and their handshakes cross
/// each time.
#[test]
fn epochs_that_lie_opposite_find_together() {
    for distance in [0x7fff_ffff, 0x8000_0000, 0x8000_0001u32] {
        for side in [A, B] {
            let mut bench = Bench::new(1);
            bench.carrier(0, true);
            // The last handshake that the end received claims that the other one is this far ahead,
            // or behind.
            bench.send(1 - side);
            let mut lie = bench.cables[0][side].pop_front().unwrap();
            for record in 0..2 {
                forge(&mut lie, record, |record| {
                    let epoch = u32::from_le_bytes(record[8..12].try_into().unwrap());
                    record[8..12].copy_from_slice(&epoch.wrapping_add(distance).to_le_bytes());
                });
            }
            bench.lose(0);
            bench.inject(side, 0, &lie);
            let before = bench.sides.each_ref().map(|side| {
                let link = side.node.links().next().unwrap();
                link.counters.tx_frames
            });
            // Frames cross: each end sends everything before it receives anything.
            for _ in 0..8 {
                bench.tick();
                for _ in 0..4 {
                    bench.send(A);
                    bench.send(B);
                    while bench.deliver(A, 0) {}
                    while bench.deliver(B, 0) {}
                }
            }
            bench.assert_up();
            for (at, before) in before.into_iter().enumerate() {
                assert!(bench.link(at, 0).counters.tx_frames <= before + 16);
            }
            assert_eq!(bench.link(A, 0).epoch, bench.link(B, 0).epoch);
            assert_reconverges(&mut bench);
        }
    }
}

/// A is up with B on `cable` by a handshake that B never sent. The handshake echoes A's proposal:
/// it is B's own one, forged in its two records.
fn come_up_by_forgery(bench: &mut Bench, cable: usize, forged: [fn(&mut [u8; 64]); 2], what: &str) {
    bench.carrier(cable, true);
    bench.send(A);
    bench.send(B);
    while bench.deliver(B, cable) {}
    while bench.deliver(A, cable) {}
    bench.send(A);
    bench.send(B);
    let mut lie = bench.cables[cable][A].back().unwrap().clone();
    assert_eq!(bench.link(A, cable).state, LinkState::Init);
    for (record, change) in forged.into_iter().enumerate() {
        forge(&mut lie, record, change);
    }
    bench.inject(A, cable, &lie);
    assert_eq!(bench.link(A, cable).state, LinkState::Up, "{what}");
    bench.settle();
}

/// A handshake that B never sent arrives before B's own one, and contains all that it must know: A
/// is up with B in the epoch that B holds too. Its false claims about B end with B's first
/// keepalive.
#[test]
fn a_forged_handshake_that_fits_leaves_nothing_behind() {
    type Lie = (&'static str, fn(&mut [u8; 64]), fn(&mut [u8; 64]), bool);
    let lies: [Lie; 5] = [
        ("the truth", |_| {}, |_| {}, false),
        ("a name", |_| {}, |rest| rest[20] = b'n', true),
        (
            "fewer slots",
            |_| {},
            |rest| (rest[10], rest[14]) = (3, 3),
            true,
        ),
        ("more slots", |_| {}, |rest| rest[10] = 200, true),
        ("a window", |_| {}, |rest| rest[12] = 250, false),
    ];
    for (what, first, second, fails) in lies {
        let mut bench = Bench::with_slots(1, 60);
        bench.sides[B].node.set_window(0, 32);
        come_up_by_forgery(&mut bench, 0, [first, second], what);
        let epochs = [A, B].map(|side| bench.link(side, 0).epoch);
        assert_eq!(epochs[A], epochs[B], "{what}");
        assert_eq!(bench.sides[A].host.downs(), [], "{what}");
        // An idle link sends one keepalive per tick.
        bench.run(2);
        let expected: &[DownReason] = if fails { &[DownReason::PeerMoved] } else { &[] };
        assert_eq!(bench.sides[A].host.downs(), expected, "{what}");
        assert_eq!(bench.link(A, 0).peer_name.unwrap().as_str(), "b");
        bench.sides[A].host.events.clear();
        for token in 0..100 {
            bench.submit(A, Mode::OnePhase, b"x", token);
            bench.send(A);
        }
        // A window of 32 leaves 24 to messages, and the last keepalive may be one of them.
        let in_flight = bench.records_in_flight(B, 0);
        assert!(matches!(in_flight, 23 | 24), "{what}: {in_flight}");
        bench.settle();
        bench.run(2);
        assert_eq!(bench.sides[A].host.completed.len(), 100, "{what}");
        assert_eq!(bench.sides[A].host.downs(), [], "{what}");
    }
}

#[test]
fn a_forged_handshake_fails_its_own_cable_alone() {
    let mut bench = Bench::with_slots(2, 60);
    bench.carrier(0, true);
    bench.settle();
    let epoch = bench.link(A, 0).epoch;
    come_up_by_forgery(&mut bench, 1, [|_| {}, |rest| rest[20] = b'n'], "a name");
    bench.run(3);
    assert_eq!(bench.sides[A].host.downs(), [DownReason::PeerMoved]);
    assert_eq!(bench.link(A, 0).epoch, epoch, "the other cable");
    assert_eq!(bench.link(A, 1).state, LinkState::Up);
    assert_eq!(bench.link(A, 0).peer_name.unwrap().as_str(), "b");
}

/// A stranger on one cable shows up under many names. The peer on the other is not forgotten.
#[test]
fn an_unauthenticated_peer_takes_no_memory_from_others() {
    let mut bench = Bench::up(2);
    bench.pull(1);
    bench.carrier_at(B, 1, true);
    bench.carrier_at(A, 1, true);
    bench.cut[1] = false;
    bench.send_on(A, 1);
    let hello = bench.cables[1][B].pop_front().unwrap();
    bench.lose(1);
    bench.cut[1] = true;
    assert_eq!(kinds(&hello), [Kind::Init]);

    bench.submit(A, Mode::TwoPhase, b"mine", 1);
    for side in [A, B, A] {
        bench.send_on(side, 0);
        assert!(bench.deliver(1 - side, 0));
    }
    assert_eq!(
        bench.sides[B].host.executed.len(),
        1,
        "committed, but A does not know"
    );
    bench.pull(0);
    for guid in 100..400 {
        introduce(&mut bench, B, 1, &hello, guid);
    }
    assert!(
        bench.sides[B].node.peers().count() <= 6,
        "three for each link"
    );
    bench.plug(0);
    bench.settle();
    let reply = bench.sides[B].host.reply_to(b"mine");
    assert_eq!(
        bench.sides[A].host.completed,
        [(1, Ending::Committed(reply))]
    );
    assert_eq!(bench.sides[B].host.executed.len(), 1);
}

/// A neighbor has as many peers as there are places for each link, under however many names.
#[test]
fn one_neighbor_under_many_names_takes_no_place_of_the_peers_of_others() {
    const CABLES: usize = 3;
    const PLACES_PER_LINK: usize = 3;
    let mut bench = Bench::up(CABLES);
    for cable in 0..CABLES {
        bench.pull(cable);
    }
    bench.carrier_at(A, 1, true);
    bench.cut[1] = false;
    bench.send_on(A, 1);
    let hello = bench.cables[1][B].pop_front().unwrap();
    bench.cut[1] = true;
    // On the second cable two nodes come and go, and A was on the first.
    let others = [50, 51];
    bench.carrier_at(B, 1, true);
    for guid in others {
        introduce(&mut bench, B, 1, &hello, guid);
    }
    bench.carrier_at(B, 1, false);
    bench.carrier_at(B, 2, true);
    for guid in 100..400 {
        introduce(&mut bench, B, 2, &hello, guid);
        let peers: Vec<u64> = bench.sides[B].node.peers().map(|peer| peer.guid).collect();
        assert!(peers.len() <= PLACES_PER_LINK * CABLES, "{peers:?}");
        let is_known = |guid: &u64| peers.contains(guid);
        assert!(
            others.iter().chain([&GUIDS[A]]).all(is_known),
            "{guid} took the place of another: {peers:?}"
        );
        assert!(peers.contains(&guid), "the latest one is known");
    }
}

/// Unauthenticated neighbors arrive on A's cable, so B evicts what it remembered of A. With more of
/// them B forgets A entirely.
#[test]
fn an_evicted_outcome_is_reported_as_unknown() {
    for names_forged in [3, 20] {
        for (mode, steps) in [
            (Mode::OnePhase, 2),
            (Mode::TwoPhase, 4),
            (Mode::TwoPhase, 6),
        ] {
            let mut bench = Bench::up(1);
            bench.submit(A, mode, b"mine", 1);
            for step in 0..steps {
                match step % 4 {
                    0 => bench.send(A),
                    1 => assert!(bench.deliver(B, 0)),
                    2 => bench.send(B),
                    _ => assert!(bench.deliver(A, 0)),
                }
            }
            let executed = bench.sides[B].host.executed.len();
            bench.pull(0);
            bench.carrier_at(A, 0, true);
            bench.cut[0] = false;
            bench.send_on(A, 0);
            let hello = bench.cables[0][B].pop_front().unwrap();
            bench.carrier_at(B, 0, true);
            for guid in 100..100 + names_forged {
                introduce(&mut bench, B, 0, &hello, guid);
            }
            bench.run(3);
            assert_eq!(
                bench.sides[A].host.completed,
                [(1, Ending::PeerRestarted)],
                "unknown is reported, not guessed"
            );
            assert_eq!(
                bench.sides[B].host.executed.len(),
                executed,
                "and nothing happens twice"
            );
            bench.sides[A].host.completed.clear();
            assert_reconverges(&mut bench);
        }
    }
}

/// A resolution reply carries an exchange reply longer than any reply may be: it cannot be
/// delivered to a caller.
#[test]
fn an_answer_longer_than_a_reply_fails_the_link() {
    for (reply_bytes, fails) in [
        (704, false),
        (MAX_PAYLOAD_BYTES, false),
        (MAX_PAYLOAD_BYTES + 1, true),
        (MESSAGE_PAYLOAD_BYTES_MAX - 8, true),
    ] {
        let mut bench = Bench::up(1);
        bench.submit(A, Mode::OnePhase, b"x", 1);
        bench.send(A);
        bench.pull(0);
        bench.plug(0);
        for side in [A, B, A, B, A] {
            bench.send(side);
            while bench.deliver(1 - side, 0) {}
            if bench.link(A, 0).counters.ups == 2 {
                break;
            }
        }
        bench.send(A);
        let slot = headers(bench.cables[0][B].back().unwrap())[0].slot;
        let payload = [vec![0, 0, 1, 0, 1, 0, 0, 0], vec![7; reply_bytes]].concat();
        let parts = payload.chunks(FRAME_PAYLOAD_BYTES_MAX);
        let last = parts.len() - 1;
        let received = bench.link(A, 0).counters.rx_records;
        for (number, part) in parts.enumerate() {
            let records = bench.link(A, 0).counters.rx_records - received;
            inject_record(&mut bench, part, |header| {
                header.kind = Kind::Resolved;
                header.record_sequence = records as u32;
                (header.slot, header.slot_sequence) = (slot, 1);
                header.shape = Shape::fragment(part.len(), number as u8, number < last);
            });
        }
        let violations = bench
            .link(A, 0)
            .counters
            .failures
            .get(DownReason::Violation);
        assert_eq!(violations, u64::from(fails), "{reply_bytes}");
        let completions = &bench.sides[A].host.completed;
        let committed = (1, Ending::Committed(vec![7; reply_bytes]));
        assert_eq!(
            completions.as_slice(),
            if fails {
                &[][..]
            } else {
                std::slice::from_ref(&committed)
            }
        );
        assert_reconverges(&mut bench);
    }
}

/// A neighbor changes its name at line rate. It gets one name for each tick, and the handshakes of
/// others continue.
#[test]
fn many_names_are_accepted_at_the_rate_of_ticks() {
    let mut bench = Bench::up(2);
    bench.pull(1);
    bench.plug(1);
    bench.send_on(A, 1);
    let template = bench.cables[1][B].pop_front().unwrap();
    bench.settle();
    bench.run(2);
    bench.pull(0);
    bench.plug(0);
    bench.lose(0);
    bench.cut[0] = true;
    bench.cut[1] = true;
    for _ in 0..20 {
        bench.tick();
        let epoch = bench.link(B, 0).epoch;
        let events = bench.sides[B].host.events.len();
        let sent = bench.link(B, 1).counters.tx_frames;
        for guid in 100..150 {
            for echo in [false, true] {
                let frame = hello(&bench, B, 1, &template, guid, echo);
                bench.inject(B, 1, &frame);
                bench.send(B);
            }
        }
        assert!(
            bench.link(B, 0).epoch - epoch <= 1,
            "one new proposal on the other link"
        );
        assert!(
            bench.sides[B].host.events.len() <= events + 4,
            "{:?}",
            bench.sides[B].host.events
        );
        assert!(bench.link(B, 1).counters.tx_frames <= sent + 9);
    }
    assert!(bench.link(B, 1).counters.drops.hasty_init > 0);
    for cable in [0, 1] {
        bench.pull(cable);
        bench.plug(cable);
    }
    assert_reconverges(&mut bench);
}

/// One neighbor fails its link at line rate, by a new incarnation in each handshake.
#[test]
fn many_failures_are_answered_at_the_rate_of_ticks() {
    let mut bench = Bench::up(1);
    bench.pull(0);
    bench.plug(0);
    bench.send_on(A, 0);
    let template = bench.cables[0][B].pop_front().unwrap();
    bench.settle();
    bench.cut[0] = true;
    for _ in 0..20 {
        bench.tick();
        let events = bench.sides[B].host.events.len();
        for incarnation in 1..100u64 {
            for echo in [false, true] {
                let mut frame = hello(&bench, B, 0, &template, GUIDS[A], echo);
                forge(&mut frame, 0, |record| {
                    record[36..44].copy_from_slice(&(10_000 + incarnation).to_le_bytes());
                });
                bench.inject(B, 0, &frame);
                bench.send(B);
            }
        }
        assert!(
            bench.sides[B].host.events.len() <= events + 4,
            "{}",
            bench.sides[B].host.events.len()
        );
    }
}

/// One change to one frame in flight.
#[derive(Debug, Clone)]
struct Mutation {
    /// Steps before it.
    steps: usize,
    to: usize,
    record: usize,
    at: usize,
    value: u8,
    /// The frame itself arrives too, before or behind.
    original: Option<bool>,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    // Flags, sequences and payload are worth more tries than the rest.
    let at = prop_oneof![0..56usize, 0..24usize, 16..40usize];
    let value = prop_oneof![any::<u8>(), 0..12u8];
    (
        0..30usize,
        0..2usize,
        0..4usize,
        at,
        value,
        any::<Option<bool>>(),
    )
        .prop_map(|(steps, to, record, at, value, original)| Mutation {
            steps,
            to,
            record,
            at,
            value,
            original,
        })
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 8 * ProptestConfig::default().cases, ..ProptestConfig::default() }
    )]

    #[test]
    fn any_change_to_any_record_is_survived(
        mutations in vec(mutation(), 1..6),
        cut in any::<bool>(),
    ) {
        let mut bench = Bench::new(1);
        bench.carrier(0, true);
        let mut token = 0;
        for mutation in &mutations {
            for step in 0..mutation.steps {
                if step % 5 == 0 {
                    token += 1;
                    let mode = if token % 2 == 0 { Mode::OnePhase } else { Mode::TwoPhase };
                    let peer = GUIDS[1 - step % 2];
                    // Before the first handshake there is no peer to submit to.
                    let _ = bench.sides[step % 2].node.submit(peer, mode, &[7; 80], token);
                }
                bench.send(step % 2);
                bench.deliver(1 - step % 2, 0);
                if step % 11 == 10 {
                    bench.tick();
                }
            }
            bench.send(1 - mutation.to);
            if let Some(mut frame) = bench.cables[0][mutation.to].pop_front() {
                let original = frame.clone();
                let record = mutation.record % ((frame.len() - 14) / 64);
                forge(&mut frame, record, |record| record[mutation.at] = mutation.value);
                if mutation.original == Some(true) {
                    bench.inject(mutation.to, 0, &original);
                }
                bench.inject(mutation.to, 0, &frame);
                if mutation.original == Some(false) {
                    bench.inject(mutation.to, 0, &original);
                }
            }
        }
        if cut {
            bench.pull(0);
            bench.plug(0);
        }
        bench.run(12);
        bench.assert_up();
        for side in &mut bench.sides {
            side.host.completed.clear();
        }
        assert_reconverges(&mut bench);
    }
}
