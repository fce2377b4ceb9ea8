//! Frames of a blind forger, which can send on a cable and receives nothing there. And of a
//! neighbor that sends false clocks.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, DownReason, FRAME_BYTES_MAX, LinkState, Mode, Node, NodeConfig,
    wire::{
        frame::FrameWriter,
        record::{Header, NO_PIGGYBACK, Shape},
        slice::Kind,
    },
};
use fastrand::Rng;
use support::{A, B, Bench, Ending, Journal, config, forge, kinds};

/// Offset of the upper half of the clock in the record of a keepalive.
const ERA_AT: usize = 28 + 20;

/// A handshake of `side`.
fn template(side: usize) -> Vec<u8> {
    let mut bench = Bench::new(1);
    bench.carrier(0, true);
    bench.send(side);
    let frame = bench.cables[0][1 - side].pop_front().unwrap();
    assert_eq!(kinds(&frame), [Kind::Init]);
    frame
}

/// A handshake that a blind forger builds from public knowledge: GUIDs, ports, and that epochs are
/// small at first. It claims another node, or a new incarnation of the peer, and echoes some
/// incarnation in some epoch.
fn forged(rng: &mut Rng, template: &[u8]) -> Vec<u8> {
    let small_or_any = |rng: &mut Rng| {
        if rng.bool() {
            rng.u32(..20)
        } else {
            rng.u32(..)
        }
    };
    let mut frame = template.to_vec();
    let epochs = [small_or_any(rng), small_or_any(rng)];
    let guid = (rng.u8(..3) == 0).then(|| rng.u64(1..));
    let [incarnation, echoed] = [rng.u64(1 << 32..), rng.u64(1 << 32..)];
    let (port, flags) = (rng.u16(..3), rng.u8(..4));
    forge(&mut frame, 0, |record| {
        record[8..12].copy_from_slice(&epochs[0].to_le_bytes());
        if let Some(guid) = guid {
            record[28..36].copy_from_slice(&guid.to_le_bytes());
        }
        record[36..44].copy_from_slice(&incarnation.to_le_bytes());
        record[44..52].copy_from_slice(&echoed.to_le_bytes());
        record[52..56].copy_from_slice(&epochs[1].to_le_bytes());
    });
    forge(&mut frame, 1, |record| {
        record[8..10].copy_from_slice(&port.to_le_bytes());
        record[8 + 3] = flags;
    });
    frame
}

fn downs(bench: &Bench) -> u64 {
    let links = [A, B].map(|side| bench.link(side, 0).counters.failures.total());
    links.iter().sum()
}

#[test]
fn a_blind_forger_takes_no_link_down() {
    let templates = [template(B), template(A)];
    let mut bench = Bench::up(1);
    let mut rng = Rng::with_seed(18);
    for round in 0..2000 {
        let side = rng.usize(..2);
        let frame = forged(&mut rng, &templates[side]);
        bench.inject(side, 0, &frame);
        bench.assert_up();
        if round % 20 == 0 {
            bench.tick();
        }
        bench.settle();
        bench.assert_up();
    }
    assert_eq!(downs(&bench), 0);
    for side in [A, B] {
        let counters = bench.link(side, 0).counters;
        assert!(counters.drops.unproven_init > 0, "{counters:?}");
        // The ticks limit the responses to it.
        assert!(
            counters.tx_frames < 100 * 10 + 500,
            "{}",
            counters.tx_frames
        );
    }
    bench.submit(A, Mode::TwoPhase, b"after", 1);
    bench.run(2);
    let reply = bench.sides[B].host.reply_to(b"after");
    assert_eq!(
        bench.sides[A].host.completed,
        [(1, Ending::Committed(reply))]
    );
}

/// One forged handshake per tick at each end, before the ends send anything to each other, and some
/// in between.
#[test]
fn a_blind_forger_keeps_no_link_from_coming_up() {
    let templates = [template(B), template(A)];
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let mut bench = Bench::up(1);
        let strike = |bench: &mut Bench, rng: &mut Rng| {
            for side in [A, B] {
                let frame = forged(rng, &templates[side]);
                bench.inject(side, 0, &frame);
            }
        };
        // The peer is away for a while, and the forger is not.
        bench.pull(0);
        bench.carrier_at(B, 0, true);
        for _ in 0..10 {
            strike(&mut bench, &mut rng);
            bench.tick();
            bench.send(B);
            bench.lose(0);
        }
        bench.cut[0] = false;
        bench.restart(A);
        let mut ticks = 0;
        while [A, B]
            .iter()
            .any(|&side| bench.link(side, 0).state != LinkState::Up)
        {
            strike(&mut bench, &mut rng);
            bench.tick();
            bench.settle();
            ticks += 1;
            assert!(ticks < 4, "seed {seed}");
        }
    }
}

