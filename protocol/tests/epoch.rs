//! Handshakes, epochs, and the incarnations of the peers.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DownReason, LinkEvent, LinkRefusal, LinkState, Mode,
    wire::{VERSION, slice::Kind},
};
use support::{A, B, Bench, Ending, GUIDS, forge, kinds};

#[test]
fn both_ends_start_at_once() {
    let bench = Bench::up(1);
    for (side, other) in [(A, B), (B, A)] {
        let [
            LinkEvent::Up {
                port: 0,
                peer,
                name,
                peer_port: 0,
                epoch: 1,
            },
        ] = bench.sides[side].host.events[..]
        else {
            panic!("{:?}", bench.sides[side].host.events)
        };
        assert_eq!((peer, name.as_str()), (GUIDS[other], ["a", "b"][other]));
        assert!(bench.link(side, 0).counters.tx_frames <= 3);
    }
}

#[test]
fn one_end_starts_late() {
    let mut bench = Bench::new(1);
    bench.carrier_at(A, 0, true);
    bench.run(3);
    assert_eq!(bench.link(A, 0).state, LinkState::Init);
    bench.carrier_at(B, 0, true);
    bench.settle();
    bench.assert_up();
}

/// A neighbor of another release: nothing comes of it, and the operator can see why.
#[test]
fn a_handshake_of_another_version_is_recognized() {
    let mut bench = Bench::new(1);
    bench.carrier(0, true);
    bench.send(A);
    let frame = bench.cables[0][B].pop_front().unwrap();
    assert_eq!(bench.link(B, 0).refusal, None);
    let records = (frame.len() - 14) / 64;
    for version in [VERSION - 1, VERSION + 1] {
        let mut other = frame.clone();
        for record in 0..records {
            forge(&mut other, record, |bytes| {
                bytes[2] = bytes[2] & 0x0f | version << 4
            });
        }
        for times in 1..=3 {
            let drops = bench.link(B, 0).counters.drops.version;
            bench.inject(B, 0, &other);
            assert_eq!(bench.link(B, 0).counters.drops.version, drops + 1);
            assert_eq!(bench.link(B, 0).state, LinkState::Init);
            // Damage in a single frame does not count as the version of the other end.
            if version == VERSION - 1 && times == 1 {
                assert_eq!(bench.link(B, 0).refusal, None);
            } else {
                let refusal = Some(LinkRefusal::Version(version));
                assert_eq!(bench.link(B, 0).refusal, refusal);
            }
            bench.tick();
        }
    }
    // It was updated.
    bench.inject(B, 0, &frame);
    bench.settle();
    bench.assert_up();
    assert_eq!(bench.link(B, 0).refusal, None);
    let refused = |version| Some(LinkRefusal::Version(version));
    let refusals_seen = [refused(VERSION - 1), refused(VERSION + 1), None];
    assert_eq!(bench.sides[B].host.refusals(), refusals_seen);
    let mut other = frame;
    forge(&mut other, 0, |bytes| bytes[2] ^= 0xf0);
    for _ in 0..3 {
        bench.inject(B, 0, &other);
        bench.run(1);
    }
    assert_eq!(
        bench.sides[B].host.refusals(),
        refusals_seen,
        "late, and no reason for anything"
    );
}

/// Loses each handshake frame once, and each pair of them. The ticks bring the link up.
#[test]
fn lost_handshakes_are_repeated_on_ticks_only() {
    for first in 0..6 {
        for second in first..6 {
            let mut bench = Bench::new(1);
            bench.carrier(0, true);
            let mut count = 0;
            for _ in 0..6 {
                for _ in 0..8 {
                    for side in [A, B] {
                        bench.send(side);
                        while let Some(frame) = bench.cables[0][1 - side].pop_front() {
                            if count != first && count != second {
                                bench.inject(1 - side, 0, &frame);
                            }
                            count += 1;
                        }
                    }
                }
                bench.tick();
            }
            bench.settle();
            bench.assert_up();
            assert_eq!(bench.link(A, 0).epoch, bench.link(B, 0).epoch);
            bench.submit(A, Mode::TwoPhase, b"x", 1);
            bench.settle();
            assert_eq!(
                bench.sides[A].host.completed.len(),
                1,
                "{first} and {second} lost"
            );
        }
    }
}

