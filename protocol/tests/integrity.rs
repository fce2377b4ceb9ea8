//! A frame damaged in transit is discarded, wherever the damage is: Ethernet header, records, CRC.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, FRAME_BYTES_MAX, LinkState, Mode,
    wire::{
        frame::{self, FrameWriter},
        message,
        record::{Header, NO_PIGGYBACK, Shape},
        slice::Kind,
    },
};
use proptest::{collection::vec, prelude::*};
use support::{A, B, Bench, headers};

/// A frame with a record of each of these kinds.
fn frame(kinds: &[Kind], number: u32, payload: &[u8; 28]) -> Vec<u8> {
    let mut buffer = [0xee; FRAME_BYTES_MAX];
    let mut writer = FrameWriter::new(&mut buffer).unwrap();
    for (at, &kind) in kinds.iter().enumerate() {
        let header = Header {
            kind,
            yours: number.rotate_left(at as u32),
            epoch: !number,
            record_sequence: number.wrapping_add(at as u32),
            slot_sequence: number,
            slot: number as u8,
            piggyback: NO_PIGGYBACK,
            clock: number.rotate_right(at as u32),
            shape: Shape::whole(28),
        };
        header.write(payload, writer.next_record().unwrap());
    }
    let len = writer.finish([0xff; 6], [2, 0, 0, 0, 0, number as u8], DEFAULT_ETHERTYPE);
    buffer[..len].to_vec()
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let kinds = vec((0..Kind::ALL.len()).prop_map(|at| Kind::ALL[at]), 1..=23);
    (kinds, any::<u32>(), any::<[u8; 28]>())
        .prop_map(|(kinds, number, payload)| frame(&kinds, number, &payload))
}

fn is_discarded(frame: &[u8]) -> bool {
    frame::parse(frame, DEFAULT_ETHERTYPE).is_err()
}

/// Flips a bit; bits are numbered as they pass the cable, the least significant of each byte first.
fn flip(frame: &mut [u8], bit: usize) {
    frame[bit / 8] ^= 1 << (bit % 8);
}

/// Flips the bits that are set in `burst`, starting at `first`. Returns whether they all lie in the
/// frame.
fn strike(frame: &mut [u8], first: usize, burst: u64) -> bool {
    let bits = (0..64).filter(|bit| burst >> bit & 1 == 1);
    let mut inside = true;
    for bit in bits.map(|bit| first + bit) {
        inside &= bit < frame.len() * 8;
        if inside {
            flip(frame, bit);
        }
    }
    inside
}

#[test]
fn any_one_flipped_bit_is_caught() {
    for kind in Kind::ALL {
        for records in [1, 2, 23] {
            let frame = frame(&vec![kind; records], 0x0123_4567, &[0x5a; 28]);
            assert!(!is_discarded(&frame));
            for bit in 0..frame.len() * 8 {
                let mut flipped = frame.clone();
                flip(&mut flipped, bit);
                assert!(
                    is_discarded(&flipped),
                    "bit {bit} of {records} records of {kind:?}"
                );
            }
        }
    }
}