/// An end that is up with an earlier incarnation first requests an echo from the new one. This
/// takes one round trip: three instead of two.
#[test]
fn a_restart_takes_one_round_trip_longer_than_a_failure() {
    for side in [A, B] {
        let mut bench = Bench::up(1);
        bench.restart(side);
        let mut flights = 0;
        let is_up = |bench: &Bench| {
            let [a, b] = [A, B].map(|side| (bench.link(side, 0).state, bench.link(side, 0).epoch));
            a == b && a.0 == LinkState::Up
        };
        while !is_up(&bench) {
            bench.send(A);
            bench.send(B);
            for side in [A, B] {
                for _ in 0..bench.cables[0][side].len() {
                    bench.deliver(side, 0);
                }
            }
            flights += 1;
            assert!(flights <= 6, "more than three round trips");
        }
        let failures = &bench.link(1 - side, 0).counters.failures;
        assert_eq!(failures.get(DownReason::PeerRestarted), 1);
    }
}

/// A node with random first epochs, up with another one over one cable.
fn drawn() -> [(Node, Journal); 2] {
    let mut sides = [A, B].map(|side| {
        let mut node = Node::new(NodeConfig {
            epoch_seed: 7 + side as u64,
            ..config(side, 100 + side as u64, 4)
        });
        node.add_link(0, [2, 0, 0, 0, side as u8, 0]).unwrap();
        let mut host = Journal::default();
        node.on_carrier(0, true, &mut host);
        (node, host)
    });
    let mut buffer = [0; FRAME_BYTES_MAX];
    for _ in 0..20 {
        for side in [A, B] {
            while let Some(len) = sides[side].0.poll_transmit(0, &mut buffer) {
                let (node, host) = &mut sides[1 - side];
                node.on_frame(0, &buffer[..len], host);
            }
        }
    }
    sides
}

/// Records of an epoch that the forger guesses, too.
#[test]
fn an_attacker_without_the_epoch_cannot_send_in_it() {
    let mut sides = drawn();
    let epoch = sides[A].0.links().next().unwrap().epoch;
    assert!(epoch > 1 << 16, "{epoch}");
    let mut rng = Rng::with_seed(3);
    for _ in 0..20_000 {
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut writer = FrameWriter::new(&mut buffer).unwrap();
        let header = Header {
            kind: Kind::ALL[rng.usize(..Kind::ALL.len())],
            yours: rng.u32(..),
            epoch: if rng.bool() {
                rng.u32(..100)
            } else {
                rng.u32(..)
            },
            record_sequence: rng.u32(..100),
            slot_sequence: rng.u32(..100),
            slot: rng.u8(..4),
            piggyback: NO_PIGGYBACK,
            clock: rng.u32(..),
            shape: Shape::whole(0),
        };
        header.write(&[], writer.next_record().unwrap());
        let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
        let (node, host) = &mut sides[rng.usize(..2)];
        node.on_frame(0, &buffer[..len], host);
    }
    for (node, _) in &sides {
        let link = node.links().next().unwrap();
        assert_eq!((link.state, link.epoch), (LinkState::Up, epoch));
    }
}

/// A single frame in which a neighbor claims the end of its clock fails the link, and the clock
/// continues.
#[test]
fn one_frame_sets_no_clock_to_its_end() {
    let mut bench = Bench::up(1);
    bench.tick();
    bench.tick();
    bench.send(A);
    let mut frame = bench.cables[0][B].pop_back().unwrap();
    assert_eq!(kinds(&frame), [Kind::Keepalive]);
    forge(&mut frame, 0, |record| {
        record[ERA_AT..ERA_AT + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    });
    bench.inject(B, 0, &frame);
    bench.submit(A, Mode::OnePhase, b"next", 1);
    bench.send(A);
    while bench.deliver(B, 0) {}
    let link = bench.link(B, 0);
    assert_eq!(link.counters.failures.get(DownReason::ClockLeap), 1);
    assert!(bench.sides[B].node.clock() < 1 << 48);
    // The honest end adopts the accepted part of the clock, and everything continues.
    bench.run(4);
    bench.assert_up();
    let reply = bench.sides[B].host.reply_to(b"next");
    assert_eq!(
        bench.sides[A].host.completed,
        [(1, Ending::Committed(reply))]
    );
    let clocks = [A, B].map(|side| bench.sides[side].node.clock());
    assert!(clocks.iter().all(|&clock| clock < 1 << 48), "{clocks:?}");
}