/// The last handshake is lost, and its sender, which is up, speaks already.
#[test]
fn an_end_that_is_up_sends_before_the_other_is_up() {
    let mut bench = Bench::new(1);
    bench.carrier(0, true);
    bench.send(A);
    assert!(bench.deliver(B, 0));
    bench.send(B);
    while bench.deliver(A, 0) {}
    assert_eq!(bench.link(A, 0).state, LinkState::Up);
    bench.send(A);
    bench.lose(0);
    bench.submit(A, Mode::OnePhase, b"early", 1);
    bench.settle();
    bench.run(4);
    bench.assert_up();
    assert_eq!(bench.sides[B].host.executed.len(), 1);
    assert_eq!(bench.sides[A].host.completed.len(), 1);
}

/// The handshakes of a tick are spent when the last one is due: its sender, which is up, sends
/// nothing until then.
#[test]
fn an_end_that_owes_its_handshake_sends_nothing_else() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = Bench::new(1);
        bench.carrier(0, true);
        bench.send(A);
        assert!(bench.deliver(B, 0));
        bench.lose(0);
        bench.send(B);
        let echo = bench.cables[0][A].pop_back().unwrap();
        let mut late = echo.clone();
        forge(&mut late, 0, |bytes| {
            bytes[8..12].copy_from_slice(&0_u32.to_le_bytes());
        });
        let mut answers = 0;
        for _ in 0..20 {
            bench.inject(A, 0, &late);
            bench.send(A);
            answers += bench.cables[0][B].len();
            bench.lose(0);
        }
        assert!((1..20).contains(&answers), "{answers}");
        bench.inject(A, 0, &echo);
        assert_eq!(bench.link(A, 0).state, LinkState::Up);
        bench.submit(A, mode, b"early", 1);
        bench.settle();
        assert_eq!(bench.link(B, 0).state, LinkState::Init);
        assert_eq!(bench.link(B, 0).counters.drops.not_up, 0);
        bench.run(1);
        bench.assert_up();
        assert_eq!(bench.sides[A].host.completed.len(), 1);
        assert!(bench.sides.iter().all(|side| side.host.downs().is_empty()));
    }
}

#[test]
fn records_of_another_epoch_are_dropped() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::OnePhase, b"old", 1);
    bench.send(A);
    let old = bench.cables[0][B].pop_front().unwrap();
    bench.pull(0);
    bench.plug(0);
    bench.settle();
    assert_eq!(
        bench.sides[B].host.executed.len(),
        1,
        "reversed and applied again"
    );
    let before = bench.link(B, 0).counters.drops.stale_epoch;
    bench.inject(B, 0, &old);
    assert_eq!(bench.link(B, 0).counters.drops.stale_epoch, before + 1);
    assert_eq!(bench.sides[B].host.executed.len(), 1);
    bench.assert_up();
}

#[test]
fn a_duplicated_frame_has_no_effect() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = Bench::up(1);
        bench.submit(A, mode, b"once", 1);
        for _ in 0..4 {
            for side in [A, B] {
                bench.send(side);
                while let Some(frame) = bench.cables[0][1 - side].pop_front() {
                    bench.inject(1 - side, 0, &frame);
                    bench.inject(1 - side, 0, &frame);
                }
            }
        }
        assert_eq!(
            (
                bench.sides[B].host.executed.len(),
                bench.sides[A].host.completed.len()
            ),
            (1, 1)
        );
        assert!(bench.link(B, 0).counters.drops.duplicate > 0);
        bench.assert_up();
    }
}

