//! Bytes without gaps, and the messages in them.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use covalent_pipe::{
    Direction,
    app::BytePipe,
    framing::{Delimited, FixedSize, Frame, Framing, FramingError, LengthPrefixed, Messages},
    nic::{NicPipe, PushRefusal},
};
use proptest::prelude::*;
use support::{Random, memories, packet};

const CAPACITY_BYTES: u64 = 4096;
const USABLE_BYTES: usize = 4096 - 64;

fn pair() -> (NicPipe, BytePipe) {
    let (ours, theirs) = memories(Direction::RxBytes, CAPACITY_BYTES);
    (NicPipe::new(ours), BytePipe::new(theirs).unwrap())
}

#[test]
fn bytes_lie_one_after_the_other_across_the_ring_s_end() {
    let (mut nic, mut app) = pair();
    let mut random = Random(1);
    let (mut pushed, mut taken) = (0_u64, 0_u64);
    while taken < 100_000 {
        let len = 1 + random.below(300) as usize;
        let bytes: Vec<u8> = (0..len as u64).map(|at| (pushed + at) as u8).collect();
        if nic.push(&bytes).is_ok() {
            pushed += len as u64;
        }
        nic.publish();
        if random.below(3) > 0
            && let Some(batch) = app.recv()
        {
            assert_eq!(batch.bytes().len() as u64, pushed - taken);
            let expected: Vec<u8> = (taken..pushed).map(|at| at as u8).collect();
            assert!(batch.bytes() == expected);
            let freed = random.below(pushed - taken + 1);
            batch.free(freed as usize);
            taken += freed;
        }
    }
    assert_eq!(nic.violation(), None);
    assert_eq!(app.violation(), None);
}

#[test]
fn every_byte_of_the_ring_but_sixty_four_can_be_used_and_no_more() {
    let (mut nic, mut app) = pair();
    assert_eq!(
        nic.push(&[1; USABLE_BYTES + 1]),
        Err(PushRefusal::TooLong {
            len: USABLE_BYTES + 1,
            max: USABLE_BYTES
        })
    );
    nic.push(&[1; USABLE_BYTES - 1]).unwrap();
    assert_eq!(nic.push(&[2; 2]), Err(PushRefusal::Full));
    nic.push(&[2]).unwrap();
    assert_eq!(nic.push(&[3]), Err(PushRefusal::Full));
    nic.publish();
    let batch = app.recv().unwrap();
    assert_eq!(batch.bytes().len(), USABLE_BYTES);
    batch.free(1);
    assert_eq!(nic.push(&[]), Err(PushRefusal::Empty));
    nic.push(&[3]).unwrap();
    let counters = app.counters();
    assert_eq!((counters.full, counters.too_long), (2, 1));
}

#[test]
fn confirmed_bytes_are_held_until_they_are_freed() {
    let (mut nic, mut app) = pair();
    nic.push(b"abcdef").unwrap();
    nic.publish();
    app.recv().unwrap().confirm(2);
    assert_eq!(app.held(), b"ab");
    assert_eq!(app.recv().unwrap().bytes(), b"cdef");
    // Only freed bytes belong to the daemon again.
    assert_eq!(nic.free_bytes(), USABLE_BYTES as u64 - 6);
    app.free_held(1);
    assert_eq!(app.held(), b"b");
    assert_eq!(nic.free_bytes(), USABLE_BYTES as u64 - 5);
    // Nothing of the batch is freed, so nothing before it either.
    app.recv().unwrap().free(0);
    assert_eq!(app.held(), b"b");
    // Freeing goes by age.
    app.recv().unwrap().free(3);
    assert_eq!(app.held(), b"");
    assert_eq!(app.recv().unwrap().bytes(), b"f");
    app.recv().unwrap().free_all();
    assert!(app.recv().is_none());
    app.free_held(usize::MAX);
    assert_eq!(nic.free_bytes(), USABLE_BYTES as u64);
}

#[test]
fn peeked_bytes_that_stay_are_no_news() {
    let (mut nic, mut app) = pair();
    nic.push(b"one").unwrap();
    assert_eq!(nic.publish(), Some(3));
    nic.push(b"two").unwrap();
    assert_eq!(nic.publish(), None);
    assert!(app.recv().unwrap().free(3), "the doorbell is needed");
    assert_eq!(nic.on_doorbell(), Ok(None), "the other three were seen");
    nic.push(b"two").unwrap();
    assert_eq!(nic.publish(), Some(9));
    // This holds for each way to leave bytes in the pipe.
    assert!(app.recv().unwrap().keep());
    assert_eq!(nic.on_doorbell(), Ok(None));
    nic.push(b"two").unwrap();
    assert_eq!(nic.publish(), Some(12));
    assert!(app.recv().unwrap().confirm(1));
    assert_eq!(nic.on_doorbell(), Ok(None));
    assert!(
        !app.recv().unwrap().free_all(),
        "the bit is cleared already"
    );
    assert_eq!(nic.on_doorbell(), Ok(None));
    nic.push(b"three").unwrap();
    assert_eq!(nic.publish(), Some(17));
    let counters = app.counters();
    assert_eq!((counters.rx_packets, counters.rx_bytes), (5, 17));
    assert_eq!(counters.notifications_sent, 4);
    assert_eq!(counters.notifications_suppressed, 1);
    assert_eq!(counters.head_updates, 4);
    assert_eq!(counters, nic.counters());
}