/// Frames as a link sends them, of every kind with a payload: messages of several records,
/// fragments, piggybacked slots, and the last record of a frame, behind which nothing follows.
#[test]
fn any_one_flipped_bit_of_long_messages_is_caught() {
    for kind in Kind::ALL {
        let alone = matches!(kind, Kind::Init | Kind::Keepalive);
        for (bytes, fragment, more) in [(29, 0, false), (300, 3, false), (1084, 1, true)] {
            let shape = if alone {
                Shape::whole(bytes)
            } else {
                Shape::fragment(bytes, fragment, more)
            };
            let mut buffer = [0xee; FRAME_BYTES_MAX];
            let mut writer = FrameWriter::new(&mut buffer).unwrap();
            let header = Header {
                kind,
                yours: 0x89ab_cdef,
                epoch: 3,
                record_sequence: 4,
                slot_sequence: 5,
                slot: 6,
                piggyback: if alone { NO_PIGGYBACK } else { 7 },
                clock: 8,
                shape,
            };
            message::write(&header, &vec![0x5a; bytes], &mut writer);
            let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
            let frame = &mut buffer[..len];
            assert!(!is_discarded(frame));
            for bit in 0..len * 8 {
                flip(frame, bit);
                assert!(
                    is_discarded(frame),
                    "bit {bit} of {bytes} bytes of {kind:?}"
                );
                flip(frame, bit);
            }
            for end in 0..len {
                assert!(is_discarded(&frame[..end]), "{end} bytes of {len}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_two_flipped_bits_are_caught(frame in any_frame(), first in any::<prop::sample::Index>(),
                                       second in any::<prop::sample::Index>()) {
        let bits = frame.len() * 8;
        let (first, second) = (first.index(bits), second.index(bits));
        prop_assume!(first != second);
        let mut flipped = frame;
        flip(&mut flipped, first);
        flip(&mut flipped, second);
        prop_assert!(is_discarded(&flipped), "bits {} and {}", first, second);
    }

    // The guarantee of a CRC-64: no burst of up to 64 bits passes, within one record, across two,
    // or across the Ethernet header and the first record.
    #[test]
    fn any_burst_of_64_bits_is_caught_at_every_place(
        pattern: u64,
        length in 1..=64u32,
        number: u32,
        kind in 0..Kind::ALL.len(),
    ) {
        // The first bit and the last one of a burst are flipped, or it would be a shorter one.
        let burst = pattern & u64::MAX >> (64 - length) | 1 | 1 << (length - 1);
        let frame = frame(&[Kind::ALL[kind]; 3], number, &[0xa5; 28]);
        let mut struck = frame.clone();
        for first in 0..=frame.len() * 8 - length as usize {
            struck.copy_from_slice(&frame);
            prop_assert!(strike(&mut struck, first, burst), "the burst is inside");
            prop_assert!(is_discarded(&struck), "{:#x} from bit {} on", burst, first);
        }
    }

    #[test]
    fn records_out_of_two_frames_make_none(
        one in any_frame(),
        other in any_frame(),
        cut in 0..14usize,
    ) {
        prop_assume!(one[..14] != other[..14]);
        // The addresses of one, the records of the other: whole bytes, each as it was sent.
        let spliced = [&one[..14], &other[14..]].concat();
        prop_assert!(is_discarded(&spliced));
        let spliced = [&one[..cut], &other[cut..]].concat();
        prop_assert!(spliced[..14] == other[..14] || is_discarded(&spliced));
    }
}

proptest! {
    // A CRC that is too short passes one in many, so many are tried.
    #![proptest_config(
        ProptestConfig { cases: 16 * ProptestConfig::default().cases, ..ProptestConfig::default() }
    )]

    #[test]
    fn long_bursts_are_caught(
        frame in any_frame(),
        noise in vec(any::<u64>(), 2..=24),
        first in any::<prop::sample::Index>(),
    ) {
        let mut struck = frame.clone();
        let first = first.index(frame.len() * 8);
        for (at, burst) in noise.iter().enumerate() {
            strike(&mut struck, first + at * 64, *burst);
        }
        prop_assume!(struck != frame);
        prop_assert!(is_discarded(&struck), "from bit {} on", first);
    }

    #[test]
    fn several_bursts_are_caught(
        frame in any_frame(),
        bursts in vec((any::<u64>(), any::<prop::sample::Index>()), 1..8),
    ) {
        let mut struck = frame.clone();
        for (burst, first) in bursts {
            strike(&mut struck, first.index(frame.len() * 8), burst);
        }
        prop_assume!(struck != frame);
        prop_assert!(is_discarded(&struck));
    }
}

#[test]
fn a_flipped_bit_in_a_frame_has_no_effect() {
    let mut bench = Bench::up(1);
    for token in 0..4 {
        bench.submit(A, Mode::OnePhase, &[token as u8; 100], token);
    }
    bench.send(A);
    let frame = bench.cables[0][B].pop_front().unwrap();
    let bits = frame.len() * 8;
    for bit in 0..bits {
        let mut flipped = frame.clone();
        flip(&mut flipped, bit);
        bench.inject(B, 0, &flipped);
    }
    assert!(bench.sides[B].host.executed.is_empty());
    assert_eq!(bench.link(B, 0).counters.drops.total(), bits as u64);
    bench.inject(B, 0, &frame);
    assert_eq!(
        bench.sides[B].host.executed.len(),
        4,
        "the frame itself is welcome"
    );
}

/// A handshake contains the peer's address, to which all later frames go.
#[test]
fn a_flipped_bit_in_a_handshake_is_not_believed() {
    let mut bench = Bench::new(1);
    bench.carrier(0, true);
    let mut handshakes = 0;
    for _ in 0..4 {
        for side in [A, B] {
            bench.send(side);
            while let Some(frame) = bench.cables[0][1 - side].pop_front() {
                assert_eq!(headers(&frame)[0].kind, Kind::Init);
                handshakes += 1;
                let before = bench.link(1 - side, 0).counters.drops.total();
                let bits = frame.len() * 8;
                for bit in 0..bits {
                    let mut flipped = frame.clone();
                    flip(&mut flipped, bit);
                    bench.inject(1 - side, 0, &flipped);
                }
                let link = bench.link(1 - side, 0);
                assert_eq!(link.counters.drops.total() - before, bits as u64);
                bench.inject(1 - side, 0, &frame);
            }
        }
    }
    assert!(handshakes >= 3, "no epoch takes fewer handshakes");
    bench.assert_up();
    for side in [A, B] {
        assert_eq!(bench.link(side, 0).state, LinkState::Up);
        bench.submit(side, Mode::TwoPhase, b"to whom", 1);
        bench.send(side);
        let frame = bench.cables[0][1 - side].pop_front().unwrap();
        assert_eq!(
            frame[..6],
            [2, 0, 0, 0, 1 - side as u8, 0],
            "the address of the other side"
        );
    }
}