#[test]
fn duplicated_handshakes_converge() {
    let mut bench = Bench::new(1);
    bench.carrier(0, true);
    let mut seen = Vec::new();
    for _ in 0..8 {
        for side in [A, B] {
            bench.send(side);
            while let Some(frame) = bench.cables[0][1 - side].pop_front() {
                bench.inject(1 - side, 0, &frame);
                seen.push((1 - side, frame));
            }
        }
    }
    bench.assert_up();
    for (side, frame) in &seen {
        assert_eq!(kinds(frame), [Kind::Init]);
        bench.inject(*side, 0, frame);
    }
    // Nothing was sent in the epoch yet, so an end may answer; then silence.
    bench.settle();
    bench.submit(A, Mode::OnePhase, b"x", 1);
    bench.submit(B, Mode::OnePhase, b"x", 1);
    bench.settle();
    for (side, frame) in &seen {
        bench.inject(*side, 0, frame);
        assert!(
            !bench.sides[*side].node.has_work(0),
            "sent in an epoch that has long been in force"
        );
    }
    bench.assert_up();
    assert_eq!(bench.link(A, 0).counters.ups, 1);
}

#[test]
fn a_lost_record_is_a_failure_and_not_a_retry() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::OnePhase, b"first", 1);
    bench.send(A);
    bench.lose(0);
    bench.submit(A, Mode::OnePhase, b"second", 2);
    bench.settle();
    assert_eq!(bench.sides[B].host.downs(), [DownReason::SequenceGap]);
    assert_eq!(bench.sides[A].host.downs(), [DownReason::PeerReinitialized]);
    let mut executed: Vec<_> = bench.sides[B]
        .host
        .executed
        .iter()
        .map(|(_, payload)| &payload[..])
        .collect();
    executed.sort_unstable();
    assert_eq!(
        executed,
        [b"first".as_slice(), b"second"],
        "both reversed, both applied again"
    );
    bench.assert_up();
}

#[test]
fn a_peer_restart_ends_open_exchanges_and_keeps_unsent_ones() {
    for cables in [1, 2] {
        for mode in [Mode::OnePhase, Mode::TwoPhase] {
            let mut bench = Bench::up(cables);
            for token in 0..10 {
                bench.submit(A, mode, &[token as u8], token);
            }
            bench.send_on(A, 0);
            bench.restart(B);
            bench.lose(0);
            bench.run(2);
            bench.assert_up();
            let ended: Vec<_> = bench.sides[A]
                .host
                .completed
                .iter()
                .filter(|(_, end)| *end == Ending::PeerRestarted)
                .collect();
            // In 2PC half of the slots wait for confirmations that ride on messages of the others.
            let open = cables * if mode == Mode::OnePhase { 4 } else { 2 };
            assert_eq!(ended.len(), open, "on all cables");
            assert_eq!(bench.sides[A].host.completed.len(), 10);
            assert_eq!(bench.sides[B].host.executed.len(), 10 - open);
            assert_eq!(bench.sides[A].node.room(), 300);
            assert_eq!(bench.sides[A].node.in_doubt(), 0);
        }
    }
}

#[test]
fn a_restarted_peer_forgets_the_kept_exchanges_of_the_other_side() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::TwoPhase, b"kept", 1);
    bench.send(A);
    assert!(bench.deliver(B, 0));
    bench.restart(A);
    bench.lose(0);
    bench.run(2);
    bench.assert_up();
    // The new incarnation starts its slots from the beginning, and they are free.
    for token in 0..20 {
        bench.submit(A, Mode::TwoPhase, b"new", token);
    }
    bench.settle();
    assert!(
        bench.sides[B]
            .host
            .executed
            .iter()
            .all(|(_, payload)| payload == b"new")
    );
    assert_eq!(bench.sides[A].host.completed.len(), 20);
    assert_eq!(bench.sides[B].host.downs(), [DownReason::PeerRestarted]);
}