/// Pushes `stream` in pieces of random length and reads `framing`'s messages as they become whole.
fn transfer(stream: &[u8], framing: impl Framing, seed: u64) -> Vec<Vec<u8>> {
    let (mut nic, mut app) = pair();
    let mut random = Random(seed);
    let mut got = Vec::new();
    let mut left = stream;
    loop {
        let len = left.len().min(1 + random.below(500) as usize);
        if len > 0 && nic.push(&left[..len]).is_ok() {
            left = &left[len..];
        }
        nic.publish();
        let Some(batch) = app.recv() else {
            assert!(left.is_empty());
            return got;
        };
        let mut messages = batch.messages(&framing);
        got.extend(messages.by_ref().map(<[u8]>::to_vec));
        assert_eq!(messages.error(), None);
        let consumed = messages.consumed_bytes();
        let needs = messages.needs_bytes();
        assert!(needs == 0 || needs > batch.bytes().len() - consumed);
        batch.free(consumed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_arrive_as_they_were_sent(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1000), 0..60),
        seed: u64,
    ) {
        for framing in [
            LengthPrefixed::u16_be(1000),
            LengthPrefixed::u16_le(1000),
            LengthPrefixed::u32_be(1000),
            LengthPrefixed::u32_le(1000),
            LengthPrefixed::u64_be(1000),
            LengthPrefixed::u64_le(1000),
        ] {
            let mut stream = Vec::new();
            for message in &messages {
                stream.extend_from_slice(framing.prefix(message.len()).unwrap().as_bytes());
                stream.extend_from_slice(message);
            }
            prop_assert_eq!(&transfer(&stream, framing, seed), &messages);
        }
        let lines: Vec<Vec<u8>> = messages
            .iter()
            .map(
                |message| message.iter().map(
                    |&byte| if byte == b'\n' { b' ' } else { byte },
                ).collect(),
            )
            .collect();
        let stream: Vec<u8> = lines.iter().flat_map(
            |line| [line.as_slice(), b"\n"].concat(),
        ).collect();
        prop_assert_eq!(&transfer(&stream, Delimited::new(b'\n', 1000), seed), &lines);
        let sized: Vec<Vec<u8>> = (0..messages.len() as u64).map(
            |number| packet(number, 48),
        ).collect();
        prop_assert_eq!(&transfer(&sized.concat(), FixedSize::new(48).unwrap(), seed), &sized);
    }

    /// Untrusted bytes never cause a panic, and the iteration ends.
    #[test]
    fn any_bytes_end_the_walk(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        limit in 0..400_usize,
    ) {
        for framing in [
            LengthPrefixed::u16_be(limit),
            LengthPrefixed::u32_le(limit),
            LengthPrefixed::u64_le(limit),
        ] {
            let mut messages = Messages::new(&bytes, framing);
            prop_assert!(messages.by_ref().count() <= bytes.len());
            prop_assert!(messages.consumed_bytes() <= bytes.len());
            prop_assert!(messages.next().is_none());
        }
        let mut messages = Messages::new(&bytes, Delimited::new(0, limit));
        prop_assert!(messages.by_ref().all(|message| message.len() <= limit));
    }
}

#[test]
fn a_message_that_is_too_long_is_an_error_and_not_a_wait() {
    let mut messages = Messages::new(b"\x00\x01a\x00\x05hello", LengthPrefixed::u16_be(4));
    assert_eq!(messages.next(), Some(&b"a"[..]));
    assert_eq!(messages.next(), None);
    let too_long = FramingError::TooLong {
        len: 5,
        limit_bytes: 4,
    };
    assert_eq!(messages.error(), Some(too_long));
    assert_eq!(messages.consumed_bytes(), 3);
    assert_eq!(
        LengthPrefixed::u16_be(4).prefix(5),
        Err(FramingError::TooLong {
            len: 5,
            limit_bytes: 4
        })
    );
    // A length that does not fit into two bytes is refused for any limit.
    assert!(LengthPrefixed::u16_be(usize::MAX).prefix(65_536).is_err());
    assert_eq!(
        LengthPrefixed::u16_be(usize::MAX)
            .prefix(65_535)
            .unwrap()
            .as_bytes(),
        [255, 255]
    );
    // The greatest length does not overflow.
    let mut messages = Messages::new(&[0xff; 20], LengthPrefixed::u64_be(usize::MAX));
    assert_eq!(messages.next(), None);
    assert!(messages.error().is_some());

    let mut lines = Messages::new(b"ab\nabcd\nabcde", Delimited::new(b'\n', 4));
    assert_eq!(lines.by_ref().collect::<Vec<_>>(), [&b"ab"[..], b"abcd"]);
    assert!(matches!(
        lines.error(),
        Some(FramingError::TooLong { limit_bytes: 4, .. })
    ));
    // A delimiter just behind the limit is in time.
    let mut line = Messages::new(b"abcd\n", Delimited::new(b'\n', 4));
    assert_eq!(line.next(), Some(&b"abcd"[..]));

    assert_eq!(FixedSize::new(0), None);
}

#[test]
fn a_framing_that_makes_no_progress_ends_the_walk() {
    struct Answers(Frame);
    impl Framing for Answers {
        fn frame(&self, _bytes: &[u8]) -> Frame {
            self.0.clone()
        }
    }
    for answer in [
        Frame::Whole {
            payload: 0..0,
            total_bytes: 0,
        },
        Frame::Whole {
            payload: 0..3,
            total_bytes: 5,
        },
        Frame::Whole {
            payload: 0..3,
            total_bytes: 2,
        },
        #[expect(
            clippy::reversed_empty_ranges,
            reason = "a range that it must not return"
        )]
        Frame::Whole {
            payload: 2..1,
            total_bytes: 2,
        },
        Frame::Part { needs_bytes: 4 },
    ] {
        let mut messages = Messages::new(b"1234", Answers(answer.clone()));
        assert_eq!(messages.next(), None, "{answer:?}");
        assert_eq!(
            messages.error(),
            Some(FramingError::Impossible),
            "{answer:?}"
        );
        assert_eq!(messages.consumed_bytes(), 0);
    }
}