/// A handshake of an earlier incarnation of the peer arrives late. It may cost the link its epoch,
/// but nothing is forgotten.
#[test]
fn a_handshake_of_an_earlier_incarnation_is_not_another_restart() {
    let mut bench = Bench::new(2);
    bench.carrier(0, true);
    bench.carrier(1, true);
    let mut old = Vec::new();
    for _ in 0..8 {
        for side in [A, B] {
            bench.send(side);
            for cable in [0, 1] {
                while let Some(frame) = bench.cables[cable][1 - side].pop_front() {
                    bench.inject(1 - side, cable, &frame);
                    if side == B {
                        old.push(frame);
                    }
                }
            }
        }
    }
    bench.assert_up();
    bench.restart(B);
    bench.settle();
    bench.run(2);
    bench.assert_up();
    for old in &old {
        for cable in [0, 1] {
            for down in [false, true] {
                bench.submit(A, Mode::TwoPhase, b"kept", 1);
                for side in [A, B, A] {
                    bench.send(side);
                    while bench.deliver(1 - side, 0) || bench.deliver(1 - side, 1) {}
                }
                if down {
                    bench.pull(cable);
                    bench.plug(cable);
                    bench.inject(A, cable, old);
                    bench.send(A);
                    bench.send(B);
                    bench.inject(A, cable, old);
                } else {
                    bench.inject(A, cable, old);
                }
                bench.run(2);
                bench.assert_up();
                let reply = bench.sides[B].host.reply_to(b"kept");
                assert_eq!(
                    bench.sides[A].host.completed.pop(),
                    Some((1, Ending::Committed(reply)))
                );
                assert_eq!(bench.sides[B].host.executed.drain(..).count(), 1);
            }
        }
    }
}

#[test]
fn a_looped_cable_stays_down() {
    let mut bench = Bench::new(2);
    for cable in [0, 1] {
        bench.carrier_at(A, cable, true);
    }
    for _ in 0..5 {
        for cable in [0, 1] {
            bench.send_on(A, cable);
            while let Some(frame) = bench.cables[cable][B].pop_front() {
                bench.inject(A, 1 - cable, &frame);
            }
        }
        bench.tick();
    }
    assert!(bench.link(A, 0).counters.drops.own_guid > 0);
    assert!(
        bench.sides[A]
            .node
            .links()
            .all(|link| link.state == LinkState::Init)
    );
}

/// Two cables are swapped at one end while exchanges are open on both. Latches belong to the
/// initiator's port, so the outcomes are found.
#[test]
fn swapped_cables_keep_every_outcome() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for steps in 1..8 {
            let mut bench = Bench::up(2);
            for token in 0..8 {
                bench.submit(A, mode, &[token as u8], token);
            }
            for step in 0..steps {
                match step % 4 {
                    0 => bench.send(A),
                    1 => drop((bench.deliver(B, 0), bench.deliver(B, 1))),
                    2 => bench.send(B),
                    _ => drop((bench.deliver(A, 0), bench.deliver(A, 1))),
                }
            }
            for cable in [0, 1] {
                bench.pull(cable);
            }
            for cable in [0, 1] {
                bench.plug(cable);
            }
            for _ in 0..60 {
                bench.tick();
                for side in [A, B] {
                    bench.send(side);
                    for cable in [0, 1] {
                        while let Some(frame) = bench.cables[cable][1 - side].pop_front() {
                            bench.inject(1 - side, 1 - cable, &frame);
                        }
                    }
                }
            }
            bench.assert_up();
            assert_eq!(bench.link(A, 0).peer_port, Some(1));
            let mut executed: Vec<u8> = bench.sides[B]
                .host
                .executed
                .iter()
                .map(|(_, payload)| payload[0])
                .collect();
            executed.sort_unstable();
            assert_eq!(
                executed,
                (0..8).collect::<Vec<_>>(),
                "{mode:?} behind step {steps}"
            );
            assert_eq!(bench.sides[A].host.completed.len(), 8);
        }
    }
}

#[test]
fn silence_only_declares_death() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.cut[0] = true;
    bench.run(4);
    assert_eq!(bench.sides[A].host.downs(), [DownReason::PeerSilent]);
    let sent = bench.link(A, 0).counters.tx_records;
    bench.run(50);
    assert_eq!(
        bench.link(A, 0).counters.tx_records,
        sent,
        "no exchange is sent again"
    );
    bench.cut[0] = false;
    bench.run(2);
    assert_eq!(bench.sides[A].host.completed.len(), 1);
}

#[test]
fn an_idle_link_exchanges_keepalives_and_nothing_else() {
    let mut bench = Bench::up(1);
    bench.run(2);
    let sent = bench.link(A, 0).counters.tx_records;
    bench.run(100);
    let keepalives = bench.link(A, 0).counters.tx_records - sent;
    assert!(
        (99..=101).contains(&keepalives),
        "one for each tick, not {keepalives}"
    );
    assert!(bench.sides[A].host.downs().is_empty() && bench.sides[B].host.downs().is_empty());
    assert!(!bench.sides[A].node.has_work(0));
}

#[test]
fn a_failed_transmission_is_a_failed_link() {
    let mut bench = Bench::up(2);
    bench.submit(A, Mode::TwoPhase, b"x", 1);
    bench.send_on(A, 0);
    bench.lose(0);
    let side = &mut bench.sides[A];
    side.node.on_transmit_failed(0, &mut side.host);
    bench.settle();
    assert_eq!(bench.sides[A].host.downs(), [DownReason::TransmitFailed]);
    assert_eq!(
        (
            bench.sides[A].host.completed.len(),
            bench.sides[B].host.executed.len()
        ),
        (1, 1)
    );
    bench.assert_up();
}

#[test]
fn ports_without_a_link_are_counted_and_ignored() {
    let mut bench = Bench::up(1);
    bench.inject(A, 9, &[0; 100]);
    bench.carrier_at(A, 9, true);
    assert_eq!(bench.sides[A].node.frames_without_link(), 1);
    assert!(!bench.sides[A].node.has_work(9));
    assert_eq!(bench.sides[A].node.poll_transmit(9, &mut [0; 2000]), None);
    assert_eq!(
        bench.sides[A].node.poll_transmit(0, &mut [0; 100]),
        None,
        "a buffer that is too short"
    );
    assert!(bench.sides[A].node.add_link(0, [2; 6]).is_err());
}

/// Records, slots and epochs count through their wrap, with keepalives only and with exchanges,
/// over failures.
#[test]
fn counters_wrap_without_a_trace() {
    for before in 0..8 {
        let mut bench = Bench::counting_from(2, 2, u32::MAX - before);
        for cable in [0, 1] {
            bench.carrier(cable, true);
        }
        bench.settle();
        bench.run(before as usize + 4);
        bench.assert_up();
        assert!(
            bench.sides.iter().all(|side| side.host.downs().is_empty()),
            "{before}: {:?}",
            bench.sides[A].host.events
        );
        for round in 0..20 {
            for token in 0..8 {
                bench.submit(A, Mode::TwoPhase, b"x", token);
                bench.submit(B, Mode::OnePhase, b"x", token);
            }
            if round % 2 == 0 {
                bench.settle();
            } else {
                bench.send(A);
                bench.deliver(B, 0);
                bench.pull(0);
                bench.plug(0);
                bench.run(2);
            }
            bench.assert_up();
        }
        for side in &bench.sides {
            assert_eq!(
                (side.host.executed.len(), side.host.completed.len()),
                (160, 160)
            );
            assert_eq!(side.host.downs().len(), 10, "{:?}", side.host.downs());
        }
        assert!(bench.link(A, 0).epoch < 100, "it wrapped");
    }
}
